package io.stateprocessor.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** An operator that is slower than its input, so that an unaligned checkpoint holds records that it has not seen. */
final class InFlightCase extends FixtureCase {

    private static final int STEPS = 3000;
    private static final OperatorSpec SLOW =
            new OperatorSpec(
                    "slow",
                    "STRING",
                    StateSpec.of(StateSpec.Kind.VALUE, "last", "LONG"),
                    StateSpec.of(StateSpec.Kind.LIST, "history", "LONG"));

    /** What each subtask had processed when the barrier came. */
    private static final Map<Integer, List<Integer>> PROCESSED = new ConcurrentHashMap<>();

    @Override
    String name() {
        return "in-flight";
    }

    @Override
    List<OperatorSpec> operators() {
        return List.of(SLOW);
    }

    @Override
    List<Step> steps() {
        List<Step> steps = new ArrayList<>();
        for (int i = 0; i < STEPS; i++) {
            steps.add(new Step("slow", "last", "key-" + i % 40, (long) i));
        }
        return steps;
    }

    @Override
    void build(DataStream<Integer> source) {
        PROCESSED.clear();
        source.filter(index -> true)
                .setParallelism(1)
                .uid(StepJob.filterOf(SLOW))
                .keyBy(index -> (String) Steps.get("in-flight", index).key())
                .process(new Slow())
                .uid("slow")
                .name("slow");
    }

    @Override
    Model expected(int parallelism) {
        return new Model(parallelism); // see describe
    }

    @Override
    long watermark() {
        return START;
    }

    @Override
    void describe(ObjectNode expected, Model model, int parallelism) throws Exception {
        PROCESSED.values().forEach(indexes -> indexes.forEach(index -> {
            Step step = Steps.get("in-flight", index);
            model.apply(SLOW, index, step);
            model.apply(SLOW, index, new Step("slow", "history", step.key(), step.value()));
        }));
        super.describe(expected, model, parallelism);
        expected.put("restore_check", false); // Flink would process what is in flight
    }

    private static final class Slow extends KeyedProcessFunction<String, Integer, Void> implements CheckpointedFunction {
        private final List<Integer> processed = new ArrayList<>();
        private transient ValueState<Long> last;
        private transient ListState<Long> history;

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            last = context.getKeyedStateStore().getState(new ValueStateDescriptor<>("last", Types.LONG));
            history = context.getKeyedStateStore().getListState(new ListStateDescriptor<>("history", Types.LONG));
        }

        @Override
        public void processElement(Integer index, Context context, Collector<Void> out) throws Exception {
            Thread.sleep(5);
            processed.add(index);
            last.update((Long) Steps.get("in-flight", index).value());
            history.add((Long) Steps.get("in-flight", index).value());
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {
            PROCESSED.put(Compat.subtask(getRuntimeContext()), new ArrayList<>(processed));
        }
    }
}
