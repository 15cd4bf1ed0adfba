package io.stateprocessor.interop;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.apache.flink.api.connector.sink2.CommittingSinkWriter;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.StatefulSinkWriter;
import org.apache.flink.api.connector.sink2.SupportsCommitter;
import org.apache.flink.api.connector.sink2.SupportsWriterState;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.datastream.WindowedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.async.AsyncFunction;
import org.apache.flink.streaming.api.functions.async.AsyncRetryStrategy;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.co.KeyedBroadcastProcessFunction;
import org.apache.flink.streaming.api.functions.co.ProcessJoinFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.api.windowing.assigners.DynamicEventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.GlobalWindows;
import org.apache.flink.streaming.api.windowing.assigners.ProcessingTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingProcessingTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.evictors.CountEvictor;
import org.apache.flink.streaming.api.windowing.evictors.TimeEvictor;
import org.apache.flink.streaming.api.windowing.triggers.ContinuousEventTimeTrigger;
import org.apache.flink.streaming.api.windowing.triggers.ContinuousProcessingTimeTrigger;
import org.apache.flink.streaming.api.windowing.triggers.CountTrigger;
import org.apache.flink.streaming.api.windowing.triggers.EventTimeTrigger;
import org.apache.flink.streaming.api.windowing.triggers.ProcessingTimeTrigger;
import org.apache.flink.streaming.api.windowing.triggers.ProcessingTimeoutTrigger;
import org.apache.flink.streaming.api.windowing.triggers.PurgingTrigger;
import org.apache.flink.streaming.api.windowing.triggers.Trigger;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.api.windowing.windows.Window;
import org.apache.flink.streaming.util.retryable.AsyncRetryStrategies;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * Pipelines of Flink's own operators, each in several shapes: a job takes a savepoint, and another one goes on from it.
 *
 * <p>Arguments: a file with a JSON list of requests, and the file for the answers. A request has {@code shape} (words: the operator,
 * then its variants), {@code anonymous}, {@code backend}, the directory {@code to} for a savepoint, {@code files}, and the {@code
 * savepoint} to begin with. With a savepoint, time comes to an end. An answer has the {@code savepoint}, and what the pipeline {@code
 * emitted}; or the {@code error}.
 */
public final class Pipelines {

    private static final Queue<String> EMITTED = new ConcurrentLinkedQueue<>();
    private static final TypeInformation<Tuple3<String, Long, Long>> EVENT = Types.TUPLE(Types.STRING, Types.LONG, Types.LONG);
    private static final OutputTag<String> ASIDE = new OutputTag<>("aside", Types.STRING);
    private static volatile boolean goesOn;

    public static void main(String[] arguments) throws Exception {
        List<JsonNode> answers = new ArrayList<>();
        try (Cluster cluster = Cluster.kept(4, 0)) {
            for (JsonNode request : Json.MAPPER.readTree(Path.of(arguments[0]).toFile())) {
                answers.add(answer(cluster, request));
            }
        }
        Json.MAPPER.writeValue(Path.of(arguments[1]).toFile(), Json.array(answers));
    }

    private static JsonNode answer(Cluster cluster, JsonNode request) {
        ObjectNode answer = Json.object();
        EMITTED.clear();
        goesOn = request.hasNonNull("savepoint");
        JobID job = null;
        try {
            JobGraph graph = graph(request);
            answer.put("plan", GraphHashes.plan(graph));
            job = cluster.start(graph);
            boolean isSource = request.get("shape").get(0).asText().equals("source");
            if (isSource) {
                awaitNumber();
            } else {
                IdleSource.awaitEmitted();
            }
            answer.put("savepoint", cluster.savepoint(job, Path.of(request.get("to").asText()), SavepointFormatType.CANONICAL).toString());
            if (goesOn && !isSource) {
                cluster.savepoint(job, Path.of(request.get("to").asText()), SavepointFormatType.CANONICAL); // results came before it
            }
            cluster.cancel(job);
            answer.set("emitted", Json.of(EMITTED.stream().sorted().toList()));
        } catch (Exception refused) {
            StringBuilder text = new StringBuilder();
            for (Throwable cause = refused; cause != null; cause = cause.getCause()) {
                text.append(cause).append('\n');
            }
            answer.put("error", text.toString());
            if (job != null) {
                cluster.end(job, refused);
            }
        }
        return answer;
    }

