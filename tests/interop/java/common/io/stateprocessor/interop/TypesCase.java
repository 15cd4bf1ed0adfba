package io.stateprocessor.interop;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.sql.Time;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/** A state of each type, with the values at the edges of it, and the kinds of state that the other cases lack. */
final class TypesCase extends FixtureCase {

    /** A type and values of it. */
    record Specimen(String name, String type, List<?> values) {}

    private static final List<Specimen> SPECIMENS = new ArrayList<>();

    private static void add(String name, String type, Object... values) {
        SPECIMENS.add(new Specimen(name, type, Arrays.asList(values)));
    }

    static {
        add("boolean", "BOOLEAN", true, false);
        add("byte", "BYTE", Byte.MIN_VALUE, (byte) -1, Byte.MAX_VALUE);
        add("short", "SHORT", Short.MIN_VALUE, (short) 258, Short.MAX_VALUE);
        add("int", "INT", Integer.MIN_VALUE, -1, 0, Integer.MAX_VALUE);
        add("long", "LONG", Long.MIN_VALUE, -1L, 9007199254740993L, Long.MAX_VALUE);
        add("float", "FLOAT", -0.0f, 1.5f, Float.NaN, Float.MIN_VALUE, Float.NEGATIVE_INFINITY);
        add("double", "DOUBLE", -0.0, 0.1, Double.NaN, Double.MIN_VALUE, Double.MAX_VALUE, Double.POSITIVE_INFINITY);
        add("char", "CHAR", 'a', '\u0000', 'é', '字');
        add("string", "STRING", "", "plain", "ünïcödé ✓", "emoji 😀", "nul\u0000\u007f\u0080\u3fff\u4000", "x".repeat(300));
        add("big-dec", "BIG_DEC", new BigDecimal("0"), new BigDecimal("-1.00"), new BigDecimal("1E-20"),
                new BigDecimal("12345678901234567890.123456789"));
        add("big-int", "BIG_INT", BigInteger.ZERO, BigInteger.ONE.negate(), BigInteger.TWO.pow(100));
        add("date", "DATE", new Date(0), new Date(-1), new Date(START + 123));
        add("sql-date", "SQL_DATE", java.sql.Date.valueOf("1970-01-01"), java.sql.Date.valueOf("2024-02-29"));
        add("sql-time", "SQL_TIME", Time.valueOf("00:00:00"), Time.valueOf("23:59:59"));
        add("sql-timestamp", "SQL_TIMESTAMP", Timestamp.valueOf("1969-12-31 23:59:59.5"), Timestamp.valueOf("2024-01-01 12:00:00.123456789"));
        add("local-date", "LOCAL_DATE", LocalDate.of(1, 1, 1), LocalDate.of(2024, 2, 29), LocalDate.of(9999, 12, 31));
        add("local-time", "LOCAL_TIME", LocalTime.MIDNIGHT, LocalTime.of(1, 2), LocalTime.MAX);
        add("local-date-time", "LOCAL_DATE_TIME", LocalDateTime.of(1969, 12, 31, 1, 2), LocalDateTime.of(2024, 1, 1, 0, 0, 0, 123456789));
        add("instant", "INSTANT", Instant.EPOCH, Instant.ofEpochSecond(-1, 999_999_999), Instant.ofEpochSecond(1_704_067_200, 1000));
        add("bytes", "BYTES", new byte[0], new byte[] {0, 1, -1, 127, -128});
        add("boolean-array", "BOOLEAN_ARRAY", new boolean[0], new boolean[] {true, false});
        add("short-array", "SHORT_ARRAY", new short[0], new short[] {1, -2});
        add("int-array", "INT_ARRAY", new int[0], new int[] {1, -2, Integer.MAX_VALUE});
        add("long-array", "LONG_ARRAY", new long[0], new long[] {1, Long.MIN_VALUE});
        add("float-array", "FLOAT_ARRAY", new float[0], new float[] {0.5f, Float.NaN});
        add("double-array", "DOUBLE_ARRAY", new double[0], new double[] {0.1, -0.0});
        add("char-array", "CHAR_ARRAY", new char[0], new char[] {'a', 'é'});
        add("string-array", "STRING_ARRAY", new String[0], new String[] {"a", null, "ü"});
        add("boxed-long-array", "BOXED_LONG_ARRAY", new Long[0], new Long[] {1L, null, -1L});
        add("tuple", "TUPLE<STRING,INT,DOUBLE>", Tuple3.of("a", 1, 0.5), Tuple3.of("", -1, Double.NaN));
        add("row", "ROW<name:STRING,count:LONG,inner:ROW<a:INT,b:STRING>>",
                Row.ofKind(RowKind.UPDATE_BEFORE, "before", 1L, Row.of(7, null)), Row.ofKind(RowKind.UPDATE_AFTER, null, null, null),
                Row.ofKind(RowKind.DELETE, "gone", -1L, Row.ofKind(RowKind.INSERT, null, "b")));
        add("row-positional", "ROW<STRING,INT>", Row.of("a", 1), Row.of(null, -1));
        add("list", "LIST<STRING>", List.of(), List.of("a", "b"), Arrays.asList("a", null));
        add("map", "MAP<STRING,LONG>", Map.of(), map("a", 1L, "b", null));
        add("nested", "MAP<STRING,LIST<TUPLE<INT,STRING>>>", map("a", List.of(Tuple2.of(1, "x"), Tuple2.of(2, "y")), "b", List.of()));
        add("either", "EITHER<STRING,LONG>", Either.Left("left"), Either.Right(42L));
        add("enum", "ENUM<" + Tier.class.getName() + ">", Tier.BRONZE, Tier.GOLD);
        add("nullable", "NULLABLE<LONG>", 1L, -1L);
        add("pojo", "POJO<" + Address.class.getName() + ">", new Address("Mill Lane 1", "Oslo", 1234), new Address(null, null, -1));
        add("object-array", "OBJECT_ARRAY<POJO<" + Address.class.getName() + ">>",
                new Address[0], new Address[] {new Address("a", "b", 1), null});
    }

