package io.stateprocessor.interop;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.lang.reflect.Constructor;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Time;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.*;
import org.apache.flink.api.common.typeutils.base.array.*;
import org.apache.flink.api.java.tuple.Tuple0;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.typeutils.runtime.*;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.runtime.state.ArrayListSerializer;
import org.apache.flink.runtime.state.JavaSerializer;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.operators.TimerHeapInternalTimer;
import org.apache.flink.streaming.api.operators.TimerSerializer;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;

/**
 * A serializer's snapshot and one value of it, for every serializer that can be had: {@code SnapshotSpecimens DIRECTORY} writes
 * MODULE/NAME-VERSION/serializer-snapshot and test-data, in the layout and, where Flink's upgrade tests have the serializer, with the
 * values of those. Versions of Flink that lack a class leave its specimen out, and print so.
 */
public final class SnapshotSpecimens {

    private static final String TABLE = "org.apache.flink.table.runtime.typeutils.";
    private static final String PYTHON = TABLE + "serializers.python.";
    private static final String CEP = "org.apache.flink.cep.nfa.";

    public enum Name {
        EMMA,
        NATE
    }

    public record Person(int id, String name) {}

    private interface Source {
        Object get() throws Exception;
    }

    private final Path directory;
    private final String version;

    private SnapshotSpecimens(Path directory) {
        this.directory = directory;
        String[] parts = org.apache.flink.runtime.util.EnvironmentInformation.getVersion().split("\\.");
        this.version = parts[0] + "." + parts[1];
    }

    public static void main(String[] arguments) throws Exception {
        SnapshotSpecimens specimens = new SnapshotSpecimens(Path.of(arguments[0]));
        specimens.basic();
        specimens.arrays();
        specimens.composites();
        specimens.runtime();
        specimens.patterns();
        specimens.tables();
        specimens.python();
    }

    @SuppressWarnings("unchecked")
    private void add(String module, String name, Source serializer, Source value) throws Exception {
        ByteArrayOutputStream snapshot = new ByteArrayOutputStream();
        ByteArrayOutputStream data = new ByteArrayOutputStream();
        try {
            TypeSerializer<Object> made = (TypeSerializer<Object>) serializer.get();
            Object content = value.get();
            new DataOutputStream(snapshot).writeInt(2); // as Flink's tests begin
            made.serialize(content, new DataOutputViewStreamWrapper(data));
            TypeSerializerSnapshot.writeVersionedSnapshot(new DataOutputViewStreamWrapper(snapshot), made.snapshotConfiguration());
        } catch (ReflectiveOperationException | LinkageError missing) {
            System.out.println(version + " " + name + ": " + missing);
            return;
        } catch (RuntimeException wrong) {
            throw new IllegalStateException(name + " of Flink " + version, wrong);
        }
        Path target = Files.createDirectories(directory.resolve(module).resolve(name + "-" + version));
        Files.write(target.resolve("serializer-snapshot"), snapshot.toByteArray());
        Files.write(target.resolve("test-data"), data.toByteArray());
    }

    /** A serializer of flink-core without configuration, by the beginning of its name. */
    private void simple(String name, Source value) throws Exception {
        StringBuilder className = new StringBuilder("org.apache.flink.api.common.typeutils.base.");
        for (String part : name.split("-")) {
            className.append(part.substring(0, 1).toUpperCase(java.util.Locale.ROOT)).append(part.substring(1));
        }
        add("flink-core", name + "-serializer", () -> instance(className + "Serializer"), value);
    }

