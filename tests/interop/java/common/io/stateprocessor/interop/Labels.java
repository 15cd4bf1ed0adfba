package io.stateprocessor.interop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.flink.api.common.typeinfo.BasicArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.BasicTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.api.java.typeutils.EnumTypeInfo;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.api.java.typeutils.PojoTypeInfo;
import org.apache.flink.api.java.typeutils.runtime.NullableSerializer;
import org.apache.flink.api.java.typeutils.runtime.TupleSerializer;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer;

/**
 * Types as text, the way expected.json writes them: {@code LONG}, {@code MAP<STRING,LONG>}, {@code ROW<name:STRING,age:INT>},
 * {@code POJO<io.stateprocessor.interop.Profile>}.
 */
final class Labels {

    private static final Map<String, TypeInformation<?>> ATOMS =
            Map.ofEntries(
                    Map.entry("BOOLEAN", Types.BOOLEAN),
                    Map.entry("BYTE", Types.BYTE),
                    Map.entry("SHORT", Types.SHORT),
                    Map.entry("INT", Types.INT),
                    Map.entry("LONG", Types.LONG),
                    Map.entry("FLOAT", Types.FLOAT),
                    Map.entry("DOUBLE", Types.DOUBLE),
                    Map.entry("CHAR", Types.CHAR),
                    Map.entry("STRING", Types.STRING),
                    Map.entry("BIG_DEC", Types.BIG_DEC),
                    Map.entry("BIG_INT", Types.BIG_INT),
                    Map.entry("DATE", BasicTypeInfo.DATE_TYPE_INFO),
                    Map.entry("SQL_DATE", Types.SQL_DATE),
                    Map.entry("SQL_TIME", Types.SQL_TIME),
                    Map.entry("SQL_TIMESTAMP", Types.SQL_TIMESTAMP),
                    Map.entry("LOCAL_DATE", Types.LOCAL_DATE),
                    Map.entry("LOCAL_TIME", Types.LOCAL_TIME),
                    Map.entry("LOCAL_DATE_TIME", Types.LOCAL_DATE_TIME),
                    Map.entry("INSTANT", Types.INSTANT),
                    Map.entry("BYTES", Types.PRIMITIVE_ARRAY(Types.BYTE)),
                    Map.entry("BOOLEAN_ARRAY", Types.PRIMITIVE_ARRAY(Types.BOOLEAN)),
                    Map.entry("SHORT_ARRAY", Types.PRIMITIVE_ARRAY(Types.SHORT)),
                    Map.entry("INT_ARRAY", Types.PRIMITIVE_ARRAY(Types.INT)),
                    Map.entry("LONG_ARRAY", Types.PRIMITIVE_ARRAY(Types.LONG)),
                    Map.entry("FLOAT_ARRAY", Types.PRIMITIVE_ARRAY(Types.FLOAT)),
                    Map.entry("DOUBLE_ARRAY", Types.PRIMITIVE_ARRAY(Types.DOUBLE)),
                    Map.entry("CHAR_ARRAY", Types.PRIMITIVE_ARRAY(Types.CHAR)),
                    Map.entry("STRING_ARRAY", BasicArrayTypeInfo.STRING_ARRAY_TYPE_INFO),
                    Map.entry("BOXED_LONG_ARRAY", BasicArrayTypeInfo.LONG_ARRAY_TYPE_INFO));

    /** Types of the table API, which few class paths have. */
    private static final Supplier<TableTypes> TABLE =
            () -> {
                try {
                    return (TableTypes) load("io.stateprocessor.interop.RowTypes").getConstructor().newInstance();
                } catch (ReflectiveOperationException e) {
                    throw new IllegalStateException("the table API is not on the class path", e);
                }
            };

    /** The type that a label names. */
    @SuppressWarnings("unchecked")
    static TypeInformation<Object> type(String label) {
        return (TypeInformation<Object>) parse(label);
    }

