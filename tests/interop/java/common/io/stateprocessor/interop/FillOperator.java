package io.stateprocessor.interop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.runtime.state.CheckpointableKeyedStateBackend;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.internal.InternalAppendingState;
import org.apache.flink.runtime.state.internal.InternalKvState;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Puts the entries of a description into an operator's states as it opens: the inverse of {@link DumpOperator}. Of keyed state a
 * subtask takes what belongs to its key groups, of lists every so many elements, of broadcast state all.
 */
final class FillOperator extends AbstractStreamOperator<Void>
        implements OneInputStreamOperator<Integer, Void>, Triggerable<Object, Object> {

    /** The entries that the running job's states are to have, by operator, in the order of its states. */
    static final Map<String, List<JsonNode>> CONTENTS = new ConcurrentHashMap<>();

    private final OperatorSpec operator;

    FillOperator(OperatorSpec operator) {
        this.operator = operator;
    }

    @Override
    public void open() throws Exception {
        super.open();
        for (int i = 0; i < operator.states().size(); i++) {
            StateSpec spec = operator.states().get(i);
            JsonNode entries = CONTENTS.get(operator.id()).get(i);
            if (spec.kind().isTimer()) {
                setTimers(spec, entries);
            } else if (spec.kind().isOperatorState()) {
                fillOperatorState(spec, entries);
            } else {
                fillKeyedState(spec, entries);
            }
        }
    }

    private void setTimers(StateSpec spec, JsonNode entries) throws Exception {
        InternalTimerService<Object> service = getInternalTimerService(spec.name(), Labels.serializer(spec.namespaceType()), this);
        for (JsonNode entry : entries) {
            if (enter(entry.get("key"))) {
                Object namespace = namespace(entry.get("namespace"));
                if (spec.kind() == StateSpec.Kind.EVENT_TIMER) {
                    service.registerEventTimeTimer(namespace, entry.get("timestamp").asLong());
                } else {
                    service.registerProcessingTimeTimer(namespace, entry.get("timestamp").asLong());
                }
            }
        }
    }

    private void fillOperatorState(StateSpec spec, JsonNode entries) throws Exception {
        if (spec.kind() == StateSpec.Kind.BROADCAST) {
            BroadcastState<Object, Object> broadcast = getOperatorStateBackend().getBroadcastState(spec.mapDescriptor());
            for (JsonNode entry : entries) {
                broadcast.put(Values.fromJson(spec.mapKeyType(), entry.get("key")), Values.fromJson(spec.valueType(), entry.get("value")));
            }
            return;
        }
        ListState<Object> list =
                spec.kind() == StateSpec.Kind.OPERATOR_LIST
                        ? getOperatorStateBackend().getListState(spec.listDescriptor())
                        : getOperatorStateBackend().getUnionListState(spec.listDescriptor());
        for (int i = Compat.subtask(getRuntimeContext()); i < entries.size(); i += Compat.parallelism(getRuntimeContext())) {
            list.add(Values.fromJson(spec.valueType(), entries.get(i)));
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private void fillKeyedState(StateSpec spec, JsonNode entries) throws Exception {
        State state =
                getKeyedStateBackend()
                        .getOrCreateKeyedState(
                                Labels.serializer(spec.namespaceType()),
                                (org.apache.flink.api.common.state.StateDescriptor) spec.descriptor());
        for (JsonNode entry : entries) {
            if (enter(entry.get("key"))) {
                ((InternalKvState<Object, Object, Object>) state).setCurrentNamespace(namespace(entry.get("namespace")));
                put(spec, state, entry.get("value"));
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static void put(StateSpec spec, State state, JsonNode value) throws Exception {
        if (state instanceof ValueState) {
            ((ValueState<Object>) state).update(Values.fromJson(spec.valueType(), value));
        } else if (state instanceof MapState) {
            Map<Object, Object> entries = new LinkedHashMap<>();
            for (JsonNode pair : value) {
                entries.put(Values.fromJson(spec.mapKeyType(), pair.get(0)), Values.fromJson(spec.valueType(), pair.get(1)));
            }
            ((MapState<Object, Object>) state).putAll(entries);
        } else if (state instanceof ListState) {
            List<Object> elements = new ArrayList<>();
            value.forEach(element -> elements.add(Values.fromJson(spec.valueType(), element)));
            ((ListState<Object>) state).update(elements);
        } else {
            ((InternalAppendingState<Object, Object, Object, Object, Object>) state)
                    .updateInternal(Values.fromJson(spec.valueType(), value));
        }
    }

    /** Makes a key the current one, if it belongs to this subtask. */
    private boolean enter(JsonNode json) {
        CheckpointableKeyedStateBackend<?> backend = (CheckpointableKeyedStateBackend<?>) this.<Object>getKeyedStateBackend();
        int groups = Compat.maxParallelism(getRuntimeContext());
        Object key = Values.fromJson(operator.keyType(), json);
        boolean own = backend.getKeyGroupRange().contains(KeyGroupRangeAssignment.assignToKeyGroup(key, groups));
        if (own) {
            setCurrentKey(key);
        }
        return own;
    }

    static Object namespace(JsonNode json) {
        if (json == null || json.asText().equals("VoidNamespace")) {
            return VoidNamespace.INSTANCE;
        }
        return json.isTextual() ? GlobalWindow.get() : new TimeWindow(json.get("start").asLong(), json.get("end").asLong());
    }

    @Override
    public void processElement(StreamRecord<Integer> element) {}

    @Override
    public void onEventTime(InternalTimer<Object, Object> timer) {}

    @Override
    public void onProcessingTime(InternalTimer<Object, Object> timer) {}
}
