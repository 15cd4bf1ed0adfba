package io.stateprocessor.interop;

import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.state.v2.AggregatingStateDescriptor;
import org.apache.flink.api.common.state.v2.AppendingState;
import org.apache.flink.api.common.state.v2.ListStateDescriptor;
import org.apache.flink.api.common.state.v2.MapState;
import org.apache.flink.api.common.state.v2.MapStateDescriptor;
import org.apache.flink.api.common.state.v2.ReducingStateDescriptor;
import org.apache.flink.api.common.state.v2.State;
import org.apache.flink.api.common.state.v2.StateDescriptor;
import org.apache.flink.api.common.state.v2.ValueState;
import org.apache.flink.api.common.state.v2.ValueStateDescriptor;
import org.apache.flink.streaming.api.TimerService;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** Applies steps to the asynchronous states and the timers of one operator, as {@link KeyedFunction} does to synchronous ones. */
final class AsynchronousFunction extends KeyedProcessFunction<Object, Integer, Void> {

    private final String job;
    private final OperatorSpec operator;
    private transient Map<String, State> states;

    AsynchronousFunction(String job, OperatorSpec operator) {
        this.job = job;
        this.operator = operator;
    }

    @Override
    public void open(OpenContext context) {
        states = new HashMap<>();
        for (StateSpec spec : operator.states()) {
            if (spec.kind().isKeyedState()) {
                states.put(spec.name(), register(getRuntimeContext(), AsynchronousState.descriptor(spec)));
            }
        }
    }

    private static State register(RuntimeContext context, StateDescriptor<?> descriptor) {
        if (descriptor instanceof ValueStateDescriptor<?> value) {
            return context.getState(value);
        } else if (descriptor instanceof ListStateDescriptor<?> list) {
            return context.getListState(list);
        } else if (descriptor instanceof MapStateDescriptor<?, ?> map) {
            return context.getMapState(map);
        } else if (descriptor instanceof ReducingStateDescriptor<?> reducing) {
            return context.getReducingState(reducing);
        }
        return context.getAggregatingState((AggregatingStateDescriptor<?, ?, ?>) descriptor);
    }

    @Override
    @SuppressWarnings("unchecked")
    public void processElement(Integer index, Context context, Collector<Void> out) {
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
            state.asyncClear();
        } else if (state instanceof ValueState) {
            ((ValueState<Object>) state).asyncUpdate(step.value());
        } else if (state instanceof MapState) {
            Map.Entry<Object, Object> entry = (Map.Entry<Object, Object>) step.value();
            ((MapState<Object, Object>) state).asyncPut(entry.getKey(), entry.getValue());
        } else {
            ((AppendingState<Object, ?, ?>) state).asyncAdd(step.value());
        }
    }

    @Override
    public void onTimer(long timestamp, OnTimerContext context, Collector<Void> out) {
        Fired.add(operator.id(), context.getCurrentKey(), context.timeDomain(), timestamp);
    }
}
