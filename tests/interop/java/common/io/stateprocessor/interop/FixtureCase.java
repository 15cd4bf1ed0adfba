package io.stateprocessor.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A job and its input. By default every operator is a {@link KeyedFunction} or a {@link ListsFunction} that applies the steps that
 * name it; what its states hold after all steps is worked out by {@link Model} on plain collections.
 *
 * <p>Between the operators go only the steps' indexes: job and main program live in one JVM.
 */
abstract class FixtureCase {

    /** Midnight of 2024-01-01, where the cases' event time begins. */
    static final long START = 1_704_067_200_000L;

    private static final Map<String, FixtureCase> ALL =
            Map.of("orders", new OrdersCase(), "types", new TypesCase(), "windows", new WindowsCase());

    private List<Step> steps;

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
    abstract List<Step> makeSteps();

    /** The watermark after the last step. */
    abstract long watermark();

    final synchronized List<Step> steps() {
        if (steps == null) {
            steps = List.copyOf(makeSteps());
        }
        return steps;
    }

    final OperatorSpec operator(String uid) {
        return operators().stream().filter(operator -> operator.uid().equals(uid)).findFirst().orElseThrow();
    }

    /** Adds the operators behind the source of steps. */
    void build(StreamExecutionEnvironment env, DataStream<Integer> source) {
        String name = name();
        for (OperatorSpec operator : operators()) {
            String uid = operator.uid();
            DataStream<Integer> own = // as parallel as the source, so that the steps keep their order
                    source.filter(index -> named(name).steps().get(index).operator().equals(uid))
                            .setParallelism(1)
                            .uid("only-" + uid)
                            .name("only-" + uid);
            if (operator.keyType() == null) {
                own.broadcast().process(new ListsFunction(name, uid)).returns(Types.VOID).uid(uid).name(uid);
            } else {
                own.keyBy(new StepKey(name), Labels.type(operator.keyType()))
                        .process(new KeyedFunction(name, uid))
                        .returns(Types.VOID)
                        .uid(uid)
                        .name(uid);
            }
        }
    }

    /** The uids of the operators that keep no state. */
    List<String> statelessOperators() {
        List<String> uids = new ArrayList<>(List.of("steps"));
        operators().forEach(operator -> uids.add("only-" + operator.uid()));
        return uids;
    }

    /** What the states hold after all steps and the watermark. */
    Model expected(int parallelism) {
        Model model = new Model(parallelism);
        for (int i = 0; i < steps().size(); i++) {
            model.apply(operator(steps().get(i).operator()), i, steps().get(i));
        }
        model.advanceTo(watermark());
        return model;
    }
}