    private void basic() throws Exception {
        simple("big-dec", () -> new BigDecimal("123456789012345678901234567890123456.789"));
        simple("big-int", () -> new BigInteger("123456789012345678901234567890123456"));
        simple("boolean", () -> true);
        simple("byte", () -> (byte) 42);
        simple("char", () -> Character.MAX_VALUE);
        simple("double", () -> 12345.6789);
        simple("float", () -> 123.456f);
        simple("int", () -> 123456);
        simple("long", () -> 1234567890L);
        simple("short", () -> (short) 123);
        simple("string", () -> "123456789012345678901234567890123456");
        simple("date", () -> new Date(1580382960L));
        simple("sql-date", () -> new java.sql.Date(1580382960L));
        simple("sql-time", () -> new Time(1580382960L));
        simple("sql-timestamp", () -> new Timestamp(1580382960L));
        String types = "org.apache.flink.types.";
        simple("boolean-value", () -> make(types + "BooleanValue", true));
        simple("byte-value", () -> make(types + "ByteValue", (byte) 42));
        simple("char-value", () -> make(types + "CharValue", '*'));
        simple("double-value", () -> make(types + "DoubleValue", 12345.6789));
        simple("float-value", () -> make(types + "FloatValue", 123.456f));
        simple("int-value", () -> make(types + "IntValue", 123456));
        simple("long-value", () -> make(types + "LongValue", 1234567890L));
        simple("short-value", () -> make(types + "ShortValue", (short) 123));
        simple("string-value", () -> make(types + "StringValue", "123456789012345678901234567890123456"));
        simple("null-value", () -> Class.forName(types + "NullValue").getMethod("getInstance").invoke(null));
        String base = "org.apache.flink.api.common.typeutils.base.";
        own("local-date", () -> instance(base + "LocalDateSerializer"), () -> java.time.LocalDate.of(2024, 2, 29));
        own("local-time", () -> instance(base + "LocalTimeSerializer"), () -> java.time.LocalTime.of(23, 59, 58, 7));
        own("local-date-time", () -> instance(base + "LocalDateTimeSerializer"), () -> java.time.LocalDateTime.of(2024, 2, 29, 1, 2, 3, 4));
        own("instant", () -> instance(base + "InstantSerializer"), () -> java.time.Instant.ofEpochSecond(-1, 5));
        own("void", () -> VoidSerializer.INSTANCE, () -> null);
        own("variant", () -> instance(base + "VariantSerializer"), SnapshotSpecimens::variant);
        own("bitmap", () -> instance(base + "BitmapSerializer"), SnapshotSpecimens::bitmap);
    }

    private static Object variant() throws ReflectiveOperationException {
        Object builder = Class.forName("org.apache.flink.types.variant.Variant").getMethod("newBuilder").invoke(null);
        return Class.forName("org.apache.flink.types.variant.VariantBuilder").getMethod("of", int.class).invoke(builder, 42);
    }

    private static Object bitmap() throws ReflectiveOperationException {
        return Class.forName("org.apache.flink.types.bitmap.Bitmap").getMethod("fromArray", int[].class).invoke(null, (Object) new int[] {1, 7, 100_000});
    }

    private void own(String name, Source serializer, Source value) throws Exception {
        add("others", name + "-serializer", serializer, value);
    }

    private void arrays() throws Exception {
        double[] doubles = new double[10];
        float[] floats = new float[10];
        char[] chars = new char[10];
        short[] shorts = new short[10];
        byte[] bytes = new byte[10];
        String[] strings = new String[10];
        for (int i = 0; i < 10; i++) {
            doubles[i] = (float) (i + 0.1);
            floats[i] = (float) (i + 0.2);
            chars[i] = (char) i;
            shorts[i] = (short) i;
            bytes[i] = (byte) i;
            strings[i] = Integer.toString(i);
        }
        int[] ints = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
        long[] longs = Arrays.stream(ints).asLongStream().toArray();
        String primitive = "-primitive-array-serializer";
        add("flink-core", "boolean" + primitive, () -> BooleanPrimitiveArraySerializer.INSTANCE, () -> new boolean[] {true, false});
        add("flink-core", "byte" + primitive, () -> BytePrimitiveArraySerializer.INSTANCE, () -> bytes);
        add("flink-core", "char" + primitive, () -> CharPrimitiveArraySerializer.INSTANCE, () -> chars);
        add("flink-core", "double" + primitive, () -> DoublePrimitiveArraySerializer.INSTANCE, () -> doubles);
        add("flink-core", "float" + primitive, () -> FloatPrimitiveArraySerializer.INSTANCE, () -> floats);
        add("flink-core", "int" + primitive, () -> IntPrimitiveArraySerializer.INSTANCE, () -> ints);
        add("flink-core", "long" + primitive, () -> LongPrimitiveArraySerializer.INSTANCE, () -> longs);
        add("flink-core", "short" + primitive, () -> ShortPrimitiveArraySerializer.INSTANCE, () -> shorts);
        add("flink-core", "string-array-serializer", () -> StringArraySerializer.INSTANCE, () -> strings);
        add("flink-core", "generic-array-serializer", () -> new GenericArraySerializer<>(String.class, StringSerializer.INSTANCE),
                () -> new String[] {"Apache", "Flink"});
    }

