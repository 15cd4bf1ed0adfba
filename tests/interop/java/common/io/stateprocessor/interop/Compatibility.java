package io.stateprocessor.interop;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.EnumSerializer;
import org.apache.flink.api.common.typeutils.base.GenericArraySerializer;
import org.apache.flink.api.common.typeutils.base.ListSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.MapSerializer;
import org.apache.flink.api.java.typeutils.TypeExtractor;
import org.apache.flink.api.java.typeutils.runtime.EitherSerializer;
import org.apache.flink.api.java.typeutils.runtime.NullableSerializer;
import org.apache.flink.api.java.typeutils.runtime.RowSerializer;
import org.apache.flink.api.java.typeutils.runtime.TupleSerializer;
import org.apache.flink.core.memory.DataInputViewStreamWrapper;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * Flink's verdicts on going on with another serializer: {@code Compatibility PAIRS ANSWERS}.
 *
 * <p>PAIRS is a JSON list of pairs of type descriptions, written and wanted. ANSWERS gets the verdicts in that order, and the
 * snapshot of every description.
 */
public final class Compatibility {

    private static final String AVRO = "AVRO ";
    private static final String TABLE = "org.apache.flink.table.runtime.typeutils.";
    private static final String SCALA = "org.apache.flink.api.scala.typeutils.";

    /** Serializers that are made of nested ones alone. */
    private static final Map<String, String> COMPOSITES =
            Map.ofEntries(
                    Map.entry("SET", "org.apache.flink.api.common.typeutils.base.SetSerializer"),
                    Map.entry("TTL", "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializer"),
                    Map.entry("TIMER", "org.apache.flink.streaming.api.operators.TimerSerializer"),
                    Map.entry("STREAM_ELEMENT", "org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer"),
                    Map.entry("TAGGED_UNION", "org.apache.flink.streaming.api.datastream.CoGroupedStreams$UnionSerializer"),
                    Map.entry("BUFFER_ENTRY", "org.apache.flink.streaming.api.operators.co.IntervalJoinOperator$BufferEntrySerializer"),
                    Map.entry("LOCKABLE", "org.apache.flink.cep.nfa.sharedbuffer.Lockable$LockableTypeSerializer"),
                    Map.entry("NFA_STATE", "org.apache.flink.cep.nfa.NFAStateSerializer"),
                    Map.entry("SHARED_BUFFER_NODE", "org.apache.flink.cep.nfa.sharedbuffer.SharedBufferNodeSerializer"),
                    Map.entry("EVENT_ID", "org.apache.flink.cep.nfa.sharedbuffer.EventId$EventIdSerializer"),
                    Map.entry("STRING_DATA", TABLE + "StringDataSerializer"),
                    Map.entry("LINKED_LIST", TABLE + "LinkedListSerializer"),
                    Map.entry("LIST_VIEW", "org.apache.flink.table.dataview.ListViewSerializer"),
                    Map.entry("MAP_VIEW", "org.apache.flink.table.dataview.MapViewSerializer"),
                    Map.entry("NULL_AWARE_MAP", "org.apache.flink.table.dataview.NullAwareMapSerializer"),
                    Map.entry("OPTION", SCALA + "OptionSerializer"),
                    Map.entry("SCALA_EITHER", SCALA + "EitherSerializer"),
                    Map.entry("TRY", SCALA + "TrySerializer"),
                    Map.entry("UNIT", SCALA + "UnitSerializer"));

    /** Serializers of the table API that are configured by logical types. */
    private static final Map<String, String> LOGICAL =
            Map.of("ROW_DATA", TABLE + "RowDataSerializer", "ARRAY_DATA", TABLE + "ArrayDataSerializer", "MAP_DATA", TABLE + "MapDataSerializer");

    /** Serializers of the table API that are configured by numbers. */
    private static final Map<String, String> NUMBERS =
            Map.of(
                    "DECIMAL_DATA", TABLE + "DecimalDataSerializer",
                    "TIMESTAMP_DATA", TABLE + "TimestampDataSerializer",
                    "BINARY_ROW_DATA", TABLE + "BinaryRowDataSerializer");

    private final Map<String, UserClasses> classes = new HashMap<>();
    private final Class<?> configClass;
    private final Class<?> configInterface;

    /** The configuration of serializers became a class of its own in Flink 1.19, and an interface in 2.0. */
    private Compatibility() throws ClassNotFoundException {
        Class<?> own;
        Class<?> implementation;
        try {
            own = Class.forName("org.apache.flink.api.common.serialization.SerializerConfig");
            implementation = Class.forName("org.apache.flink.api.common.serialization.SerializerConfigImpl");
        } catch (ClassNotFoundException e) {
            own = ExecutionConfig.class;
            implementation = own;
        }
        configInterface = own;
        configClass = implementation;
    }

