package io.stateprocessor.interop;

import java.nio.charset.StandardCharsets;
import java.util.Set;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.format.DecodingFormat;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.factories.DeserializationFormatFactory;
import org.apache.flink.table.factories.DynamicTableFactory;
import org.apache.flink.table.types.DataType;
import org.apache.flink.types.RowKind;

/** A format of tables whose rows replace those with the same primary key: lines of text columns, such as {@code +U,ada,Rome}. */
public final class ChangesFormat implements DeserializationFormatFactory {

    @Override
    public String factoryIdentifier() {
        return "changes";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of();
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DecodingFormat<DeserializationSchema<RowData>> createDecodingFormat(DynamicTableFactory.Context context, ReadableConfig options) {
        return new DecodingFormat<>() {
            @Override
            public DeserializationSchema<RowData> createRuntimeDecoder(DynamicTableSource.Context source, DataType columns) {
                return new Lines(source.createTypeInformation(columns));
            }

            @Override
            public ChangelogMode getChangelogMode() {
                return ChangelogMode.upsert();
            }
        };
    }

    private static final class Lines implements DeserializationSchema<RowData> {

        private final TypeInformation<RowData> type;

        Lines(TypeInformation<RowData> type) {
            this.type = type;
        }

        @Override
        public RowData deserialize(byte[] line) {
            String[] parts = new String(line, StandardCharsets.UTF_8).split(",");
            GenericRowData row = new GenericRowData(parts.length - 1);
            for (RowKind kind : RowKind.values()) {
                if (kind.shortString().equals(parts[0])) {
                    row.setRowKind(kind);
                }
            }
            for (int i = 1; i < parts.length; i++) {
                row.setField(i - 1, StringData.fromString(parts[i]));
            }
            return row;
        }

        @Override
        public boolean isEndOfStream(RowData row) {
            return false;
        }

        @Override
        public TypeInformation<RowData> getProducedType() {
            return type;
        }
    }
}
