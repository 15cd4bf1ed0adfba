package io.stateprocessor.interop;

import java.time.LocalDate;
import java.util.AbstractMap.SimpleEntry;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;

/** States of all kinds of Flink 2's asynchronous API, with and without TTL, and both kinds of timers, beside synchronous state. */
final class AsynchronousCase extends FixtureCase {

    private static final int KEYS = 16;
    private static final long FAR = 4_102_444_800_000L; // in the year 2100
    private static final String USER_KEY = "POJO<fixtures.UserKey>";

    private record Filled(StateSpec state, IntFunction<Object> value) {}

    private static final List<Filled> BY_TEXT =
            List.of(
                    new Filled(StateSpec.of(StateSpec.Kind.VALUE, "value", "POJO<fixtures.Simple>"), Samples::simple),
                    new Filled(StateSpec.of(StateSpec.Kind.LIST, "list", "STRING"), Samples::text),
                    new Filled(
                            StateSpec.map(StateSpec.Kind.MAP, "map", "LOCAL_DATE", "DOUBLE"),
                            i -> new SimpleEntry<>(LocalDate.of(2024, 2, 1 + i % 29), Samples.real(i))),
                    new Filled(StateSpec.of(StateSpec.Kind.REDUCING, "reducing", "LONG"), Samples::number),
                    new Filled(StateSpec.of(StateSpec.Kind.AGGREGATING, "aggregating", "TUPLE<LONG,LONG>"), i -> (long) i));
    private static final List<Filled> BY_POJO =
            List.of(
                    new Filled(StateSpec.of(StateSpec.Kind.VALUE, "ttl-value", "STRING").withTtl(), Samples::text),
                    new Filled(StateSpec.of(StateSpec.Kind.LIST, "ttl-list", "LONG").withTtl(), Samples::number),
                    new Filled(
                            StateSpec.map(StateSpec.Kind.MAP, "ttl-map", "STRING", "STRING").withTtl(),
                            i -> new SimpleEntry<>(Samples.text(i), "v" + i)),
                    new Filled(StateSpec.of(StateSpec.Kind.VALUE, "count", "LONG"), Samples::number));

    private static OperatorSpec operator(String uid, String keyType, List<Filled> filled) {
        List<StateSpec> states = new ArrayList<>(filled.stream().map(Filled::state).toList());
        states.add(StateSpec.timers(StateSpec.Kind.EVENT_TIMER));
        states.add(StateSpec.timers(StateSpec.Kind.PROCESSING_TIMER));
        return new OperatorSpec(uid, null, keyType, states);
    }

    @Override
    String name() {
        return "asynchronous";
    }

    @Override
    List<OperatorSpec> operators() {
        return List.of(
                operator("asynchronous", "STRING", BY_TEXT).inAsynchronousState(),
                operator("asynchronous-ttl", USER_KEY, BY_POJO).inAsynchronousState(),
                operator("synchronous", "STRING", BY_TEXT));
    }

    @Override
    List<Step> steps() {
        List<Step> steps = new ArrayList<>();
        for (OperatorSpec operator : operators()) {
            boolean isPojo = operator.keyType().equals(USER_KEY);
            IntFunction<Object> keys = isPojo ? Samples::userKey : Samples::text;
            for (Filled filled : isPojo ? BY_POJO : BY_TEXT) {
                for (int i = 0; i < 2 * KEYS; i++) {
                    steps.add(new Step(operator.id(), filled.state().name(), keys.apply(i % KEYS), filled.value().apply(i)));
                }
                steps.add(new Step(operator.id(), filled.state().name(), keys.apply(5), null));
            }
            for (int i = 0; i < KEYS; i++) {
                steps.add(new Step(operator.id(), Model.EVENT_TIMER, keys.apply(i), START + i));
                steps.add(new Step(operator.id(), Model.PROCESSING_TIMER, keys.apply(i), FAR + i));
            }
        }
        return steps;
    }

    @Override
    long watermark() {
        return START + 2;
    }
}
