package io.stateprocessor.interop;

import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.common.state.AggregatingState;
import org.apache.flink.api.common.state.AggregatingStateDescriptor;
import org.apache.flink.api.common.state.AppendingState;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ReducingStateDescriptor;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.TimerService;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** Applies steps to the keyed states and timers of one operator. Timers that fire are noted. */
final class KeyedFunction extends KeyedProcessFunction<Object, Integer, Void> implements CheckpointedFunction {

    private final String job;
    private final OperatorSpec operator;
    private transient Map<String, State> states;

    KeyedFunction(String job, OperatorSpec operator) {
        this.job = job;
        this.operator = operator;
    }

    @Override
    public void initializeState(FunctionInitializationContext context) {
        states = new HashMap<>();
        for (StateSpec spec : operator.states()) {
            if (spec.kind().isKeyedState()) {
                states.put(spec.name(), register(context.getKeyedStateStore(), spec.descriptor()));
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static State register(KeyedStateStore store, StateDescriptor<?, ?> descriptor) {
        if (descriptor instanceof ValueStateDescriptor<?> value) {
            return store.getState(value);
        } else if (descriptor instanceof ListStateDescriptor<?> list) {
            return store.getListState(list);
        } else if (descriptor instanceof MapStateDescriptor<?, ?> map) {
            return store.getMapState(map);
        } else if (descriptor instanceof ReducingStateDescriptor<?> reducing) {
            return store.getReducingState(reducing);
        }
        return store.getAggregatingState((AggregatingStateDescriptor<?, ?, ?>) descriptor);
    }

    @Override
    @SuppressWarnings("unchecked")
    public void processElement(Integer index, Context context, Collector<Void> out) throws Exception {
        Step step = Steps.get(job, index);
        TimerService timers = context.timerService();
        if (step.state().equals(Model.EVENT_TIMER)) {
            timers.registerEventTimeTimer((Long) step.value());
            return;
        } else if (step.state().equals(Model.PROCESSING_TIMER)) {
            timers.registerProcessingTimeTimer((Long) step.value());
            return;
        }
        State state = states.get(step.state());
        if (step.value() == null) {
            state.clear();
        } else if (state instanceof ValueState) {
            ((ValueState<Object>) state).update(step.value());
        } else if (state instanceof MapState) {
            Map.Entry<Object, Object> entry = (Map.Entry<Object, Object>) step.value();
            ((MapState<Object, Object>) state).put(entry.getKey(), entry.getValue());
        } else if (state instanceof AggregatingState) {
            ((AggregatingState<Object, Object>) state).add(step.value());
        } else {
            ((AppendingState<Object, ?>) state).add(step.value());
        }
    }

    @Override
    public void onTimer(long timestamp, OnTimerContext context, Collector<Void> out) {
        Fired.add(operator.id(), context.getCurrentKey(), context.timeDomain(), timestamp);
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) {}
}