    public static void main(String[] args) throws Exception {
        JsonNode pairs = Json.MAPPER.readTree(Path.of(args[0]).toFile());
        ObjectNode answers = Json.object();
        ObjectNode snapshots = answers.putObject("snapshots");
        ArrayNode verdicts = answers.putArray("verdicts");
        Compatibility compatibility = new Compatibility();
        for (JsonNode pair : pairs) {
            String written = pair.get(0).asText();
            String wanted = pair.get(1).asText();
            String verdict;
            try {
                for (String type : List.of(written, wanted)) {
                    if (!snapshots.has(type) && !type.startsWith(AVRO)) {
                        snapshots.put(type, HexFormat.of().formatHex(compatibility.snapshotOf(type)));
                    }
                }
                verdict = compatibility.verdict(written, wanted);
            } catch (ClassNotFoundException e) {
                verdict = "no class " + e.getMessage();
            } catch (Exception e) {
                verdict = "failed: " + e;
                e.printStackTrace();
            }
            verdicts.add(verdict);
        }
        Json.MAPPER.writeValue(Path.of(args[1]).toFile(), answers);
    }

    private String verdict(String written, String wanted) throws Exception {
        if (written.startsWith(AVRO)) {
            return avroVerdict(written.substring(AVRO.length()), wanted.substring(AVRO.length()));
        }
        ClassLoader loader = classes(wanted).loader();
        Thread.currentThread().setContextClassLoader(loader);
        TypeSerializer<Object> serializer = serializer(wanted);
        TypeSerializerSnapshot<Object> old;
        TypeSerializerSchemaCompatibility<Object> found;
        try {
            old = read(snapshotOf(written), loader);
            Thread.currentThread().setContextClassLoader(loader);
            TypeSerializerSnapshot<Object> now = serializer.snapshotConfiguration();
            if (isState(written) && isState(wanted) && hasTtlAwareness()) {
                old = ttlAware(old);
                now = ttlAware(now);
            }
            found = resolve(old, now, serializer);
        } catch (IOException | RuntimeException e) {
            return "unreadable";
        }
        if (found.isCompatibleAsIs()) {
            return "as_is";
        } else if (found.isCompatibleWithReconfiguredSerializer()) {
            return "reconfigured";
        }
        return found.isCompatibleAfterMigration() ? "migration" : "incompatible";
    }

    /**
     * What Flink's AvroSerializerSnapshot makes of the answers of Avro. Flink's package has no flink-avro, so this rule alone
     * stands in for it.
     */
    private static String avroVerdict(String written, String wanted) throws ReflectiveOperationException {
        Object writer = avroSchema(written);
        Object reader = avroSchema(wanted);
        if (writer.equals(reader)) {
            return "as_is";
        }
        Class<?> schema = Class.forName("org.apache.avro.Schema");
        Object pair =
                Class.forName("org.apache.avro.SchemaCompatibility")
                        .getMethod("checkReaderWriterCompatibility", schema, schema)
                        .invoke(null, reader, writer);
        Object type = pair.getClass().getMethod("getType").invoke(pair);
        return type.toString().equals("COMPATIBLE") ? "migration" : "incompatible";
    }

    private static Object avroSchema(String json) throws ReflectiveOperationException {
        Class<?> parser = Class.forName("org.apache.avro.Schema$Parser");
        return parser.getMethod("parse", String.class).invoke(parser.getConstructor().newInstance(), json);
    }

    /** Since Flink 1.19 the new snapshot decides, before it was the old one. */
    @SuppressWarnings("unchecked")
    private static TypeSerializerSchemaCompatibility<Object> resolve(
            TypeSerializerSnapshot<Object> old, TypeSerializerSnapshot<Object> now, TypeSerializer<Object> serializer)
            throws IOException {
        try {
            for (Method method : TypeSerializerSnapshot.class.getMethods()) {
                if (method.getName().equals("resolveSchemaCompatibility")
                        && method.getParameterTypes()[0] == TypeSerializerSnapshot.class) {
                    return (TypeSerializerSchemaCompatibility<Object>) method.invoke(now, old);
                }
            }
            Method method = TypeSerializerSnapshot.class.getMethod("resolveSchemaCompatibility", TypeSerializer.class);
            return (TypeSerializerSchemaCompatibility<Object>) method.invoke(old, serializer);
        } catch (ReflectiveOperationException e) {
            throw new IOException(e);
        }
    }

    private static boolean isState(String type) {
        return type.startsWith("STATE<");
    }

    private static boolean hasTtlAwareness() {
        try {
            Class.forName("org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshot");
            return true;
        } catch (ClassNotFoundException e) {
            return false;
        }
    }