    private void composites() throws Exception {
        TypeSerializer<?>[] three = {StringSerializer.INSTANCE, StringSerializer.INSTANCE, IntSerializer.INSTANCE};
        add("flink-core", "tuple-serializer", () -> make("org.apache.flink.api.java.typeutils.runtime.TupleSerializer", Tuple3.class, three),
                () -> Tuple3.of("hello Gordon", "ciao", 14));
        TypeSerializer<?>[] four = {StringSerializer.INSTANCE, IntSerializer.INSTANCE, StringSerializer.INSTANCE, LongSerializer.INSTANCE};
        add("flink-core", "row-serializer", () -> new RowSerializer(four), () -> Row.of(null, 42, "My string.", null));
        add("flink-core", "either-serializer", () -> new EitherSerializer<>(StringSerializer.INSTANCE, IntSerializer.INSTANCE), () -> Either.Left("ApacheFlink"));
        add("flink-core", "nullable-padded-serializer", () -> NullableSerializer.wrap(LongSerializer.INSTANCE, true), () -> null);
        add("flink-core", "nullable-not-padded-serializer", () -> NullableSerializer.wrap(LongSerializer.INSTANCE, false), () -> null);
        add("flink-core", "enum-serializer", () -> new EnumSerializer<>(Name.class), () -> Name.EMMA);
        add("flink-core", "list-serializer", () -> new ListSerializer<>(StringSerializer.INSTANCE), () -> new ArrayList<>(List.of("Apache", "Flink")));
        add("flink-core", "map-serializer", () -> new MapSerializer<>(IntSerializer.INSTANCE, StringSerializer.INSTANCE),
                () -> new TreeMap<>(Map.of(0, "0", 1, "1", 2, "2")));
        String runtime = "org.apache.flink.api.java.typeutils.runtime.";
        Class<?> text = Class.forName("org.apache.flink.types.StringValue");
        add("flink-core", "value-serializer", () -> make(runtime + "ValueSerializer", text), () -> make(text.getName(), "value"));
        add("flink-core", "copyable-value-serializer", () -> make(runtime + "CopyableValueSerializer", text), () -> make(text.getName(), "value"));
        own("tuple0", () -> instance(runtime + "Tuple0Serializer"), () -> Tuple0.INSTANCE);
        own("set", () -> make("org.apache.flink.api.common.typeutils.base.SetSerializer", StringSerializer.INSTANCE), () -> java.util.Set.of("one"));
        add("flink-core", "pojo-serializer-identical-schema", () -> pojo(fixtures.Simple.class), () -> Samples.simple(1));
        add("flink-core", "pojo-serializer-with-non-registered-subclass", () -> pojo(fixtures.Shape.class), () -> Samples.shape(2));
        Class<?> subclass = Class.forName("SublassPojo");
        add("flink-core", "pojo-serializer-with-modified-schema-in-registered-subclass", () -> pojo(subclass.getSuperclass(), subclass),
                () -> subclass.getConstructor().newInstance());
        if (!version.equals("1.18")) { // where records are Kryo's
            add("flink-tests-java17", "pojo-serializer-to-record", () -> pojo(Person.class), () -> new Person(911108, "Gordon"));
        }
        own("kryo-bits", () -> Compat.serializer(new org.apache.flink.api.java.typeutils.GenericTypeInfo<>(java.util.BitSet.class)),
                () -> Samples.bits(4));
    }

    /** The configuration of serializers, whose type has changed. */
    private static org.apache.flink.api.common.ExecutionConfig executionConfig(Class<?>... registered) {
        var env = org.apache.flink.streaming.api.environment.StreamExecutionEnvironment.getExecutionEnvironment(new org.apache.flink.configuration.Configuration());
        for (Class<?> type : registered) {
            Compat.registerPojo(env, type);
        }
        return env.getConfig();
    }

