package io.stateprocessor.interop;

import static io.stateprocessor.interop.SnapshotSpecimens.instance;
import static io.stateprocessor.interop.SnapshotSpecimens.make;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.dataview.ListView;
import org.apache.flink.table.api.dataview.MapView;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericMapData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RawValueData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.runtime.typeutils.BinaryRowDataSerializer;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.VarCharType;

/** The serializers of the table API with a value each. */
final class TableSpecimens {

    /** One of them. */
    record Specimen(Callable<?> serializer, Callable<?> value) {}

    private static final String TABLE = "org.apache.flink.table.runtime.typeutils.";
    private static final String PYTHON = TABLE + "serializers.python.";
    private static final String DATA_VIEW = "org.apache.flink.table.dataview.";
    private static final String WINDOWS = "org.apache.flink.table.runtime.operators.window.";
    private static final String MULTISET = "org.apache.flink.table.runtime.sequencedmultisetstate.linked.";
    private static final LogicalType INT = new IntType();
    private static final LogicalType TEXT = new VarCharType(VarCharType.MAX_LENGTH);
    private static final LogicalType[] FIELDS = {new BigIntType(), TEXT};

    private static GenericRowData row() {
        return GenericRowData.of(42L, StringData.fromString("forty-two"));
    }

    private static BinaryRowData binaryRow() {
        return new RowDataSerializer(FIELDS).toBinaryRow(row()).copy();
    }

    private static GenericMapData map() {
        Map<Object, Object> map = new HashMap<>();
        map.put(StringData.fromString("key"), 7);
        return new GenericMapData(map);
    }

