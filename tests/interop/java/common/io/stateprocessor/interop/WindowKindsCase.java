package io.stateprocessor.interop;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.GlobalWindows;
import org.apache.flink.streaming.api.windowing.evictors.CountEvictor;
import org.apache.flink.streaming.api.windowing.triggers.CountTrigger;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.Collector;

/** The kinds of window operators that {@link WindowsCase} lacks: sliding, with an evictor, global with a count, and with lateness. */
final class WindowKindsCase extends FixtureCase {

    private static final long SIZE = 10_000;
    private static final long SLIDING_SIZE = 20_000;
    private static final long SLIDE = 5_000;
    private static final long LATENESS = 25_000;
    private static final int COUNT = 3;
    private static final String EVENT = "POJO<" + Event.class.getName() + ">";
    private static final String CONTENTS = "window-contents";

    private static final StateSpec AVERAGES = StateSpec.of(StateSpec.Kind.AGGREGATING, CONTENTS, "TUPLE<LONG,LONG>").inNamespace("TIME_WINDOW");
    private static final StateSpec RECORDS = StateSpec.of(StateSpec.Kind.LIST, CONTENTS, "STREAM_RECORD<" + EVENT + ">").inNamespace("TIME_WINDOW");
    private static final StateSpec GLOBAL = StateSpec.of(StateSpec.Kind.REDUCING, CONTENTS, EVENT).inNamespace("GLOBAL_WINDOW");
    private static final StateSpec COUNTS = StateSpec.of(StateSpec.Kind.REDUCING, "count", "LONG").inNamespace("GLOBAL_WINDOW");
    private static final StateSpec EVENTS = StateSpec.of(StateSpec.Kind.LIST, CONTENTS, EVENT).inNamespace("TIME_WINDOW");
    private static final StateSpec FIRED = StateSpec.of(StateSpec.Kind.VALUE, "fired-in-window", "INT").inNamespace("TIME_WINDOW");
    private static final StateSpec TOTAL = StateSpec.of(StateSpec.Kind.VALUE, "fired-in-total", "INT");
    private static final StateSpec TIMERS = new StateSpec("window-timers", StateSpec.Kind.EVENT_TIMER, null, null, "TIME_WINDOW", false);

    @Override
    String name() {
        return "windows-kinds";
    }

    @Override
    List<OperatorSpec> operators() {
        return List.of(
                new OperatorSpec("sliding-aggregate", "STRING", AVERAGES, TIMERS),
                new OperatorSpec("tumbling-evictor", "STRING", RECORDS, TIMERS),
                new OperatorSpec("global-count", "STRING", GLOBAL, COUNTS, TIMERS.inNamespace("GLOBAL_WINDOW")),
                new OperatorSpec("tumbling-late", "STRING", EVENTS, TIMERS, FIRED, TOTAL));
    }

    /** Events of five users in order of time; all operators get all of them. */
    @Override
    List<Step> steps() {
        List<Step> steps = new ArrayList<>();
        for (int i = 0; i < 120; i++) {
            String user = "user-" + (i * i + i / 9) % 5;
            steps.add(new Step(null, null, user, new Event(user, i, START + i * 500L)));
        }
        return steps;
    }

    @Override
    void build(DataStream<Integer> source) {
        KeyedStream<Event, String> events =
                source.map(index -> (Event) Steps.get("windows-kinds", index).value())
                        .returns(Event.class)
                        .setParallelism(1)
                        .uid("events")
                        .name("events")
                        .keyBy(event -> event.user);
        events.window(Compat.sliding(SLIDING_SIZE, SLIDE))
                .aggregate(new AverageAmount(), Types.TUPLE(Types.LONG, Types.LONG), Types.DOUBLE)
                .uid("sliding-aggregate")
                .name("sliding-aggregate");
        events.window(Compat.tumbling(SIZE))
                .evictor(CountEvictor.of(1000))
                .process(new Ignore())
                .uid("tumbling-evictor")
                .name("tumbling-evictor");
        events.window(GlobalWindows.create())
                .trigger(CountTrigger.<GlobalWindow>of(COUNT))
                .reduce((left, right) -> (Event) new Sum().reduce(left, right))
                .uid("global-count")
                .name("global-count");
        Compat.lateness(events.window(Compat.tumbling(SIZE)), LATENESS).process(new Remember()).uid("tumbling-late").name("tumbling-late");
    }