    static List<Specimen> specimens() {
        return SPECIMENS;
    }

    private static Map<Object, Object> map(Object... keysAndValues) {
        Map<Object, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < keysAndValues.length; i += 2) {
            map.put(keysAndValues[i], keysAndValues[i + 1]);
        }
        return map;
    }

    @Override
    String name() {
        return "types";
    }

    @Override
    List<OperatorSpec> operators() {
        StateSpec[] values =
                SPECIMENS.stream().map(s -> StateSpec.of(StateSpec.Kind.VALUE, s.name(), s.type())).toArray(StateSpec[]::new);
        return List.of(
                new OperatorSpec("types", "INT", values),
                new OperatorSpec(
                        "kinds",
                        "TUPLE<STRING,LONG>",
                        StateSpec.of(StateSpec.Kind.REDUCING, "sum", "LONG"),
                        StateSpec.of(StateSpec.Kind.AGGREGATING, "average", "TUPLE<LONG,LONG>"),
                        StateSpec.of(StateSpec.Kind.LIST, "addresses", "POJO<" + Address.class.getName() + ">"),
                        StateSpec.map(StateSpec.Kind.MAP, "by-day", "LOCAL_DATE", "ROW<a:INT,b:STRING>"),
                        StateSpec.of(StateSpec.Kind.LIST, "ttl-list", "LONG").withTtl(),
                        StateSpec.map(StateSpec.Kind.MAP, "ttl-map", "STRING", "STRING").withTtl(),
                        StateSpec.timers(StateSpec.Kind.EVENT_TIMER),
                        StateSpec.timers(StateSpec.Kind.PROCESSING_TIMER)));
    }

    @Override
    List<Step> steps() {
        List<Step> steps = new ArrayList<>();
        for (Specimen specimen : SPECIMENS) {
            for (int key = 0; key < specimen.values().size(); key++) {
                steps.add(new Step("types", specimen.name(), key, specimen.values().get(key)));
            }
        }
        for (int i = 0; i < 24; i++) {
            Tuple2<String, Long> key = Tuple2.of("tenant-" + i % 3, (long) i % 8);
            steps.add(new Step("kinds", "sum", key, 1L << i));
            steps.add(new Step("kinds", "average", key, (long) i));
            steps.add(new Step("kinds", "addresses", key, new Address("Mill Lane " + i, i % 2 == 0 ? "Oslo" : null, i)));
            steps.add(new Step("kinds", "by-day", key, Map.entry(LocalDate.of(2024, 1, 1 + i), Row.of(i, "day " + i))));
            steps.add(new Step("kinds", "ttl-list", key, (long) -i));
            steps.add(new Step("kinds", "ttl-map", key, Map.entry("k" + i % 5, "v" + i)));
            steps.add(new Step("kinds", Model.EVENT_TIMER, key, START + i));
            steps.add(new Step("kinds", Model.PROCESSING_TIMER, key, 4_102_444_800_000L + i)); // in the year 2100
        }
        return steps;
    }

    @Override
    long watermark() {
        return START + 4;
    }
}
