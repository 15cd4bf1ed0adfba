package io.stateprocessor.interop;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * Jobs that go on where a query of Spark ended: they restore a savepoint, take some of the numbered events, and stop with a savepoint.
 *
 * <p>Arguments: a file with a JSON list of requests, and the file for the answers. A request has the {@code job}, the {@code savepoint}
 * to begin with, the numbers {@code from} and {@code until} of its events, the number of {@code keys}, the {@code backend}, whether time
 * {@code ends}, and the directory {@code to}. An answer has the {@code savepoint} at the end and what was {@code emitted}; or the {@code
 * error}.
 */
public final class StreamedEvents {

    private static final Queue<String> EMITTED = new ConcurrentLinkedQueue<>();
    private static final TypeInformation<Tuple3<String, Long, Long>> EVENT = Types.TUPLE(Types.STRING, Types.LONG, Types.LONG);

    public static void main(String[] arguments) throws Exception {
        List<JsonNode> answers = new ArrayList<>();
        try (Cluster cluster = Cluster.kept(4, 0)) {
            for (JsonNode request : Json.MAPPER.readTree(Path.of(arguments[0]).toFile())) {
                answers.add(answer(cluster, request));
            }
        }
        Json.MAPPER.writeValue(Path.of(arguments[1]).toFile(), Json.array(answers));
    }

    private static JsonNode answer(Cluster cluster, JsonNode request) throws Exception {
        ObjectNode answer = Json.object();
        EMITTED.clear();
        var job = cluster.start(graph(request));
        try {
            IdleSource.awaitEmitted();
            Path to = Path.of(request.get("to").asText());
            answer.put("savepoint", cluster.savepoint(job, to, SavepointFormatType.CANONICAL).toString());
            cluster.cancel(job);
        } catch (Exception failure) {
            cluster.end(job, failure);
            throw failure;
        }
        answer.set("emitted", Json.of(EMITTED.stream().sorted().toList()));
        return answer;
    }

    private static JobGraph graph(JsonNode request) {
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", request.get("backend").asText());
        settings.setString("restart-strategy.type", "none");
        // the default keeps states of up to 5 MB in memory, and refuses more
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", Path.of(request.get("to").asText() + "-checkpoints").toUri().toString());
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        env.setParallelism(2);
        env.setMaxParallelism(128);
        env.enableCheckpointing(24 * 60 * 60 * 1000L);
        Events source = new Events(request);
        KeyedStream<Tuple3<String, Long, Long>, String> events =
                env.addSource(source, "events", EVENT).uid("events").setParallelism(1).keyBy(event -> event.f0, Types.STRING);
        SingleOutputStreamOperator<String> results =
                switch (request.get("job").asText()) {
                    case "totals" -> events.process(new Totals());
                    case "distinct" -> events.process(new Distinct());
                    case "windows" -> windows(events, TumblingEventTimeWindows.of(Duration.ofSeconds(60)));
                    case "sessions" -> windows(events, EventTimeSessionWindows.withGap(Duration.ofSeconds(30)));
                    default -> throw new IllegalArgumentException(request.get("job").asText());
                };
        results.uid("main").map(StreamedEvents::emit).returns(Types.STRING).sinkTo(new DiscardingSink<>());
        JobGraph graph = env.getStreamGraph().getJobGraph();
        if (request.hasNonNull("savepoint")) {
            Configuration recovery = new Configuration();
            String path = Path.of(request.get("savepoint").asText()).toUri().toString();
            List.of("execution.savepoint.path", "execution.state-recovery.path").forEach(option -> recovery.setString(option, path));
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.fromConfiguration(recovery));
        }
        return graph;
    }

    private static String emit(String result) {
        EMITTED.add(result);
        return result;
    }

    private static SingleOutputStreamOperator<String> windows(
            KeyedStream<Tuple3<String, Long, Long>, String> events, WindowAssigner<Object, TimeWindow> assigner) {
        return events.window(assigner).aggregate(new Sum(), new Labelled());
    }

    /** Numbered events: key, amount and time follow from the number, in Spark as here. */
    private static final class Events extends IdleSource<Tuple3<String, Long, Long>> {
        private final long from;
        private final long until;
        private final long keys;
        private final boolean ends;

        Events(JsonNode request) {
            from = request.get("from").asLong();
            until = request.get("until").asLong();
            keys = request.get("keys").asLong();
            ends = request.path("ends").asBoolean();
        }

        @Override
        void emit(SourceContext<Tuple3<String, Long, Long>> context) {
            for (long number = from; number < until; number++) {
                long time = (number + 1) * 7000;
                context.collectWithTimestamp(Tuple3.of("user " + (number + number / 9) % keys, number % 97, time), time);
            }
            if (ends) {
                context.emitWatermark(new Watermark(Long.MAX_VALUE));
            }
        }
    }

    /** A running count and more, in all kinds of state. */
    private static final class Totals extends KeyedProcessFunction<String, Tuple3<String, Long, Long>, String> {
        private transient ValueState<Long> count;
        private transient ValueState<Long> recent;
        private transient ListState<Long> amounts;
        private transient MapState<Long, Long> byDigit;

        @Override
        public void open(OpenContext context) {
            ValueStateDescriptor<Long> expiring = new ValueStateDescriptor<>("recent", Types.LONG);
            expiring.enableTimeToLive(StateTtlConfig.newBuilder(Duration.ofDays(1)).build());
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            recent = getRuntimeContext().getState(expiring);
            amounts = getRuntimeContext().getListState(new ListStateDescriptor<>("amounts", Types.LONG));
            byDigit = getRuntimeContext().getMapState(new MapStateDescriptor<>("digits", Types.LONG, Types.LONG));
        }

        @Override
        public void processElement(Tuple3<String, Long, Long> event, Context context, Collector<String> out) throws Exception {
            count.update(count.value() == null ? 1 : count.value() + 1);
            recent.update((recent.value() == null ? 0 : recent.value()) + event.f1);
            amounts.add(event.f1);
            Long before = byDigit.get(event.f1 % 10);
            byDigit.put(event.f1 % 10, before == null ? 1 : before + 1);
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<String> out) throws Exception {
            out.collect(context.getCurrentKey() + " " + time);
        }
    }

    /** The first event of each key. */
    private static final class Distinct extends KeyedProcessFunction<String, Tuple3<String, Long, Long>, String> {
        private transient ValueState<Boolean> seen;

        @Override
        public void open(OpenContext context) {
            seen = getRuntimeContext().getState(new ValueStateDescriptor<>("seen", Types.BOOLEAN));
        }

        @Override
        public void processElement(Tuple3<String, Long, Long> event, Context context, Collector<String> out) throws Exception {
            if (seen.value() == null) {
                seen.update(true);
                context.timerService().registerEventTimeTimer(event.f2 + 60_000);
                out.collect(event.f0 + " " + event.f2);
            }
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<String> out) {
            seen.clear();
        }
    }

    private static final class Sum implements AggregateFunction<Tuple3<String, Long, Long>, Long, Long> {
        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Tuple3<String, Long, Long> event, Long sum) {
            return sum + event.f1;
        }

        @Override
        public Long getResult(Long sum) {
            return sum;
        }

        @Override
        public Long merge(Long a, Long b) {
            return a + b;
        }
    }

    private static final class Labelled extends ProcessWindowFunction<Long, String, String, TimeWindow> {
        @Override
        public void process(String key, Context context, Iterable<Long> sums, Collector<String> out) {
            sums.forEach(sum -> out.collect(key + " " + context.window().getStart() + " " + context.window().getEnd() + " " + sum));
        }
    }

    private StreamedEvents() {}
}
