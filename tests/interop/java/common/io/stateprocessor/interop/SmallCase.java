package io.stateprocessor.interop;

import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** A few keyed states, for what is special about a job and not about its states: its uids, its parallelism, its size. */
final class SmallCase extends FixtureCase {

    /** What is special about the job. */
    record Kind(List<OperatorSpec> operators, int keys, int elements) {}

    private static final StateSpec[] STATES = {
        StateSpec.of(StateSpec.Kind.VALUE, "count", "LONG"),
        StateSpec.of(StateSpec.Kind.LIST, "history", "STRING"),
        StateSpec.map(StateSpec.Kind.MAP, "by-day", "LOCAL_DATE", "DOUBLE"),
        StateSpec.of(StateSpec.Kind.VALUE, "profile", "POJO<fixtures.Simple>"),
        StateSpec.timers(StateSpec.Kind.EVENT_TIMER),
        StateSpec.timers(StateSpec.Kind.PROCESSING_TIMER)
    };

    static final Kind COUNTERS = new Kind(List.of(new OperatorSpec("counters", "STRING", STATES)), 20, 2);
    static final Kind NOTHING =
            new Kind(
                    List.of(
                            new OperatorSpec("empty-keyed", "STRING", STATES),
                            new OperatorSpec(
                                    "empty-lists",
                                    null,
                                    StateSpec.of(StateSpec.Kind.OPERATOR_LIST, "split", "STRING"),
                                    StateSpec.of(StateSpec.Kind.UNION_LIST, "union", "LONG"),
                                    StateSpec.map(StateSpec.Kind.BROADCAST, "rules", "STRING", "LONG"))),
                    0,
                    0);
    static final Kind UNICODE =
            new Kind(
                    List.of(
                            new OperatorSpec("größe ✓ 操作 😀", "STRING", STATES),
                            new OperatorSpec("plain uid with spaces", "STRING", STATES)),
                    12,
                    1);
    static final Kind WITHOUT_UID =
            new Kind(List.of(new OperatorSpec(null, "0123456789abcdef0123456789abcdef", "STRING", List.of(STATES))), 12, 1);
    static final Kind BIG_LIST = new Kind(List.of(new OperatorSpec("big", "STRING", STATES)), 3, 5100);

    private final String name;
    private final Kind kind;

    SmallCase(String name, Kind kind) {
        this.name = name;
        this.kind = kind;
    }

    @Override
    String name() {
        return name;
    }

    @Override
    List<OperatorSpec> operators() {
        return kind.operators();
    }

    @Override
    List<Step> steps() {
        List<Step> steps = new ArrayList<>();
        for (OperatorSpec operator : operators()) {
            for (int i = 0; i < kind.keys(); i++) {
                String id = operator.id();
                String key = Samples.text(i);
                steps.add(new Step(id, "count", key, Samples.number(i)));
                for (int n = 0; n < (i == 0 ? kind.elements() : 1 + i % 3); n++) {
                    steps.add(new Step(id, "history", key, i == 0 ? "element " + n : Samples.text(i + n)));
                }
                steps.add(new Step(id, "by-day", key, Map.entry(LocalDate.of(2024, 2, 1 + i % 29), Samples.real(i))));
                steps.add(new Step(id, "profile", key, Samples.simple(i)));
                steps.add(new Step(id, Model.EVENT_TIMER, key, START + i));
                steps.add(new Step(id, Model.PROCESSING_TIMER, key, 4_102_444_800_000L + i)); // in the year 2100
            }
        }
        return steps;
    }

    @Override
    long watermark() {
        return START + 2;
    }
}