    static Map<String, Specimen> all() {
        Map<String, Specimen> all = new LinkedHashMap<>();
        all.put("string-data", new Specimen(() -> instance(TABLE + "StringDataSerializer"), () -> StringData.fromString("größe")));
        all.put("decimal-data", new Specimen(() -> make(TABLE + "DecimalDataSerializer", 10, 2), () -> decimal(10)));
        all.put("decimal-data-wide", new Specimen(() -> make(TABLE + "DecimalDataSerializer", 30, 2), () -> decimal(30)));
        all.put("timestamp-data", new Specimen(() -> make(TABLE + "TimestampDataSerializer", 3), () -> TimestampData.fromEpochMillis(1_704_067_200_123L)));
        all.put("timestamp-data-nanos", new Specimen(() -> make(TABLE + "TimestampDataSerializer", 9), () -> TimestampData.fromEpochMillis(-1, 999_999)));
        all.put("raw-value-data", new Specimen(() -> make(TABLE + "RawValueDataSerializer", StringSerializer.INSTANCE), () -> RawValueData.fromObject("raw")));
        all.put("row-data", new Specimen(() -> new RowDataSerializer(FIELDS), TableSpecimens::row));
        all.put("binary-row-data", new Specimen(() -> new BinaryRowDataSerializer(2), TableSpecimens::binaryRow));
        all.put("array-data", new Specimen(() -> make(TABLE + "ArrayDataSerializer", INT), () -> new GenericArrayData(new Integer[] {1, null, 3})));
        all.put("map-data", new Specimen(() -> make(TABLE + "MapDataSerializer", TEXT, INT), TableSpecimens::map));
        all.put("window-key", new Specimen(() -> make(TABLE + "WindowKeySerializer", new RowDataSerializer(FIELDS)),
                () -> make("org.apache.flink.table.runtime.util.WindowKey", 12345L, binaryRow())));
        all.put("list-view", new Specimen(() -> make("org.apache.flink.table.dataview.ListViewSerializer", new org.apache.flink.api.common.typeutils.base.ListSerializer<>(StringSerializer.INSTANCE)), TableSpecimens::listView));
        all.put("map-view", new Specimen(() -> make(DATA_VIEW + "MapViewSerializer", new org.apache.flink.api.common.typeutils.base.MapSerializer<>(StringSerializer.INSTANCE, LongSerializer.INSTANCE)), TableSpecimens::mapView));
        all.put("null-aware-map", new Specimen(() -> make(DATA_VIEW + "NullAwareMapSerializer", StringSerializer.INSTANCE, LongSerializer.INSTANCE), TableSpecimens::nullKeys));
        all.put("null", new Specimen(() -> instance(DATA_VIEW + "NullSerializer"), () -> null));
        all.put("sorted-map", new Specimen(
                () -> make(TABLE + "SortedMapSerializer", make(TABLE + "SortedMapTypeInfo$ComparableComparator"), StringSerializer.INSTANCE, LongSerializer.INSTANCE),
                () -> new java.util.TreeMap<>(Map.of("key", 42L))));
        all.put("sorted-long", new Specimen(() -> instance("org.apache.flink.table.runtime.operators.sink.SortedLongSerializer"), () -> 42L));
        all.put("table-time-window", new Specimen(() -> make(WINDOWS + "TimeWindow$Serializer"), () -> make(WINDOWS + "TimeWindow", 12345L, 67890L)));
        all.put("table-count-window", new Specimen(() -> make(WINDOWS + "CountWindow$Serializer"), () -> make(WINDOWS + "CountWindow", 42L)));
        all.put("table-global-window", new Specimen(() -> make(WINDOWS + "GlobalWindow$Serializer"), () -> Class.forName(WINDOWS + "GlobalWindow").getMethod("get").invoke(null)));
        all.put("external", new Specimen(TableSpecimens::external, () -> org.apache.flink.types.Row.of(42L, "forty-two")));
        all.put("sequence-meta", new Specimen(() -> make(MULTISET + "MetaSqnInfoSerializer"), () -> make(MULTISET + "MetaSqnInfo", 42L, 43L)));
        all.put("sequence-row", new Specimen(() -> make(MULTISET + "RowSqnInfoSerializer"), () -> make(MULTISET + "RowSqnInfo", 42L, 43L)));
        all.put("sequence-node", new Specimen(() -> make(MULTISET + "NodeSerializer", new RowDataSerializer(FIELDS)),
                () -> make(MULTISET + "Node", row(), 42L, 41L, 43L, 44L, 1_704_067_200_000L)));
        all.put("python-string", new Specimen(() -> instance(PYTHON + "StringSerializer"), () -> "größe"));
        all.put("python-decimal", new Specimen(() -> make(PYTHON + "DecimalDataSerializer", 10, 2), () -> decimal(10)));
        all.put("python-timestamp", new Specimen(() -> make(PYTHON + "TimestampSerializer", 3), () -> java.sql.Timestamp.valueOf("2024-01-01 00:00:00.123")));
        all.put("python-row", new Specimen(() -> make(PYTHON + "RowDataSerializer", FIELDS, nested(LongSerializer.INSTANCE, TABLE + "StringDataSerializer")), TableSpecimens::row));
        all.put("python-array", new Specimen(() -> make(PYTHON + "ArrayDataSerializer", INT, IntSerializer.INSTANCE), () -> new GenericArrayData(new Integer[] {1, null, 3})));
        all.put("python-map", new Specimen(() -> make(PYTHON + "MapDataSerializer", TEXT, INT, instance(TABLE + "StringDataSerializer"), IntSerializer.INSTANCE), TableSpecimens::map));
        return all;
    }

    private static Object nested(Object first, String second) throws ReflectiveOperationException {
        return new org.apache.flink.api.common.typeutils.TypeSerializer<?>[] {
            (org.apache.flink.api.common.typeutils.TypeSerializer<?>) first, (org.apache.flink.api.common.typeutils.TypeSerializer<?>) instance(second)
        };
    }

    private static DecimalData decimal(int precision) {
        return DecimalData.fromBigDecimal(new java.math.BigDecimal("-123.45"), precision, 2);
    }

    private static Object listView() throws Exception {
        ListView<String> view = new ListView<>();
        view.addAll(List.of("Apache", "Flink"));
        return view;
    }

    private static Object mapView() throws Exception {
        MapView<String, Long> view = new MapView<>();
        view.put("key", 42L);
        return view;
    }

    private static Object nullKeys() {
        Map<String, Long> map = new HashMap<>();
        map.put("key", 42L);
        map.put(null, 43L);
        return map;
    }

    private static Object external() throws ReflectiveOperationException {
        var type = DataTypes.ROW(DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("name", DataTypes.STRING()));
        return Class.forName(TABLE + "ExternalSerializer").getMethod("of", org.apache.flink.table.types.DataType.class).invoke(null, type);
    }

    private TableSpecimens() {}
}
