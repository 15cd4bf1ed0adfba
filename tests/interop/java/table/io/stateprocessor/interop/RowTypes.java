package io.stateprocessor.interop;

import java.math.BigDecimal;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericMapData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.DecimalType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.MapType;
import org.apache.flink.table.types.logical.MultisetType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/** {@link TableTypes} where the table API is on the class path. */
public final class RowTypes implements TableTypes {

    private static final ClassLoader LOADER = RowTypes.class.getClassLoader();

    @Override
    public TypeInformation<?> type(String fields) {
        return InternalTypeInfo.of(parse(fields));
    }

    @Override
    public Object plain(String fields, Object row) {
        return row(parse(fields), (RowData) row);
    }

    @Override
    public Object made(String fields, JsonNode json) {
        return made(parse(fields), json);
    }

    private static Object made(LogicalType type, JsonNode json) {
        if (json.isNull()) {
            return null;
        }
        return switch (type.getTypeRoot()) {
            case BOOLEAN -> json.asBoolean();
            case TINYINT -> (byte) json.asInt();
            case SMALLINT -> (short) json.asInt();
            case INTEGER, DATE, TIME_WITHOUT_TIME_ZONE, INTERVAL_YEAR_MONTH -> json.asInt();
            case BIGINT, INTERVAL_DAY_TIME -> json.asLong();
            case FLOAT -> Float.valueOf(json.asText());
            case DOUBLE -> Double.valueOf(json.asText());
            case CHAR, VARCHAR -> StringData.fromString(json.asText());
            case BINARY, VARBINARY -> HexFormat.of().parseHex(json.asText());
            case DECIMAL -> DecimalData.fromBigDecimal(
                    new BigDecimal(json.asText()), ((DecimalType) type).getPrecision(), ((DecimalType) type).getScale());
            case TIMESTAMP_WITHOUT_TIME_ZONE, TIMESTAMP_WITH_LOCAL_TIME_ZONE ->
                    TimestampData.fromLocalDateTime(LocalDateTime.parse(json.asText()));
            case ARRAY -> {
                List<Object> elements = new ArrayList<>();
                json.forEach(element -> elements.add(made(((ArrayType) type).getElementType(), element)));
                yield new GenericArrayData(elements.toArray());
            }
            case MAP -> {
                Map<Object, Object> entries = new LinkedHashMap<>();
                json.forEach(entry -> entries.put(
                        made(((MapType) type).getKeyType(), entry.get(0)), made(((MapType) type).getValueType(), entry.get(1))));
                yield new GenericMapData(entries);
            }
            case ROW -> {
                GenericRowData row = new GenericRowData(json.get("fields").size());
                for (RowKind kind : RowKind.values()) {
                    if (kind.shortString().equals(json.get("kind").asText())) {
                        row.setRowKind(kind);
                    }
                }
                for (int i = 0; i < row.getArity(); i++) {
                    row.setField(i, made(((RowType) type).getTypeAt(i), json.get("fields").get(i)));
                }
                yield row;
            }
            default -> throw new IllegalArgumentException("cannot make a " + type + " of " + json);
        };
    }

    private static RowType parse(String fields) {
        return (RowType) LogicalTypeParser.parse("ROW<" + fields + ">", LOADER);
    }

    private static Object plain(LogicalType type, Object value) {
        if (value instanceof RowData v) {
            return row((RowType) type, v);
        } else if (value instanceof ArrayData v) {
            return elements(((ArrayType) type).getElementType(), v);
        } else if (value instanceof MapData v) {
            return type instanceof MultisetType t
                    ? entries(new MapType(t.getElementType(), new IntType(false)), v)
                    : entries((MapType) type, v);
        } else if (value instanceof StringData || value instanceof DecimalData || value instanceof TimestampData) {
            return value.toString();
        }
        return value;
    }

    private static Row row(RowType type, RowData row) {
        Row fields = Row.withPositions(row.getRowKind(), row.getArity());
        for (int i = 0; i < row.getArity(); i++) {
            LogicalType field = type.getTypeAt(i);
            fields.setField(i, plain(field, RowData.createFieldGetter(field, i).getFieldOrNull(row)));
        }
        return fields;
    }

    private static List<Object> elements(LogicalType type, ArrayData array) {
        List<Object> elements = new ArrayList<>();
        ArrayData.ElementGetter getter = ArrayData.createElementGetter(type);
        for (int i = 0; i < array.size(); i++) {
            elements.add(plain(type, getter.getElementOrNull(array, i)));
        }
        return elements;
    }

    private static Map<Object, Object> entries(MapType type, MapData map) {
        Map<Object, Object> entries = new LinkedHashMap<>();
        List<Object> values = elements(type.getValueType(), map.valueArray());
        List<Object> keys = elements(type.getKeyType(), map.keyArray());
        for (int i = 0; i < keys.size(); i++) {
            entries.put(keys.get(i), values.get(i));
        }
        return entries;
    }
}
