package io.stateprocessor.interop;

import java.lang.reflect.Field;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.state.v2.State;
import org.apache.flink.runtime.asyncprocessing.operators.AbstractAsyncStateStreamOperator;
import org.apache.flink.runtime.state.InternalPriorityQueue;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.v2.internal.InternalPartitionedState;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.InternalTimerServiceImpl;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.TimerHeapInternalTimer;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.CloseableIterator;

/**
 * Reads asynchronous states as it opens, as {@link DumpOperator} does with synchronous ones, or fills them as {@link FillOperator} does.
 * There is no way to list the keys of such a state: it looks for those of {@link FillOperator#CONTENTS}, in each state for those of all.
 */
final class AsynchronousOperator extends AbstractAsyncStateStreamOperator<Void>
        implements OneInputStreamOperator<Integer, Void>, Triggerable<Object, Object> {

    private final OperatorSpec operator;
    private final boolean isFilling;

    AsynchronousOperator(OperatorSpec operator, boolean isFilling) {
        this.operator = operator;
        this.isFilling = isFilling;
    }

    @Override
    public void open() throws Exception {
        super.open();
        List<JsonNode> contents = FillOperator.CONTENTS.get(operator.id());
        for (int i = 0; i < operator.states().size(); i++) {
            StateSpec spec = operator.states().get(i);
            if (spec.kind().isTimer()) {
                InternalTimerService<Object> service = getInternalTimerService(spec.name(), Labels.serializer(spec.namespaceType()), this);
                if (isFilling) {
                    setTimers(spec, service, contents.get(i));
                } else {
                    dumpTimers(i, spec, service);
                }
                continue;
            }
            State state =
                    getOrCreateKeyedState(
                            FillOperator.namespace(null), Labels.serializer(spec.namespaceType()), AsynchronousState.descriptor(spec));
            if (isFilling) {
                fill(spec, state, contents.get(i));
            } else {
                dump(i, spec, state, contents);
            }
        }
        drainStateRequests();
    }

    private void setTimers(StateSpec spec, InternalTimerService<Object> service, JsonNode entries) {
        for (JsonNode entry : entries) {
            in(
                    entry,
                    () -> {
                        Object namespace = FillOperator.namespace(entry.get("namespace"));
                        if (spec.kind() == StateSpec.Kind.EVENT_TIMER) {
                            service.registerEventTimeTimer(namespace, entry.get("timestamp").asLong());
                        } else {
                            service.registerProcessingTimeTimer(namespace, entry.get("timestamp").asLong());
                        }
                    });
        }
    }

    /** The service does not list its timers where state is asynchronous, and neither does its class to others. */
    @SuppressWarnings("unchecked")
    private void dumpTimers(int position, StateSpec spec, InternalTimerService<Object> service) throws Exception {
        String name = spec.kind() == StateSpec.Kind.EVENT_TIMER ? "eventTimeTimersQueue" : "processingTimeTimersQueue";
        Field field = InternalTimerServiceImpl.class.getDeclaredField(name);
        field.setAccessible(true);
        var queue = (InternalPriorityQueue<TimerHeapInternalTimer<Object, Object>>) field.get(service);
        try (CloseableIterator<TimerHeapInternalTimer<Object, Object>> timers = queue.iterator()) {
            while (timers.hasNext()) {
                TimerHeapInternalTimer<Object, Object> timer = timers.next();
                ObjectNode entry = Json.object();
                entry.set("key", Json.of(Labels.plain(operator.keyType(), timer.getKey())));
                entry.set("namespace", Json.of(timer.getNamespace()));
                entry.put("timestamp", timer.getTimestamp());
                add(position, entry);
            }
        }
    }

    private void fill(StateSpec spec, State state, JsonNode entries) {
        for (JsonNode entry : entries) {
            in(
                    entry,
                    () -> {
                        enter(state, entry);
                        AsynchronousState.put(spec, state, entry.get("value"));
                    });
        }
    }

    private void dump(int position, StateSpec spec, State state, List<JsonNode> contents) {
        boolean hasNamespaces = !spec.namespaceType().equals(StateSpec.NO_NAMESPACE);
        Map<String, ObjectNode> slots = new LinkedHashMap<>();
        for (int i = 0; i < contents.size(); i++) {
            if (!operator.states().get(i).namespaceType().equals(spec.namespaceType()) || isRefused(spec) && i != position) {
                continue;
            }
            for (JsonNode entry : contents.get(i)) {
                ObjectNode slot = Json.object();
                slot.set("key", entry.get("key"));
                if (hasNamespaces) {
                    slot.set("namespace", entry.get("namespace"));
                }
                slots.put(slot.toString(), slot);
            }
        }
        for (ObjectNode slot : slots.values()) {
            in(
                    slot,
                    () -> {
                        enter(state, slot);
                        AsynchronousState.read(spec, state, value -> add(position, slot.set("value", value)));
                    });
        }
    }

    /** Of a list with TTL, Flink fails where there is none. */
    private static boolean isRefused(StateSpec spec) {
        return spec.ttl() && spec.kind() == StateSpec.Kind.LIST;
    }

    @SuppressWarnings("unchecked")
    private static void enter(State state, JsonNode entry) {
        ((InternalPartitionedState<Object>) state).setCurrentNamespace(FillOperator.namespace(entry.get("namespace")));
    }

    /** Does something under the key of an entry, if the key belongs to this subtask. */
    private void in(JsonNode entry, org.apache.flink.util.function.ThrowingRunnable<Exception> action) {
        Object key = Values.fromJson(operator.keyType(), entry.get("key"));
        int group = KeyGroupRangeAssignment.assignToKeyGroup(key, Compat.maxParallelism(getRuntimeContext()));
        if (getAsyncKeyedStateBackend().getKeyGroupRange().contains(group)) {
            asyncProcessWithKey(key, action);
        }
    }

    private void add(int position, JsonNode entry) {
        DumpOperator.ENTRIES.add(new DumpOperator.Entry(operator.id(), position, Compat.subtask(getRuntimeContext()), entry));
    }

    @Override
    public void processElement(StreamRecord<Integer> element) {}

    @Override
    public void onEventTime(InternalTimer<Object, Object> timer) {}

    @Override
    public void onProcessingTime(InternalTimer<Object, Object> timer) {}
}
