import java.io.Serializable;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.module.SimpleModule;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ser.std.ToStringSerializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.Collector;

/**
 * Restores a savepoint in a small cluster, and takes the next savepoint.
 *
 * <p>{@code RestoredJob SAVEPOINT DIRECTORY STATES} has the operators and states of the file {@code STATES}, reads all entries as
 * it starts, and writes them to {@code restored.json}. A line of the file is a state: uid, name, kind, TTL, type of a map's keys,
 * type of the values, separated by tabs. Keys are strings. {@code RestoredJob SAVEPOINT DIRECTORY count START END CUSTOMERS}
 * counts orders by customer.
 */
public final class RestoredJob {

    record Described(String uid, String name, String kind, boolean ttl, String mapKey, String value) implements Serializable {

        static Described of(String line) {
            String[] columns = line.split("\t", -1);
            return new Described(columns[0], columns[1], columns[2], Boolean.parseBoolean(columns[3]), columns[4], columns[5]);
        }

        String id() {
            return uid + "\t" + name + "\t" + kind;
        }

        boolean isKeyed() {
            return !kind.endsWith("_LIST") && !kind.equals("BROADCAST");
        }

        ListStateDescriptor<Object> list() {
            return new ListStateDescriptor<>(name, type(value));
        }

        MapStateDescriptor<Object, Object> map() {
            return new MapStateDescriptor<>(name, type(mapKey), type(value));
        }

        StateDescriptor<?, ?> keyed() {
            StateDescriptor<?, ?> descriptor =
                    switch (kind) {
                        case "VALUE" -> new ValueStateDescriptor<>(name, type(value));
                        case "LIST" -> list();
                        case "MAP" -> map();
                        default -> throw new IllegalArgumentException(name + ": " + kind);
                    };
            if (ttl) {
                descriptor.enableTimeToLive(StateTtlConfig.newBuilder(Duration.ofDays(36_500)).build());
            }
            return descriptor;
        }

        @SuppressWarnings("unchecked")
        private static TypeInformation<Object> type(String text) {
            TypeInformation<?> type =
                    switch (text) {
                        case "STRING" -> Types.STRING;
                        case "INT" -> Types.INT;
                        case "LONG" -> Types.LONG;
                        case "DOUBLE" -> Types.DOUBLE;
                        case "TUPLE<STRING,LONG>" -> Types.TUPLE(Types.STRING, Types.LONG);
                        case "POJO<io.stateprocessor.interop.Profile>" -> Types.POJO(io.stateprocessor.interop.Profile.class);
                        default -> throw new IllegalArgumentException("add the type " + text);
                    };
            return (TypeInformation<Object>) type;
        }
    }

    /** What the operators of the running job read, by operator and state. */
    private static final Map<String, List<Object>> ENTRIES = new ConcurrentHashMap<>();

    /** Reads every entry of its states as it opens. */
    static final class Reading extends AbstractStreamOperator<Long>
            implements OneInputStreamOperator<Long, Long>, Triggerable<String, VoidNamespace> {

        private final List<Described> states;

        Reading(List<Described> states) {
            this.states = new ArrayList<>(states);
        }

        @Override
        public void open() throws Exception {
            super.open();
            boolean isFirst = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() == 0;
            for (Described state : states) {
                switch (state.kind()) {
                    case "EVENT_TIMER" -> timers(state).forEachEventTimeTimer((space, time) -> addTimer(state, time));
                    case "PROCESSING_TIMER" -> timers(state).forEachProcessingTimeTimer((space, time) -> addTimer(state, time));
                    case "OPERATOR_LIST" -> {
                        Iterable<Object> elements = getOperatorStateBackend().getListState(state.list()).get();
                        elements.forEach(element -> add(state, element));
                    }
                    case "UNION_LIST" -> { // each subtask has all elements
                        Iterable<Object> elements = getOperatorStateBackend().getUnionListState(state.list()).get();
                        elements.forEach(element -> add(state, isFirst ? element : null));
                    }
                    case "BROADCAST" -> { // each subtask has a copy
                        var entries = getOperatorStateBackend().getBroadcastState(state.map()).entries();
                        entries.forEach(e -> add(state, isFirst ? Map.of("key", e.getKey(), "value", e.getValue()) : null));
                    }
                    default -> readKeyed(state);
                }
            }
        }

        private InternalTimerService<VoidNamespace> timers(Described state) {
            return getInternalTimerService(state.name(), VoidNamespaceSerializer.INSTANCE, this);
        }

        private void addTimer(Described state, long timestamp) {
            add(state, Map.of("key", getCurrentKey(), "timestamp", timestamp));
        }

        @SuppressWarnings({"unchecked", "rawtypes"})
        private void readKeyed(Described described) throws Exception {
            KeyedStateBackend<Object> backend = getKeyedStateBackend();
            StateDescriptor descriptor = described.keyed();
            State state = backend.getPartitionedState(VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, descriptor);
            TreeSet<Object> keys = new TreeSet<>();
            try (Stream<Object> stored = backend.getKeys(described.name(), VoidNamespace.INSTANCE)) {
                stored.forEach(keys::add);
            }
            for (Object key : keys) {
                backend.setCurrentKey(key);
                add(described, Map.of("key", key, "value", value(state)));
            }
        }

        private static Object value(State state) throws Exception {
            if (state instanceof ValueState<?> single) {
                return single.value();
            }
            if (state instanceof MapState<?, ?> map) {
                Map<Object, Object> entries = new LinkedHashMap<>();
                map.entries().forEach(entry -> entries.put(entry.getKey(), entry.getValue()));
                return entries;
            }
            List<Object> elements = new ArrayList<>();
            ((ListState<?>) state).get().forEach(elements::add);
            return elements;
        }

        private static void add(Described state, Object entry) {
            if (entry != null) {
                List<Object> entries = ENTRIES.computeIfAbsent(state.id(), id -> new ArrayList<>());
                synchronized (entries) {
                    entries.add(entry);
                }
            }
        }

        @Override
        public void processElement(StreamRecord<Long> element) {}

        @Override
        public void onEventTime(InternalTimer<String, VoidNamespace> timer) {}

        @Override
        public void onProcessingTime(InternalTimer<String, VoidNamespace> timer) {}
    }