    private static TypeSerializer<?> pojo(Class<?> type, Class<?>... registered) throws ReflectiveOperationException {
        TypeInformation<?> information = TypeInformation.of(type);
        Object config = executionConfig(registered);
        try {
            Class<?> own = Class.forName("org.apache.flink.api.common.serialization.SerializerConfig");
            config = config.getClass().getMethod("getSerializerConfig").invoke(config);
            return (TypeSerializer<?>) TypeInformation.class.getMethod("createSerializer", own).invoke(information, config);
        } catch (ClassNotFoundException before119) {
            return (TypeSerializer<?>)
                    TypeInformation.class.getMethod("createSerializer", org.apache.flink.api.common.ExecutionConfig.class).invoke(information, config);
        }
    }

    private void runtime() throws Exception {
        String ttl = "org.apache.flink.runtime.state.ttl.";
        add("flink-runtime", "arraylist-serializer", () -> new ArrayListSerializer<>(StringSerializer.INSTANCE), () -> new ArrayList<>(List.of("Apache", "Flink")));
        add("flink-runtime", "void-namespace-serializer", () -> VoidNamespaceSerializer.INSTANCE, () -> VoidNamespace.INSTANCE);
        add("flink-runtime", "java-serializer", () -> new JavaSerializer<>(), () -> 26);
        Source values = () -> make(ttl + "TtlValue", "hello Gordon", 13L);
        Source serializer = () -> make(ttl + "TtlStateFactory$TtlSerializer", LongSerializer.INSTANCE, StringSerializer.INSTANCE);
        add("flink-runtime", "ttl-serializer", serializer, values);
        add("flink-runtime", "ttl-aware-serializer-ttl-value", () -> make(ttl + "TtlAwareSerializer", serializer.get()), values);
        add("flink-runtime", "ttl-aware-serializer-string-value", () -> make(ttl + "TtlAwareSerializer", StringSerializer.INSTANCE), () -> "hello Gordon");
        own("ttl-v2", () -> make("org.apache.flink.runtime.state.v2.ttl.TtlStateFactory$TtlSerializer", LongSerializer.INSTANCE, StringSerializer.INSTANCE), values);

        String streaming = "flink-streaming-java";
        String join = "org.apache.flink.streaming.api.operators.co.IntervalJoinOperator$";
        add(streaming, "buffer-entry-serializer", () -> make(join + "BufferEntrySerializer", StringSerializer.INSTANCE), () -> make(join + "BufferEntry", "hello", false));
        add(streaming, "global-window-serializer", () -> new GlobalWindow.Serializer(), GlobalWindow::get);
        add(streaming, "time-window-serializer", () -> new TimeWindow.Serializer(), () -> new TimeWindow(12345, 67890));
        add(streaming, "stream-element-serializer", () -> new StreamElementSerializer<>(StringSerializer.INSTANCE), () -> new StreamRecord<>("key", 123456));
        add(streaming, "timer-serializer", () -> new TimerSerializer<>(StringSerializer.INSTANCE, IntSerializer.INSTANCE), () -> new TimerHeapInternalTimer<>(12345, "key", 678));
        String union = "org.apache.flink.streaming.api.datastream.CoGroupedStreams$";
        Source tagged = () -> make(union + "UnionSerializer", StringSerializer.INSTANCE, LongSerializer.INSTANCE);
        add(streaming, "union-serializer-one", tagged, () -> taggedUnion("one", "flink"));
        add(streaming, "union-serializer-two", tagged, () -> taggedUnion("two", 23456L));
        String functions = "org.apache.flink.streaming.api.functions.sink." + (version.startsWith("1.") ? "" : "legacy.");
        String commit = functions + "TwoPhaseCommitSinkFunction$";
        Source transaction = () -> make(commit + "TransactionHolder", 12, 1523467890L);
        Source other = () -> make(commit + "TransactionHolder", 123, 1567234890L);
        add(streaming, "two-phase-commit-sink-state-serializer", () -> make(commit + "StateSerializer", IntSerializer.INSTANCE, StringSerializer.INSTANCE),
                () -> make(commit + "State", transaction.get(), new ArrayList<>(List.of(other.get())), java.util.Optional.of("flink")));
    }

    private Object taggedUnion(String side, Object value) throws ReflectiveOperationException {
        String name = version.startsWith("1.") ? "org.apache.flink.streaming.api.datastream.CoGroupedStreams$TaggedUnion" : "org.apache.flink.util.TaggedUnion";
        return Class.forName(name).getMethod(side, Object.class).invoke(null, value);
    }