    /** As a state backend of Flink 2.1 and newer sees the snapshot of a value state. */
    @SuppressWarnings("unchecked")
    private static TypeSerializerSnapshot<Object> ttlAware(TypeSerializerSnapshot<Object> snapshot) throws IOException {
        try {
            return (TypeSerializerSnapshot<Object>)
                    Class.forName("org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshot")
                            .getConstructor(TypeSerializerSnapshot.class)
                            .newInstance(snapshot);
        } catch (ReflectiveOperationException e) {
            throw new IOException(e);
        }
    }

    private UserClasses classes(String type) throws IOException {
        if (!classes.containsKey(type)) {
            classes.put(type, new UserClasses(TypeText.parse(type)));
        }
        return classes.get(type);
    }

    private byte[] snapshotOf(String type) throws Exception {
        Thread.currentThread().setContextClassLoader(classes(type).loader());
        return bytesOf(serializer(type));
    }

    private static byte[] bytesOf(TypeSerializer<Object> serializer) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        TypeSerializerSnapshot.writeVersionedSnapshot(new DataOutputViewStreamWrapper(bytes), serializer.snapshotConfiguration());
        return bytes.toByteArray();
    }

    private static TypeSerializerSnapshot<Object> read(byte[] snapshot, ClassLoader loader) throws IOException {
        return TypeSerializerSnapshot.readVersionedSnapshot(
                new DataInputViewStreamWrapper(new ByteArrayInputStream(snapshot)), loader);
    }

    @SuppressWarnings("unchecked")
    private TypeSerializer<Object> serializer(String type) throws Exception {
        return (TypeSerializer<Object>) serializer(TypeText.parse(type), classes(type));
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private TypeSerializer<?> serializer(TypeText type, UserClasses user) throws Exception {
        if (LOGICAL.containsKey(type.name())) {
            return logical(type);
        } else if (NUMBERS.containsKey(type.name())) {
            int[] numbers = type.arguments().stream().mapToInt(Integer::parseInt).toArray();
            return numbers.length == 1
                    ? make(NUMBERS.get(type.name()), numbers[0])
                    : make(NUMBERS.get(type.name()), numbers[0], numbers[1]);
        }
        switch (type.name()) {
            case "POJO":
                return pojo(type, user);
            case "ENUM":
                return new EnumSerializer(user.load(type.argument(0).name()));
            case "KRYO":
                return kryo(type, user);
            case "ROW_WITHOUT_KIND":
                return new RowSerializer(nested(type, user), null, false);
            case "ENUMERATION":
                return make(SCALA + "EnumValueSerializer", Class.forName(type.arguments().get(0) + "$").getField("MODULE$").get(null));
            case "CASE_CLASS":
                return make(SCALA + "ScalaCaseClassSerializer", user.load(type.argument(0).name()), nested(skipFirst(type), user));
            case "LINKED_LIST_WITHOUT_NULLS":
                return make(TABLE + "LinkedListSerializer", nested(type, user)[0], false);
            case "TWO_PHASE_COMMIT", "TWO_PHASE_COMMIT_NULLABLE":
                boolean nullable = type.name().endsWith("NULLABLE");
                TypeSerializer<?>[] parts = nested(type, user);
                return make(twoPhaseCommit(), parts[0], parts[1], nullable);
            default:
        }
        if (COMPOSITES.containsKey(type.name())) {
            TypeSerializer<?>[] parts = nested(type, user);
            return switch (type.name()) {
                case "TTL" -> make(COMPOSITES.get("TTL"), LongSerializer.INSTANCE, parts[0]);
                case "UNIT" -> make(COMPOSITES.get("UNIT"));
                case "EVENT_ID", "STRING_DATA" -> (TypeSerializer<?>) Class.forName(COMPOSITES.get(type.name())).getField("INSTANCE").get(null);
                default -> make(COMPOSITES.get(type.name()), (Object[]) parts);
            };
        }
        if (type.arguments().isEmpty()) {
            return Labels.serializer(type.text());
        }
        TypeSerializer<?>[] parts = nested(type, user);
        return switch (type.name()) {
            case "STATE" -> parts[0];
            case "LIST" -> new ListSerializer<>(parts[0]);
            case "MAP" -> new MapSerializer<>(parts[0], parts[1]);
            case "TUPLE" -> new TupleSerializer(org.apache.flink.api.java.tuple.Tuple.getTupleClass(parts.length), parts);
            case "ROW" -> new RowSerializer(parts, null, true);
            case "EITHER" -> new EitherSerializer<>(parts[0], parts[1]);
            case "NULLABLE" -> NullableSerializer.wrap(parts[0], false);
            case "NULLABLE_PADDED" -> NullableSerializer.wrap(parts[0], true);
            case "OBJECT_ARRAY" -> new GenericArraySerializer(parts[0].createInstance().getClass(), parts[0]);
            default -> throw new IllegalArgumentException("no type is called " + type.name());
        };
    }

    private TypeSerializer<?>[] nested(TypeText type, UserClasses user) throws Exception {
        TypeSerializer<?>[] parts = new TypeSerializer<?>[type.arguments().size()];
        for (int i = 0; i < parts.length; i++) {
            parts[i] = serializer(type.argument(i), user);
        }
        return parts;
    }

    private static TypeText skipFirst(TypeText type) {
        List<String> rest = type.arguments().subList(1, type.arguments().size());
        return new TypeText(type.marker(), type.field(), type.text(), type.name(), null, rest);
    }

    @SuppressWarnings("unchecked")
    private TypeSerializer<?> pojo(TypeText type, UserClasses user) throws Exception {
        Object config = configClass.getConstructor().newInstance();
        for (TypeText each : type.parts()) {
            if (each.marker() == '+') {
                config.getClass().getMethod("registerPojoType", Class.class).invoke(config, user.load(each.name()));
            }
        }
        TypeInformation<?> information = TypeExtractor.createTypeInfo(user.load(type.argument(0).name()));
        TypeSerializer<Object> serializer =
                (TypeSerializer<Object>)
                        TypeInformation.class.getMethod("createSerializer", configInterface).invoke(information, config);
        for (TypeText each : type.parts()) {
            if (each.marker() == '~') {
                Object value = user.load(each.name()).getConstructor().newInstance();
                serializer.serialize(value, new DataOutputViewStreamWrapper(new ByteArrayOutputStream()));
            }
        }
        return serializer;
    }

    private TypeSerializer<?> kryo(TypeText type, UserClasses user) throws Exception {
        Object config = configClass.getConstructor().newInstance();
        for (TypeText each : type.parts()) {
            if (each.marker() == '+') {
                config.getClass().getMethod("registerKryoType", Class.class).invoke(config, user.load(each.name()));
            }
        }
        return (TypeSerializer<?>)
                Class.forName("org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializer")
                        .getConstructor(Class.class, configInterface)
                        .newInstance(user.load(type.argument(0).name()), config);
    }

    private static String twoPhaseCommit() {
        String functions = "org.apache.flink.streaming.api.functions.sink.";
        try {
            Class.forName(functions + "legacy.TwoPhaseCommitSinkFunction$StateSerializer");
            return functions + "legacy.TwoPhaseCommitSinkFunction$StateSerializer";
        } catch (ClassNotFoundException e) {
            return functions + "TwoPhaseCommitSinkFunction$StateSerializer";
        }
    }

    private static TypeSerializer<?> logical(TypeText type) throws Exception {
        Class<?> parser = Class.forName("org.apache.flink.table.types.logical.utils.LogicalTypeParser");
        Class<?> logical = Class.forName("org.apache.flink.table.types.logical.LogicalType");
        Method parse = parser.getMethod("parse", String.class, ClassLoader.class);
        Object types = java.lang.reflect.Array.newInstance(logical, type.arguments().size());
        for (int i = 0; i < type.arguments().size(); i++) {
            java.lang.reflect.Array.set(types, i, parse.invoke(null, type.arguments().get(i), Compatibility.class.getClassLoader()));
        }
        if (type.name().equals("ROW_DATA")) {
            return (TypeSerializer<?>) Class.forName(LOGICAL.get("ROW_DATA")).getConstructor(types.getClass()).newInstance(types);
        }
        return make(LOGICAL.get(type.name()), (Object[]) types);
    }

    /** A serializer of a class that is not on every class path, or not in every version. */
    private static TypeSerializer<?> make(String className, Object... arguments) throws ReflectiveOperationException {
        for (Constructor<?> constructor : Class.forName(className).getDeclaredConstructors()) {
            if (takes(constructor.getParameterTypes(), arguments)) {
                constructor.setAccessible(true);
                return (TypeSerializer<?>) constructor.newInstance(arguments);
            }
        }
        throw new NoSuchMethodException(className + " of " + List.of(arguments));
    }

    private static boolean takes(Class<?>[] parameters, Object[] arguments) {
        boolean fits = parameters.length == arguments.length;
        for (int i = 0; fits && i < arguments.length; i++) {
            Class<?> parameter = parameters[i];
            fits =
                    parameter.isPrimitive()
                            ? (parameter == int.class && arguments[i] instanceof Integer)
                                    || (parameter == boolean.class && arguments[i] instanceof Boolean)
                            : parameter.isInstance(arguments[i]);
        }
        return fits;
    }
}
