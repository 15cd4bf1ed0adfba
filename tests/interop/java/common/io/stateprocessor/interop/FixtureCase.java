package io.stateprocessor.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.streaming.api.datastream.DataStream;

/**
 * A job and its input. By default every operator is a {@link KeyedFunction} or a {@link ListsFunction} that applies the steps that
 * name it; what its states hold after all steps is worked out by {@link Model} on plain collections.
 */
abstract class FixtureCase {

    /** Midnight of 2024-01-01, where the cases' event time begins. */
    static final long START = 1_704_067_200_000L;

    private static final Map<String, FixtureCase> ALL =
            Map.of(
                    "orders", new OrdersCase(),
                    "types", new TypesCase(),
                    "windows", new WindowsCase(),
                    "baskets", new BasketsCase());

    static FixtureCase named(String name) {
        FixtureCase found = ALL.get(name);
        if (found == null) {
            throw new IllegalArgumentException("no case is called " + name + "; there are " + ALL.keySet());
        }
        return found;
    }

    abstract String name();

    abstract List<OperatorSpec> operators();

    /** The input, the same on every call. */
    abstract List<Step> steps();

    /** The watermark after the last step. */
    abstract long watermark();

    /** Adds the operators behind the source of steps. */
    void build(DataStream<Integer> source) {
        StepJob.addOperators(source, name(), operators());
    }

    /** The uids of the operators that keep no state. */
    List<String> statelessOperators() {
        List<String> uids = new ArrayList<>(List.of(StepJob.SOURCE));
        operators().forEach(operator -> uids.add(StepJob.filterOf(operator)));
        return uids;
    }

    /** What the states hold after all steps and the watermark. */
    Model expected(int parallelism) {
        Model model = new Model(parallelism);
        List<Step> steps = steps();
        for (int index = 0; index < steps.size(); index++) {
            String uid = steps.get(index).operator();
            OperatorSpec operator = operators().stream().filter(o -> o.uid().equals(uid)).findFirst().orElseThrow();
            model.apply(operator, index, steps.get(index));
        }
        model.advanceTo(watermark());
        return model;
    }
}