    private void patterns() throws Exception {
        String buffer = CEP + "sharedbuffer.";
        Source eventId = () -> make(buffer + "EventId", 42, 42L);
        Source dewey = () -> make(CEP + "DeweyNumber", 42);
        Source page = () -> make(buffer + "NodeId", eventId.get(), "page");
        add("flink-cep", "dewey-number-serializer", () -> instance(CEP + "DeweyNumber$DeweyNumberSerializer"), dewey);
        add("flink-cep", "event-id-serializer", () -> instance(buffer + "EventId$EventIdSerializer"), eventId);
        add("flink-cep", "node-id-serializer", () -> make(buffer + "NodeId$NodeIdSerializer"), () -> make(buffer + "NodeId", eventId.get(), "ciao"));
        add("flink-cep", "lockable-type-serializer", () -> make(buffer + "Lockable$LockableTypeSerializer", StringSerializer.INSTANCE), () -> make(buffer + "Lockable", "flink", 10));
        add("flink-cep", "nfa-state-serializer", () -> make(CEP + "NFAStateSerializer"), () -> make(CEP + "NFAState", List.of()));
        add("flink-cep", "shared-buffer-edge-serializer", () -> make(buffer + "SharedBufferEdge$SharedBufferEdgeSerializer"),
                () -> make(buffer + "SharedBufferEdge", page.get(), dewey.get()));
        Source node = () -> {
            Object made = make(buffer + "SharedBufferNode");
            made.getClass().getMethod("addEdge", Class.forName(buffer + "SharedBufferEdge")).invoke(made, make(buffer + "SharedBufferEdge", page.get(), dewey.get()));
            return made;
        };
        own("shared-buffer-node", () -> make(buffer + "SharedBufferNodeSerializer"), node);
    }

    private void tables() throws Exception {
        add("flink-table-runtime", "linked-list-serializer", () -> make(TABLE + "LinkedListSerializer", LongSerializer.INSTANCE),
                () -> new LinkedList<>(List.of(42L, -42L, 0L, Long.MAX_VALUE, Long.MIN_VALUE)));
        TableSpecimens.all().forEach((name, specimen) -> {
            try {
                own(name, specimen.serializer()::call, specimen.value()::call);
            } catch (Exception e) {
                throw new IllegalStateException(name, e);
            }
        });
    }

    private void python() throws Exception {
        own("python-date", () -> instance(PYTHON + "DateSerializer"), () -> java.sql.Date.valueOf("2024-02-29"));
        own("python-time", () -> instance(PYTHON + "TimeSerializer"), () -> Time.valueOf("12:34:56"));
        own("python-big-dec", () -> instance(PYTHON + "BigDecSerializer"), () -> new BigDecimal("12.50"));
        own("python-byte-array-wrapper", () -> instance("org.apache.flink.streaming.api.utils.ByteArrayWrapperSerializer"),
                () -> make("org.apache.flink.streaming.api.utils.ByteArrayWrapper", (Object) new byte[] {1, 2, 3}));
    }

    static Object instance(String className) throws ReflectiveOperationException {
        return Class.forName(className).getField("INSTANCE").get(null);
    }

    /** An object by the constructor that takes such arguments. */
    static Object make(String className, Object... arguments) throws ReflectiveOperationException {
        for (Constructor<?> constructor : Class.forName(className).getDeclaredConstructors()) {
            if (takes(constructor.getParameterTypes(), arguments)) {
                constructor.setAccessible(true);
                return constructor.newInstance(arguments);
            }
        }
        throw new NoSuchMethodException(className + " of " + Arrays.toString(arguments));
    }

    private static final Map<Class<?>, Class<?>> BOXES =
            Map.of(
                    int.class, Integer.class, long.class, Long.class, boolean.class, Boolean.class, byte.class, Byte.class,
                    short.class, Short.class, char.class, Character.class, float.class, Float.class, double.class, Double.class);

    private static boolean takes(Class<?>[] parameters, Object[] arguments) {
        boolean fits = parameters.length == arguments.length;
        for (int i = 0; fits && i < arguments.length; i++) {
            fits = arguments[i] == null || BOXES.getOrDefault(parameters[i], parameters[i]).isInstance(arguments[i]);
        }
        return fits;
    }
}