    @Override
    List<String> statelessOperators() {
        return List.of(StepJob.SOURCE, "events");
    }

    @Override
    Model expected(int parallelism) {
        Model model = new Model(parallelism);
        Map<String, Integer> events = new HashMap<>();
        Map<String, TreeSet<Long>> windows = new HashMap<>();
        for (Step step : steps()) {
            Event event = (Event) step.value();
            long start = event.time - event.time % SIZE;
            TimeWindow window = new TimeWindow(start, start + SIZE);
            for (long first = event.time - event.time % SLIDE; first > event.time - SLIDING_SIZE; first -= SLIDE) {
                add(model, "sliding-aggregate", AVERAGES, event.user, new TimeWindow(first, first + SLIDING_SIZE), event.amount);
            }
            add(model, "tumbling-evictor", RECORDS, event.user, window, new StreamRecord<>(event, event.time));
            model.add("global-count", GLOBAL, event.user, GlobalWindow.get(), event);
            events.merge(event.user, 1, Integer::sum);
            if (window.maxTimestamp() + LATENESS > watermark()) {
                model.add("tumbling-late", EVENTS, event.user, window, event);
                model.addTimer("tumbling-late", TIMERS.kind(), event.user, window, window.maxTimestamp());
                model.addTimer("tumbling-late", TIMERS.kind(), event.user, window, window.maxTimestamp() + LATENESS);
                if (window.maxTimestamp() <= watermark()) {
                    model.add("tumbling-late", FIRED, event.user, window, 1);
                }
            }
            if (window.maxTimestamp() <= watermark()) {
                windows.computeIfAbsent(event.user, user -> new TreeSet<>()).add(start);
                model.add("tumbling-late", TOTAL, event.user, VoidNamespace.INSTANCE, windows.get(event.user).size());
            }
        }
        events.forEach((user, count) -> {
            if (count % COUNT != 0) {
                model.add("global-count", COUNTS, user, GlobalWindow.get(), (long) (count % COUNT));
            }
        });
        model.advanceTo(watermark());
        return model;
    }

    /** Adds to a window that has not fired yet. */
    private void add(Model model, String uid, StateSpec state, String user, TimeWindow window, Object value) {
        if (window.maxTimestamp() > watermark()) {
            model.add(uid, state, user, window, value);
            model.addTimer(uid, TIMERS.kind(), user, window, window.maxTimestamp());
        }
    }

    @Override
    long watermark() {
        return START + 41_999;
    }

    private static final class AverageAmount implements AggregateFunction<Event, Tuple2<Long, Long>, Double> {
        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Event event, Tuple2<Long, Long> sum) {
            return Tuple2.of(sum.f0 + event.amount, sum.f1 + 1);
        }

        @Override
        public Double getResult(Tuple2<Long, Long> sum) {
            return (double) sum.f0 / sum.f1;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) {
            return Tuple2.of(a.f0 + b.f0, a.f1 + b.f1);
        }
    }

    private static final class Ignore extends ProcessWindowFunction<Event, Void, String, TimeWindow> {
        @Override
        public void process(String key, Context context, Iterable<Event> events, Collector<Void> out) {}
    }

    /** Counts how often each window fired, and all of a key. */
    private static final class Remember extends ProcessWindowFunction<Event, Void, String, TimeWindow> {

        private static ValueState<Integer> state(KeyedStateStore store, StateSpec spec) {
            return store.getState(new ValueStateDescriptor<>(spec.name(), Types.INT));
        }

        @Override
        public void process(String key, Context context, Iterable<Event> events, Collector<Void> out) throws Exception {
            for (ValueState<Integer> fired : List.of(state(context.windowState(), FIRED), state(context.globalState(), TOTAL))) {
                fired.update(fired.value() == null ? 1 : fired.value() + 1);
            }
        }

        @Override
        public void clear(Context context) {
            state(context.windowState(), FIRED).clear();
        }
    }
}