    /** Counts the orders of a customer. */
    static final class Count extends KeyedProcessFunction<String, Long, Long> {

        @Override
        public void processElement(Long order, Context context, Collector<Long> out) throws Exception {
            ValueState<Long> count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            count.update((count.value() == null ? 0 : count.value()) + 1);
            COUNTED.merge("orders", 1L, Long::sum);
        }
    }

    private static final int ATTEMPTS = 1200;
    private static final Map<String, Long> COUNTED = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[1]);
        Configuration configuration = new Configuration();
        configuration.setString("execution.state-recovery.path", Path.of(arguments[0]).toUri().toString());
        configuration.setString("state.backend.type", "rocksdb");
        configuration.setString("pipeline.max-parallelism", "128");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, configuration);
        List<Described> states = new ArrayList<>();
        long start = 0;
        long orders = 0;
        if (arguments[2].equals("count")) {
            start = Long.parseLong(arguments[3]);
            orders = Long.parseLong(arguments[4]) - start;
        } else {
            Files.readAllLines(Path.of(arguments[2])).forEach(line -> states.add(Described.of(line)));
        }
        long end = start + orders;
        NumberSequenceSource source = new NumberSequenceSource(start, Long.MAX_VALUE);
        DataStream<Long> numbers =
                env.fromSource(source, WatermarkStrategy.noWatermarks(), "numbers", Types.LONG)
                        .setParallelism(1)
                        .map(number -> number < end ? number : pause(number))
                        .returns(Types.LONG)
                        .setParallelism(1);
        if (orders > 0) {
            long customers = Long.parseLong(arguments[5]);
            numbers.filter(number -> number < end)
                    .keyBy(number -> "user " + (number + number / 9) % customers)
                    .process(new Count())
                    .uid("main")
                    .sinkTo(new DiscardingSink<>());
        }
        Map<String, List<Described>> operators = new LinkedHashMap<>();
        states.forEach(state -> operators.computeIfAbsent(state.uid(), uid -> new ArrayList<>()).add(state));
        operators.forEach(
                (uid, described) -> {
                    boolean isKeyed = described.stream().anyMatch(Described::isKeyed);
                    DataStream<Long> input = isKeyed ? numbers.keyBy(String::valueOf) : numbers;
                    input.transform(uid, Types.LONG, new Reading(described)).uid(uid).sinkTo(new DiscardingSink<>());
                });
        String savepoint = stopped(env.executeAsync(), directory, orders);
        List<Object> restored = new ArrayList<>();
        for (Described state : states) {
            List<Object> entries = ENTRIES.getOrDefault(state.id(), List.of());
            restored.add(Map.of("uid", state.uid(), "name", state.name(), "kind", state.kind(), "entries", entries));
        }
        SimpleModule dates = new SimpleModule().addSerializer(LocalDate.class, ToStringSerializer.instance);
        Map<String, Object> result = Map.of("states", restored, "savepoint", savepoint);
        new ObjectMapper().registerModule(dates).writeValue(directory.resolve("restored.json").toFile(), result);
    }

    private static long pause(long number) throws InterruptedException {
        Thread.sleep(10);
        return number;
    }

    /** Returns the savepoint that a job takes as it stops, after it has counted the orders. */
    private static String stopped(JobClient job, Path directory, long orders) throws Exception {
        String target = directory.toUri().toString();
        for (int attempt = 0; ; attempt++) {
            Thread.sleep(100);
            if (job.getJobStatus().get().isGloballyTerminalState()) {
                job.getJobExecutionResult().get(); // throws the reason
            }
            if (COUNTED.getOrDefault("orders", 0L) < orders && attempt < ATTEMPTS) {
                continue;
            }
            try {
                String savepoint = job.stopWithSavepoint(false, target, SavepointFormatType.CANONICAL).get();
                return Path.of(URI.create(savepoint)).toString();
            } catch (ExecutionException refused) { // tasks start, or the job has failed
                if (attempt >= ATTEMPTS) {
                    throw refused;
                }
            }
        }
    }

    private RestoredJob() {}
}