    /** The serializer that a label names, which for namespaces and NULLABLE there is no type information of. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static TypeSerializer<Object> serializer(String label) {
        String[] parts = split(label);
        TypeSerializer<?> serializer =
                switch (parts[0]) {
                    case "VOID_NAMESPACE" -> VoidNamespaceSerializer.INSTANCE;
                    case "TIME_WINDOW" -> new TimeWindow.Serializer();
                    case "GLOBAL_WINDOW" -> new GlobalWindow.Serializer();
                    case "NULLABLE" -> NullableSerializer.wrap(serializer(parts[1]), false);
                    case "STREAM_RECORD" -> (TypeSerializer) new StreamElementSerializer<>(serializer(parts[1]));
                    // The type information of a tuple of windows would need one of windows.
                    case "TUPLE" -> {
                        TypeSerializer<?>[] fields =
                                arguments(parts[1]).stream().map(Labels::serializer).toArray(TypeSerializer[]::new);
                        yield new TupleSerializer(org.apache.flink.api.java.tuple.Tuple.getTupleClass(fields.length), fields);
                    }
                    default -> Compat.serializer(type(label));
                };
        return (TypeSerializer<Object>) serializer;
    }

    /** A value whose rows of the table API, which do not know their fields' types, are rows that do. */
    static Object plain(String label, Object value) {
        if (label == null || value == null || !label.contains("ROW_DATA")) {
            return value;
        }
        String[] parts = split(label);
        List<String> inside = arguments(parts[1]);
        return switch (parts[0]) {
            case "ROW_DATA" -> TABLE.get().plain(parts[1], value);
            case "LIST" -> ((List<?>) value).stream().map(element -> plain(inside.get(0), element)).toList();
            case "TUPLE" -> {
                Tuple fields = Tuple.newInstance(inside.size());
                for (int i = 0; i < inside.size(); i++) {
                    fields.setField(plain(inside.get(i), ((Tuple) value).getField(i)), i);
                }
                yield fields;
            }
            case "MAP" -> {
                Map<Object, Object> entries = new LinkedHashMap<>();
                ((Map<?, ?>) value).forEach((k, v) -> entries.put(plain(inside.get(0), k), plain(inside.get(1), v)));
                yield entries;
            }
            default -> throw new IllegalArgumentException("rows of the table API inside of " + label);
        };
    }

    /** A row of the table API from JSON, if that is what the label names; else null. */
    static Object rowOfTable(String label, JsonNode json) {
        return label.startsWith("ROW_DATA<") ? TABLE.get().made(split(label)[1], json) : null;
    }

    private static TypeInformation<?> parse(String label) {
        String[] parts = split(label);
        if (parts[1] == null) {
            if (!ATOMS.containsKey(label)) {
                throw new IllegalArgumentException("no type is called " + label);
            }
            return ATOMS.get(label);
        }
        List<String> arguments = arguments(parts[1]);
        return switch (parts[0]) {
            case "TUPLE" -> Types.TUPLE(types(arguments));
            case "ROW" -> row(arguments);
            case "LIST" -> Types.LIST(parse(arguments.get(0)));
            case "MAP" -> Types.MAP(parse(arguments.get(0)), parse(arguments.get(1)));
            case "EITHER" -> Types.EITHER(parse(arguments.get(0)), parse(arguments.get(1)));
            case "OBJECT_ARRAY" -> Types.OBJECT_ARRAY(parse(arguments.get(0)));
            case "ENUM" -> enumeration(parts[1]);
            case "ROW_DATA" -> TABLE.get().type(parts[1]);
            case "KRYO" -> new GenericTypeInfo<>(load(parts[1]));
            case "POJO" -> pojo(parts[1]);
            default -> throw new IllegalArgumentException("no type is called " + label);
        };
    }

    private static TypeInformation<?> row(List<String> fields) {
        if (fields.stream().noneMatch(field -> field.split("<", 2)[0].contains(":"))) {
            return Types.ROW(types(fields));
        }
        String[] names = fields.stream().map(field -> field.split(":", 2)[0]).toArray(String[]::new);
        return Types.ROW_NAMED(names, types(fields.stream().map(field -> field.split(":", 2)[1]).toList()));
    }

    private static TypeInformation<?> pojo(String className) {
        TypeInformation<?> type = TypeInformation.of(load(className));
        if (!(type instanceof PojoTypeInfo)) {
            throw new IllegalArgumentException(className + " is no POJO to Flink, but " + type);
        }
        return type;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static TypeInformation<?> enumeration(String className) {
        return new EnumTypeInfo(load(className));
    }

    private static TypeInformation<?>[] types(List<String> labels) {
        return labels.stream().map(Labels::parse).toArray(TypeInformation[]::new);
    }

    private static Class<?> load(String className) {
        try {
            return Class.forName(className);
        } catch (ClassNotFoundException e) {
            throw new IllegalArgumentException("no class " + className, e);
        }
    }

    /** {@code NAME<rest>} as name and rest; the rest is null where there is none. */
    private static String[] split(String label) {
        int open = label.indexOf('<');
        return open < 0
                ? new String[] {label, null}
                : new String[] {label.substring(0, open), label.substring(open + 1, label.length() - 1)};
    }

    /** The parts between the commas that stand in no inner brackets. */
    private static List<String> arguments(String text) {
        List<String> parts = new ArrayList<>();
        int depth = 0;
        int start = 0;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            depth += c == '<' ? 1 : c == '>' ? -1 : 0;
            if (c == ',' && depth == 0) {
                parts.add(text.substring(start, i));
                start = i + 1;
            }
        }
        parts.add(text.substring(start));
        return parts;
    }

    private Labels() {}
}
