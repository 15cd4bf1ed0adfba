package io.stateprocessor.interop;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Stream;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.internal.InternalAppendingState;
import org.apache.flink.runtime.state.internal.InternalKvState;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Reads every entry of an operator's restored states, of all keys and namespaces, as it opens. */
final class DumpOperator extends AbstractStreamOperator<Void>
        implements OneInputStreamOperator<Integer, Void>, Triggerable<Object, Object> {

    /** An entry of a state, as expected.json has it; {@code state} is the position among the operator's states. */
    record Entry(String operator, int state, int subtask, JsonNode json) {}

    /** What the operators of the running job read. */
    static final ConcurrentLinkedQueue<Entry> ENTRIES = new ConcurrentLinkedQueue<>();

    private final OperatorSpec operator;

    DumpOperator(OperatorSpec operator) {
        this.operator = operator;
    }

    @Override
    public void open() throws Exception {
        super.open();
        for (int i = 0; i < operator.states().size(); i++) {
            StateSpec spec = operator.states().get(i);
            if (spec.kind().isTimer()) {
                dumpTimers(i, spec);
            } else if (spec.kind().isOperatorState()) {
                dumpOperatorState(i, spec);
            } else {
                dumpKeyedState(i, spec);
            }
        }
    }

    private void dumpTimers(int position, StateSpec spec) throws Exception {
        InternalTimerService<Object> service = getInternalTimerService(spec.name(), Labels.serializer(spec.namespaceType()), this);
        if (spec.kind() == StateSpec.Kind.EVENT_TIMER) {
            service.forEachEventTimeTimer((namespace, timestamp) -> dumpTimer(position, namespace, timestamp));
        } else {
            service.forEachProcessingTimeTimer((namespace, timestamp) -> dumpTimer(position, namespace, timestamp));
        }
    }

    private void dumpTimer(int position, Object namespace, long timestamp) {
        ObjectNode entry = Json.object();
        entry.set("key", key(getCurrentKey()));
        entry.set("namespace", Json.of(namespace));
        entry.put("timestamp", timestamp);
        add(position, entry);
    }

    private void dumpOperatorState(int position, StateSpec spec) throws Exception {
        switch (spec.kind()) {
            case OPERATOR_LIST -> {
                for (Object element : getOperatorStateBackend().getListState(spec.listDescriptor()).get()) {
                    add(position, Json.of(Labels.plain(spec.valueType(), element)));
                }
            }
            case UNION_LIST -> {
                for (Object element : getOperatorStateBackend().getUnionListState(spec.listDescriptor()).get()) {
                    add(position, Json.of(Labels.plain(spec.valueType(), element)));
                }
            }
            default -> {
                for (Map.Entry<Object, Object> e : getOperatorStateBackend().getBroadcastState(spec.mapDescriptor()).entries()) {
                    ObjectNode entry = Json.object();
                    entry.set("key", Json.of(Labels.plain(spec.mapKeyType(), e.getKey())));
                    entry.set("value", Json.of(Labels.plain(spec.valueType(), e.getValue())));
                    add(position, entry);
                }
            }
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private void dumpKeyedState(int position, StateSpec spec) throws Exception {
        KeyedStateBackend<Object> backend = getKeyedStateBackend();
        TypeSerializer<Object> namespaces = Labels.serializer(spec.namespaceType());
        State state = backend.getOrCreateKeyedState(namespaces, (org.apache.flink.api.common.state.StateDescriptor) spec.descriptor());
        Map<String, Tuple2<Object, Object>> slots = new TreeMap<>(); // by text: RocksDB gives a key of a map once for each entry
        try (Stream<Tuple2<Object, Object>> found = backend.getKeysAndNamespaces(spec.name())) {
            found.forEach(slot -> slots.put(key(slot.f0) + " " + Json.of(slot.f1), slot));
        }
        for (Tuple2<Object, Object> slot : slots.values()) {
            backend.setCurrentKey(slot.f0);
            ((InternalKvState<Object, Object, Object>) state).setCurrentNamespace(slot.f1);
            JsonNode value = read(spec, state);
            if (value != null) {
                ObjectNode entry = Json.object();
                entry.set("key", key(slot.f0));
                if (!spec.namespaceType().equals(StateSpec.NO_NAMESPACE)) {
                    entry.set("namespace", Json.of(slot.f1));
                }
                entry.set("value", value);
                add(position, entry);
            }
        }
    }

    private JsonNode key(Object key) {
        return Json.of(Labels.plain(operator.keyType(), key));
    }

    /** The value under the current key and namespace, of AGGREGATING the accumulator; null where there is none. */
    @SuppressWarnings("unchecked")
    private static JsonNode read(StateSpec spec, State state) throws Exception {
        Object value;
        if (state instanceof ValueState) {
            value = Labels.plain(spec.valueType(), ((ValueState<Object>) state).value());
        } else if (state instanceof MapState) {
            Map<Object, Object> entries = new java.util.LinkedHashMap<>();
            for (Map.Entry<Object, Object> entry : ((MapState<Object, Object>) state).entries()) {
                entries.put(Labels.plain(spec.mapKeyType(), entry.getKey()), Labels.plain(spec.valueType(), entry.getValue()));
            }
            value = entries.isEmpty() ? null : entries;
        } else if (state instanceof ListState) {
            java.util.List<Object> elements = new java.util.ArrayList<>();
            Iterable<Object> stored = ((ListState<Object>) state).get();
            if (stored != null) {
                stored.forEach(element -> elements.add(Labels.plain(spec.valueType(), element)));
            }
            value = elements.isEmpty() ? null : elements;
        } else {
            value = Labels.plain(spec.valueType(), ((InternalAppendingState<Object, Object, Object, Object, Object>) state).getInternal());
        }
        return value == null ? null : Json.of(value);
    }

    private void add(int position, JsonNode entry) {
        ENTRIES.add(new Entry(operator.id(), position, Compat.subtask(getRuntimeContext()), entry));
    }

    @Override
    public void processElement(StreamRecord<Integer> element) {}

    @Override
    public void onEventTime(InternalTimer<Object, Object> timer) {}

    @Override
    public void onProcessingTime(InternalTimer<Object, Object> timer) {}
}
