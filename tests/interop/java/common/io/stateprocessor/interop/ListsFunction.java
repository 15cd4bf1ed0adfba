package io.stateprocessor.interop;

import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.OperatorStateStore;
import org.apache.flink.api.common.state.State;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Applies steps to the operator state of one operator. Every subtask sees every step: all of them change broadcast state, and they
 * take turns to keep what is added to lists.
 */
final class ListsFunction extends ProcessFunction<Integer, Void> implements CheckpointedFunction {

    private final String job;
    private final OperatorSpec operator;
    private transient Map<String, State> states;

    ListsFunction(String job, OperatorSpec operator) {
        this.job = job;
        this.operator = operator;
    }

    @Override
    public void initializeState(FunctionInitializationContext context) throws Exception {
        OperatorStateStore store = context.getOperatorStateStore();
        states = new HashMap<>();
        for (StateSpec spec : operator.states()) {
            State state =
                    switch (spec.kind()) {
                        case OPERATOR_LIST -> store.getListState(spec.listDescriptor());
                        case UNION_LIST -> store.getUnionListState(spec.listDescriptor());
                        case BROADCAST -> store.getBroadcastState(spec.mapDescriptor());
                        default -> throw new IllegalArgumentException(spec.name() + " is no operator state");
                    };
            states.put(spec.name(), state);
        }
    }

    @Override
    @SuppressWarnings("unchecked")
    public void processElement(Integer index, Context context, Collector<Void> out) throws Exception {
        Step step = Steps.get(job, index);
        State state = states.get(step.state());
        if (state instanceof BroadcastState) {
            Map.Entry<Object, Object> entry = (Map.Entry<Object, Object>) step.value();
            ((BroadcastState<Object, Object>) state).put(entry.getKey(), entry.getValue());
        } else if (index % Compat.parallelism(getRuntimeContext()) == Compat.subtask(getRuntimeContext())) {
            ((ListState<Object>) state).add(step.value());
        }
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) {}
}