    private static void awaitNumber() throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.MINUTES.toNanos(5);
        while (EMITTED.isEmpty()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("the source did not emit a number");
            }
            Thread.sleep(20);
        }
    }

    private static JobGraph graph(JsonNode request) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", request.get("backend").asText());
        settings.setString("restart-strategy.type", "none");
        settings.setString("restart-strategy", "none");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        env.setParallelism(1);
        env.setMaxParallelism(128);
        env.enableCheckpointing(24 * 60 * 60 * 1000L);
        List<String> shape = new ArrayList<>();
        request.get("shape").forEach(word -> shape.add(word.asText()));
        build(env, shape, request);
        JobGraph graph = env.getStreamGraph().getJobGraph();
        if (goesOn) {
            Configuration recovery = new Configuration();
            for (String option : List.of("execution.savepoint.path", "execution.state-recovery.path")) {
                recovery.setString(option, Path.of(request.get("savepoint").asText()).toUri().toString());
            }
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.fromConfiguration(recovery));
        }
        return graph;
    }

    private static void build(StreamExecutionEnvironment env, List<String> shape, JsonNode request) throws Exception {
        boolean anonymous = request.path("anonymous").asBoolean(false);
        Events source = new Events(!shape.contains("window"), shape.contains("again"));
        DataStream<Tuple3<String, Long, Long>> events = named(env.addSource(source, "events", EVENT), "events", anonymous);
        if (shape.contains("mapped")) {
            events = named(events.map(event -> event).returns(EVENT), "mapped", anonymous);
        }
        if (shape.contains("rebalanced")) {
            events = events.rebalance();
        }
        KeyedStream<Tuple3<String, Long, Long>, String> keyed =
                shape.contains("capitals")
                        ? events.keyBy(event -> event.f0.toUpperCase(), Types.STRING)
                        : events.keyBy(event -> event.f0, Types.STRING);
        SingleOutputStreamOperator<String> results =
                switch (shape.get(0)) {
                    case "window" -> windows(keyed, shape);
                    case "count" -> counted(keyed, shape);
                    case "timers" -> keyed.process(new Timers<String>(shape));
                    case "all" -> events.windowAll(assigner(shape.get(1))).reduce(new Total()).map(Pipelines::text).returns(Types.STRING);
                    case "sum" -> keyed.sum(1).map(Pipelines::text).returns(Types.STRING);
                    case "max" -> keyed.max(1).map(Pipelines::text).returns(Types.STRING);
                    case "reduce" -> keyed.reduce(total(shape)).map(Pipelines::text).returns(Types.STRING);
                    case "numbered" -> events.keyBy(event -> (long) event.f0.charAt(0), Types.LONG).process(new Timers<Long>(shape));
                    case "wait" -> waiting(events, shape);
                    case "interval" -> interval(keyed, shape);
                    case "cep" -> pattern(keyed, shape);
                    case "broadcast" -> broadcast(env, keyed, shape, anonymous);
                    default -> null;
                };
        if (shape.get(0).equals("sink")) {
            var sink = events.map(Pipelines::text).returns(Types.STRING).sinkTo(sink(shape));
            if (!anonymous) {
                sink.uid("main");
            }
            return;
        }
        if (shape.get(0).equals("source")) {
            results = source(env, shape, Path.of(request.get("files").asText()));
            named(results, "main", anonymous).map(new Slowly()).returns(Types.STRING).print("ignored");
            return;
        }
        if (shape.contains("unchained")) {
            results = results.disableChaining();
        }
        DataStream<String> emitted = shape.contains("aside") ? results.getSideOutput(ASIDE) : results;
        named(results, "main", anonymous);
        emitted.map(new Emit()).returns(Types.STRING).print("ignored");
    }

    private static ReduceFunction<Tuple3<String, Long, Long>> total(List<String> shape) {
        return shape.contains("highest") ? (a, b) -> a.f1 > b.f1 ? a : b : new Total();
    }

    private static <T> SingleOutputStreamOperator<T> named(SingleOutputStreamOperator<T> stream, String uid, boolean anonymous) {
        return anonymous ? stream : stream.uid(uid);
    }

    private static String text(Tuple3<String, Long, Long> event) {
        return event.f0 + ":" + event.f1;
    }

    private static SingleOutputStreamOperator<String> windows(
            KeyedStream<Tuple3<String, Long, Long>, String> keyed, List<String> shape) {
        WindowedStream<Tuple3<String, Long, Long>, String, TimeWindow> windows = keyed.window(assigner(shape.get(1)));
        if (shape.contains("late")) {
            windows = windows.allowedLateness(Duration.ofSeconds(9));
        }
        Trigger<Object, TimeWindow> trigger =
                shape.contains("counting") ? CountTrigger.of(50)
                        : shape.contains("purging") ? PurgingTrigger.of(EventTimeTrigger.create())
                        : shape.contains("continuous") ? ContinuousEventTimeTrigger.of(Duration.ofSeconds(2))
                        : shape.contains("by-clock") ? ProcessingTimeTrigger.create()
                        : shape.contains("continuous-by-clock") ? ContinuousProcessingTimeTrigger.of(Duration.ofDays(9))
                        : shape.contains("timeout") ? ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), Duration.ofDays(9))
                        : shape.contains("third") ? CountTrigger.of(3)
                        : null;
        if (trigger != null) {
            windows = windows.trigger(trigger);
        }
        if (shape.contains("evicting")) {
            windows = windows.evictor(CountEvictor.of(9));
        }
        if (shape.contains("recent")) {
            windows = windows.evictor(TimeEvictor.of(Duration.ofSeconds(60)));
        }
        if (shape.contains("counted")) {
            return windows.aggregate(new Count(), new Sums<>());
        }
        if (shape.contains("flat")) {
            return windows.aggregate(new FlatMean(), new Sums<>());
        }
        if (shape.contains("aggregate")) {
            return windows.aggregate(new Mean(), new Sums<>());
        }
        return shape.contains("elements")
                ? windows.process(new Elements())
                : windows.reduce(total(shape), new Texts<>());
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static WindowAssigner<Object, TimeWindow> assigner(String name) {
        WindowAssigner found =
                switch (name) {
                    case "session" -> EventTimeSessionWindows.withGap(Duration.ofSeconds(5));
                    case "longer-session" -> EventTimeSessionWindows.withGap(Duration.ofSeconds(8));
                    case "sliding" -> SlidingEventTimeWindows.of(Duration.ofSeconds(10), Duration.ofSeconds(5));
                    case "processing" -> TumblingProcessingTimeWindows.of(Duration.ofDays(9000));
                    case "processing-session" -> ProcessingTimeSessionWindows.withGap(Duration.ofDays(9000));
                    case "longer" -> TumblingEventTimeWindows.of(Duration.ofSeconds(20));
                    case "shorter" -> TumblingEventTimeWindows.of(Duration.ofSeconds(5));
                    case "offset" -> TumblingEventTimeWindows.of(Duration.ofSeconds(10), Duration.ofSeconds(3));
                    case "wide-sliding" -> SlidingEventTimeWindows.of(Duration.ofSeconds(20), Duration.ofSeconds(5));
                    case "shorter-session" -> EventTimeSessionWindows.withGap(Duration.ofSeconds(2));
                    case "dynamic-session" -> DynamicEventTimeSessionWindows.withDynamicGap(event -> 5000);
                    default -> TumblingEventTimeWindows.of(Duration.ofSeconds(10));
                };
        return found;
    }

    private static SingleOutputStreamOperator<String> counted(
            KeyedStream<Tuple3<String, Long, Long>, String> keyed, List<String> shape) {
        if (shape.contains("written-out")) {
            return keyed.window(GlobalWindows.create())
                    .trigger(PurgingTrigger.of(CountTrigger.of(3)))
                    .reduce(new Total(), new Texts<GlobalWindow>());
        }
        if (shape.contains("keeping")) {
            return keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(3)).reduce(new Total(), new Texts<GlobalWindow>());
        }
        if (shape.contains("every")) {
            return keyed.countWindow(3, 1).reduce(new Total(), new Texts<GlobalWindow>());
        }
        return keyed.countWindow(shape.contains("four") ? 4 : shape.contains("two") ? 2 : 3)
                .reduce(total(shape), new Texts<GlobalWindow>());
    }

    private static SingleOutputStreamOperator<String> waiting(DataStream<Tuple3<String, Long, Long>> events, List<String> shape) {
        Wait wait = new Wait();
        if (shape.contains("retried")) {
            AsyncRetryStrategy<String> twice = new AsyncRetryStrategies.FixedDelayRetryStrategyBuilder<String>(2, 100L).build();
            return AsyncDataStream.unorderedWaitWithRetry(events, wait, 1, TimeUnit.DAYS, 100, twice);
        }
        int capacity = shape.contains("small") && goesOn ? 1 : 100;
        return shape.contains("ordered")
                ? AsyncDataStream.orderedWait(events, wait, 1, TimeUnit.DAYS, capacity)
                : AsyncDataStream.unorderedWait(events, wait, 1, TimeUnit.DAYS, capacity);
    }

    private static SingleOutputStreamOperator<String> interval(
            KeyedStream<Tuple3<String, Long, Long>, String> keyed, List<String> shape) {
        long seconds = shape.contains("wide") ? 60 : shape.contains("narrow") ? 1 : 20;
        return keyed.intervalJoin(keyed)
                .between(Duration.ofSeconds(-seconds), Duration.ofSeconds(seconds))
                .process(new Joined());
    }

    private static SingleOutputStreamOperator<String> pattern(
            KeyedStream<Tuple3<String, Long, Long>, String> keyed, List<String> shape) {
        Pattern<Tuple3<String, Long, Long>, ?> pattern =
                Pattern.<Tuple3<String, Long, Long>>begin(shape.contains("renamed") ? "start" : "first")
                        .where(SimpleCondition.of(event -> event.f1 < (shape.contains("stricter") ? 2 : 5)))
                        .followedBy("second")
                        .where(SimpleCondition.of(event -> event.f1 > 90));
        if (shape.contains("strict")) {
            pattern =
                    Pattern.<Tuple3<String, Long, Long>>begin("first")
                            .where(SimpleCondition.of(event -> event.f1 < 5))
                            .next("second")
                            .where(SimpleCondition.of(event -> event.f1 > 90));
        }
        if (shape.contains("repeated")) {
            pattern =
                    Pattern.<Tuple3<String, Long, Long>>begin("first")
                            .where(SimpleCondition.of(event -> event.f1 < 5))
                            .oneOrMore()
                            .followedBy("second")
                            .where(SimpleCondition.of(event -> event.f1 > 90));
        }
        if (shape.contains("third")) {
            pattern = pattern.followedBy("third").where(SimpleCondition.of(event -> event.f1 > 1000));
        }
        if (shape.contains("within")) {
            pattern = pattern.within(Duration.ofMinutes(9));
        }
        return CEP.pattern(keyed, pattern).process(new Matches());
    }

    private static SingleOutputStreamOperator<String> broadcast(
            StreamExecutionEnvironment env, KeyedStream<Tuple3<String, Long, Long>, String> keyed, List<String> shape, boolean anonymous) {
        MapStateDescriptor<String, Long> rules =
                new MapStateDescriptor<>(shape.contains("renamed") ? "others" : "rules", Types.STRING, Types.LONG);
        DataStream<Tuple3<String, Long, Long>> side = named(env.addSource(new Events(false, false), "rules", EVENT), "rules", anonymous);
        return keyed.connect(side.broadcast(rules)).process(new Ruled(rules));
    }

    private static SingleOutputStreamOperator<String> source(StreamExecutionEnvironment env, List<String> shape, Path files) throws Exception {
        if (shape.contains("files")) {
            FileSource<String> source =
                    FileSource.forRecordStreamFormat(new TextLineInputFormat(), new org.apache.flink.core.fs.Path(files.toUri())).build();
            return (SingleOutputStreamOperator<String>) env.fromSource(source, WatermarkStrategy.noWatermarks(), "files");
        }
        NumberSequenceSource numbers = new NumberSequenceSource(shape.contains("later") ? 1000 : 1, 100_000);
        return env.fromSource(numbers, WatermarkStrategy.noWatermarks(), "numbers").map(String::valueOf).returns(Types.STRING);
    }

    private static Sink<String> sink(List<String> shape) {
        int version = shape.contains("version-2") ? 2 : 1;
        boolean readsOld = !shape.contains("strict");
        if (shape.contains("plain")) {
            return new PlainSink();
        }
        return shape.contains("stateless") ? new CommittingSink(version, readsOld) : new FullSink(version, readsOld);
    }

    /** Events before the savepoint, or those after it and the end of time. */
    private static final class Events extends IdleSource<Tuple3<String, Long, Long>> {
        private final boolean more;
        private final boolean again;

        /**
         * @param more whether there are events after the savepoint
         * @param again whether there are events in the same windows after the savepoint
         */
        Events(boolean more, boolean again) {
            this.more = more;
            this.again = again;
        }

        @Override
        void emit(SourceContext<Tuple3<String, Long, Long>> context) {
            if (goesOn) {
                for (String key : again ? List.of("a", "b") : List.<String>of()) {
                    context.collectWithTimestamp(Tuple3.of(key, 7L, 3000L), 3000L);
                }
                for (String key : more ? List.of("a", "b") : List.<String>of()) {
                    context.collectWithTimestamp(Tuple3.of(key, 100L, 500_000L), 500_000L);
                }
                context.emitWatermark(new Watermark(Long.MAX_VALUE));
                return;
            }
            for (long i = 1; i <= 2; i++) {
                for (String key : List.of("a", "b")) {
                    context.collectWithTimestamp(Tuple3.of(key, i, 1000 * i), 1000 * i);
                }
            }
            context.emitWatermark(new Watermark(2500));
        }
    }

    private static final class Total implements ReduceFunction<Tuple3<String, Long, Long>> {
        @Override
        public Tuple3<String, Long, Long> reduce(Tuple3<String, Long, Long> a, Tuple3<String, Long, Long> b) {
            return Tuple3.of(a.f0, a.f1 + b.f1, a.f2);
        }
    }

    private static final class Mean implements AggregateFunction<Tuple3<String, Long, Long>, Tuple3<String, Long, Long>, Long> {
        @Override
        public Tuple3<String, Long, Long> createAccumulator() {
            return Tuple3.of("", 0L, 0L);
        }

        @Override
        public Tuple3<String, Long, Long> add(Tuple3<String, Long, Long> event, Tuple3<String, Long, Long> sum) {
            return Tuple3.of(event.f0, sum.f1 + event.f1, sum.f2 + 1);
        }

        @Override
        public Long getResult(Tuple3<String, Long, Long> sum) {
            return sum.f1;
        }

        @Override
        public Tuple3<String, Long, Long> merge(Tuple3<String, Long, Long> a, Tuple3<String, Long, Long> b) {
            return Tuple3.of(a.f0, a.f1 + b.f1, a.f2 + b.f2);
        }
    }

    /** The mean with the accumulator of {@link Mean}, whose result is the number of events. */
    private static final class Count implements AggregateFunction<Tuple3<String, Long, Long>, Tuple3<String, Long, Long>, Long> {
        private final Mean mean = new Mean();

        @Override
        public Tuple3<String, Long, Long> createAccumulator() {
            return mean.createAccumulator();
        }

        @Override
        public Tuple3<String, Long, Long> add(Tuple3<String, Long, Long> event, Tuple3<String, Long, Long> sum) {
            return mean.add(event, sum);
        }

        @Override
        public Long getResult(Tuple3<String, Long, Long> sum) {
            return sum.f2;
        }

        @Override
        public Tuple3<String, Long, Long> merge(Tuple3<String, Long, Long> a, Tuple3<String, Long, Long> b) {
            return mean.merge(a, b);
        }
    }

    /** {@link Mean} with another accumulator. */
    private static final class FlatMean implements AggregateFunction<Tuple3<String, Long, Long>, Tuple2<Long, Long>, Long> {
        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Tuple3<String, Long, Long> event, Tuple2<Long, Long> sum) {
            return Tuple2.of(sum.f0 + event.f1, sum.f1 + 1);
        }

        @Override
        public Long getResult(Tuple2<Long, Long> sum) {
            return sum.f0;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) {
            return Tuple2.of(a.f0 + b.f0, a.f1 + b.f1);
        }
    }

    private static final class Texts<W extends Window> extends ProcessWindowFunction<Tuple3<String, Long, Long>, String, String, W> {
        @Override
        public void process(String key, Context context, Iterable<Tuple3<String, Long, Long>> sums, Collector<String> out) {
            sums.forEach(sum -> out.collect(text(sum)));
        }
    }

    private static final class Sums<W extends Window> extends ProcessWindowFunction<Long, String, String, W> {
        @Override
        public void process(String key, Context context, Iterable<Long> sums, Collector<String> out) {
            sums.forEach(sum -> out.collect(key + ":" + sum));
        }
    }

    private static final class Elements extends ProcessWindowFunction<Tuple3<String, Long, Long>, String, String, TimeWindow> {
        @Override
        public void process(String key, Context context, Iterable<Tuple3<String, Long, Long>> events, Collector<String> out) {
            long sum = 0;
            for (Tuple3<String, Long, Long> event : events) {
                sum += event.f1;
            }
            out.collect(key + ":" + sum);
        }
    }

    private static final class Timers<K> extends KeyedProcessFunction<K, Tuple3<String, Long, Long>, String> {
        private final ArrayList<String> shape;
        private transient ValueState<Long> sum;

        Timers(List<String> shape) {
            this.shape = new ArrayList<>(shape);
        }

        @Override
        public void open(OpenContext context) {
            sum = getRuntimeContext().getState(new ValueStateDescriptor<>(shape.contains("renamed") ? "total" : "sum", Types.LONG));
        }

        @Override
        public void processElement(Tuple3<String, Long, Long> event, Context context, Collector<String> out) throws Exception {
            sum.update((sum.value() == null ? 0 : sum.value()) + event.f1);
            if (!shape.contains("processing")) {
                context.timerService().registerEventTimeTimer(100_000);
            } else {
                context.timerService().registerProcessingTimeTimer(9_000_000_000_000L);
            }
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<String> out) throws Exception {
            String result = context.getCurrentKey() + ":" + sum.value();
            if (shape.contains("aside")) {
                context.output(ASIDE, result);
            } else {
                out.collect(result);
            }
        }
    }

    private static final class Wait implements AsyncFunction<Tuple3<String, Long, Long>, String> {
        @Override
        public void asyncInvoke(Tuple3<String, Long, Long> event, ResultFuture<String> result) {
            if (goesOn) {
                result.complete(List.of(text(event)));
            }
        }
    }

    private static final class Joined extends ProcessJoinFunction<Tuple3<String, Long, Long>, Tuple3<String, Long, Long>, String> {
        @Override
        public void processElement(
                Tuple3<String, Long, Long> left, Tuple3<String, Long, Long> right, Context context, Collector<String> out) {
            out.collect(text(left) + "+" + text(right));
        }
    }

    private static final class Matches extends PatternProcessFunction<Tuple3<String, Long, Long>, String> {
        @Override
        public void processMatch(Map<String, List<Tuple3<String, Long, Long>>> match, Context context, Collector<String> out) {
            List<String> events = new ArrayList<>();
            match.values().forEach(found -> found.forEach(event -> events.add(text(event))));
            out.collect(String.join("+", events.stream().sorted().toList()));
        }
    }

    private static final class Ruled
            extends KeyedBroadcastProcessFunction<String, Tuple3<String, Long, Long>, Tuple3<String, Long, Long>, String> {
        private final MapStateDescriptor<String, Long> rules;

        Ruled(MapStateDescriptor<String, Long> rules) {
            this.rules = rules;
        }

        @Override
        public void processElement(Tuple3<String, Long, Long> event, ReadOnlyContext context, Collector<String> out) throws Exception {
            ValueState<Long> sum = getRuntimeContext().getState(new ValueStateDescriptor<>("sum", Types.LONG));
            sum.update((sum.value() == null ? 0 : sum.value()) + event.f1);
            context.timerService().registerEventTimeTimer(100_000);
        }

        @Override
        public void processBroadcastElement(Tuple3<String, Long, Long> rule, Context context, Collector<String> out) throws Exception {
            if (!goesOn) {
                context.getBroadcastState(rules).put(rule.f0 + rule.f1, rule.f1);
            }
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<String> out) throws Exception {
            List<String> found = new ArrayList<>();
            context.getBroadcastState(rules).immutableEntries().forEach(entry -> found.add(entry.getKey()));
            out.collect(context.getCurrentKey() + found.stream().sorted().toList());
        }
    }

    private static final class Emit implements org.apache.flink.api.common.functions.MapFunction<String, String> {
        @Override
        public String map(String result) {
            EMITTED.add(result);
            return result;
        }
    }

    /** Notes the first numbers of a source, which goes on slowly. */
    private static final class Slowly implements org.apache.flink.api.common.functions.MapFunction<String, String> {
        @Override
        public String map(String result) throws Exception {
            Thread.sleep(50);
            if (EMITTED.isEmpty()) {
                EMITTED.add(result);
            }
            return result;
        }
    }

    private record Text(int version, boolean readsOld) implements SimpleVersionedSerializer<String>, Serializable {
        @Override
        public int getVersion() {
            return version;
        }

        @Override
        public byte[] serialize(String text) {
            return (version == 1 ? text : "2" + text).getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(int written, byte[] bytes) throws java.io.IOException {
            String text = new String(bytes, StandardCharsets.UTF_8);
            if (written != version && !readsOld) {
                throw new java.io.IOException("version " + written);
            }
            return written == 1 ? text : text.substring(1);
        }
    }

    private static final class PlainSink implements BaseSink {
        @Override
        public SinkWriter<String> createWriter(WriterInitContext context) {
            return new Writer(List.of());
        }
    }

    private static class CommittingSink implements BaseSink, SupportsCommitter<String> {
        final int version;
        final boolean readsOld;

        CommittingSink(int version, boolean readsOld) {
            this.version = version;
            this.readsOld = readsOld;
        }

        @Override
        public SinkWriter<String> createWriter(WriterInitContext context) {
            return new Writer(List.of());
        }

        @Override
        public Committer<String> createCommitter(CommitterInitContext context) {
            return new Commits();
        }

        @Override
        public SimpleVersionedSerializer<String> getCommittableSerializer() {
            return new Text(version, readsOld);
        }
    }

    private static final class FullSink extends CommittingSink implements SupportsWriterState<String, String> {
        FullSink(int version, boolean readsOld) {
            super(version, readsOld);
        }

        @Override
        public StatefulSinkWriter<String, String> restoreWriter(WriterInitContext context, Collection<String> states) {
            return new Writer(states);
        }

        @Override
        public SimpleVersionedSerializer<String> getWriterStateSerializer() {
            return new Text(version, readsOld);
        }
    }

    private static final class Writer implements CommittingSinkWriter<String, String>, StatefulSinkWriter<String, String> {
        private final List<String> written = new ArrayList<>();
        private final List<String> open = new ArrayList<>();

        Writer(Collection<String> states) {
            states.forEach(state -> EMITTED.add("state " + state));
            open.addAll(states);
        }

        @Override
        public void write(String text, Context context) {
            written.add(text);
            open.add(text);
        }

        @Override
        public void flush(boolean endOfInput) {}

        @Override
        public Collection<String> prepareCommit() {
            List<String> committables = List.copyOf(written);
            written.clear();
            return committables;
        }

        @Override
        public List<String> snapshotState(long checkpointId) {
            return open;
        }

        @Override
        public void close() {}
    }

    private static final class Commits implements Committer<String> {
        @Override
        public void commit(Collection<CommitRequest<String>> requests) {
            for (CommitRequest<String> request : requests) { // those of the savepoint are in it: they are committed after it
                EMITTED.add("commit " + request.getCommittable());
            }
        }

        @Override
        public void close() {}
    }

    private Pipelines() {}
}
