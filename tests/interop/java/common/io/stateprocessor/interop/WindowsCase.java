package io.stateprocessor.interop;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * Window operators with windows still open: tumbling ones that reduce, and merging sessions that keep every event. The tumbling ones may
 * have asynchronous state; Flink has no merging ones that do.
 */
final class WindowsCase extends FixtureCase {

    private static final long SIZE = 10_000;
    private static final long GAP = 5_000;
    private static final String EVENT = "POJO<" + Event.class.getName() + ">";

    private static final StateSpec TUMBLING =
            StateSpec.of(StateSpec.Kind.REDUCING, "window-contents", EVENT).inNamespace("TIME_WINDOW");
    private static final StateSpec SESSION =
            StateSpec.of(StateSpec.Kind.LIST, "window-contents", EVENT).inNamespace("TIME_WINDOW");
    private static final StateSpec MERGING =
            StateSpec.of(StateSpec.Kind.LIST, "merging-window-set", "TUPLE<TIME_WINDOW,TIME_WINDOW>");
    private static final StateSpec TIMERS =
            new StateSpec("window-timers", StateSpec.Kind.EVENT_TIMER, null, null, "TIME_WINDOW", false);

    private final String name;
    private final boolean isAsynchronous;

    WindowsCase(String name, boolean isAsynchronous) {
        this.name = name;
        this.isAsynchronous = isAsynchronous;
    }

    @Override
    String name() {
        return name;
    }

    @Override
    List<OperatorSpec> operators() {
        return List.of(
                new OperatorSpec("tumbling-reduce", null, "STRING", List.of(TUMBLING, TIMERS), isAsynchronous),
                new OperatorSpec("session-process", "STRING", SESSION, TIMERS, MERGING));
    }

    /** Events of eight users in order of time; both operators get all of them. */
    @Override
    List<Step> steps() {
        List<Step> steps = new ArrayList<>();
        for (int i = 0; i < 120; i++) {
            String user = "user-" + (i * i + i / 9) % 8;
            steps.add(new Step(null, null, user, new Event(user, i, START + i * 500L)));
        }
        return steps;
    }

    @Override
    void build(DataStream<Integer> source) {
        String job = name;
        KeyedStream<Event, String> events =
                source.map(index -> (Event) Steps.get(job, index).value())
                        .returns(Event.class)
                        .setParallelism(1)
                        .uid("events")
                        .name("events")
                        .keyBy(event -> event.user);
        events.window(Compat.session(GAP)).process(new Note("session-process")).uid("session-process").name("session-process");
        KeyedStream<Event, String> tumbled = isAsynchronous ? AsynchronousState.enabled(events) : events; // what follows
        tumbled.window(Compat.tumbling(SIZE))
                .reduce((left, right) -> (Event) new Sum().reduce(left, right), new Note("tumbling-reduce"))
                .uid("tumbling-reduce")
                .name("tumbling-reduce");
    }

    @Override
    List<String> statelessOperators() {
        return List.of(StepJob.SOURCE, "events");
    }

    @Override
    Model expected(int parallelism) {
        Model model = new Model(parallelism);
        Map<String, List<Session>> sessions = new HashMap<>();
        for (Step step : steps()) {
            Event event = (Event) step.value();
            long start = event.time - event.time % SIZE;
            if (start + SIZE - 1 > watermark()) {
                TimeWindow window = new TimeWindow(start, start + SIZE);
                model.add("tumbling-reduce", TUMBLING, event.user, window, event);
                model.addTimer("tumbling-reduce", TIMERS.kind(), event.user, window, window.maxTimestamp());
            }
            addToSession(sessions.computeIfAbsent(event.user, user -> new ArrayList<>()), event);
        }
        sessions.forEach((user, list) -> list.stream()
                .filter(session -> session.window.maxTimestamp() > watermark())
                .forEach(session -> {
                    session.events.forEach(event -> model.add("session-process", SESSION, user, session.first, event));
                    model.addTimer("session-process", TIMERS.kind(), user, session.window, session.window.maxTimestamp());
                    model.add("session-process", MERGING, user, org.apache.flink.runtime.state.VoidNamespace.INSTANCE,
                            Tuple2.of(session.window, session.first));
                }));
        return model;
    }

    /** A session; its state stays under the window of the event that opened it. */
    private static final class Session {
        final TimeWindow first;
        final List<Event> events = new ArrayList<>();
        TimeWindow window;

        Session(TimeWindow first) {
            this.first = first;
            this.window = first;
        }
    }

    private static void addToSession(List<Session> sessions, Event event) {
        TimeWindow window = new TimeWindow(event.time, event.time + GAP);
        Session last = sessions.isEmpty() ? null : sessions.get(sessions.size() - 1);
        if (last == null || !last.window.intersects(window)) {
            last = new Session(window);
            sessions.add(last);
        }
        last.window = last.window.cover(window);
        last.events.add(event);
    }

    @Override
    long watermark() {
        return START + 41_999;
    }

    /** Notes the windows that fire. */
    private static final class Note extends ProcessWindowFunction<Event, Void, String, TimeWindow> {
        private final String operator;

        Note(String operator) {
            this.operator = operator;
        }

        @Override
        public void process(String key, Context context, Iterable<Event> events, Collector<Void> out) {
            List<Event> contents = new ArrayList<>();
            events.forEach(contents::add);
            Fired.add(operator, key, context.window(), contents);
        }
    }
}
