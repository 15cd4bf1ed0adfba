package io.stateprocessor.interop;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/** What states hold, on plain collections: Flink has no part in it. */
final class Model {

    /** The names by which steps set timers. */
    static final String EVENT_TIMER = "(event timer)";

    static final String PROCESSING_TIMER = "(processing timer)";

    private record Slot(JsonNode key, Object namespace) {}

    private final int parallelism;
    private final Map<String, Map<Slot, Object>> keyed = new HashMap<>();
    private final Map<String, List<JsonNode>> timers = new HashMap<>();
    private final Map<String, TreeMap<Integer, List<Object>>> lists = new HashMap<>();

    Model(int parallelism) {
        this.parallelism = parallelism;
    }

    void apply(OperatorSpec operator, int index, Step step) {
        if (step.state().equals(EVENT_TIMER) || step.state().equals(PROCESSING_TIMER)) {
            StateSpec.Kind kind = step.state().equals(EVENT_TIMER) ? StateSpec.Kind.EVENT_TIMER : StateSpec.Kind.PROCESSING_TIMER;
            addTimer(operator.id(), kind, step.key(), VoidNamespace.INSTANCE, (Long) step.value());
            return;
        }
        StateSpec spec = operator.state(step.state());
        if (spec.kind() == StateSpec.Kind.OPERATOR_LIST || spec.kind() == StateSpec.Kind.UNION_LIST) {
            lists.computeIfAbsent(operator.id() + "/" + spec.name(), name -> new TreeMap<>())
                    .computeIfAbsent(index % parallelism, subtask -> new ArrayList<>())
                    .add(step.value());
        } else {
            add(operator.id(), spec, step.key(), VoidNamespace.INSTANCE, step.value());
        }
    }

    /** Does to one state of one key and namespace what Flink does when a value is put in or added; null clears it. */
    @SuppressWarnings("unchecked")
    void add(String uid, StateSpec spec, Object key, Object namespace, Object value) {
        Map<Slot, Object> state = keyed.computeIfAbsent(uid + "/" + spec.name(), name -> new HashMap<>());
        Slot slot = new Slot(Json.of(key), namespace);
        if (value == null) {
            state.remove(slot);
            return;
        }
        switch (spec.kind()) {
            case VALUE -> state.put(slot, value);
            case LIST -> ((List<Object>) state.computeIfAbsent(slot, s -> new ArrayList<>())).add(value);
            case MAP, BROADCAST -> {
                Map.Entry<Object, Object> entry = (Map.Entry<Object, Object>) value;
                ((Map<Object, Object>) state.computeIfAbsent(slot, s -> new LinkedHashMap<>())).put(entry.getKey(), entry.getValue());
            }
            case REDUCING -> state.merge(slot, value, new Sum()::reduce);
            case AGGREGATING -> state.compute(
                    slot, (s, sum) -> new Average().add(value, sum == null ? new Average().createAccumulator() : sum));
            default -> throw new IllegalArgumentException(spec.name() + " is not changed by key");
        }
    }

    /** Sets a timer; setting the same one again changes nothing. */
    void addTimer(String uid, StateSpec.Kind kind, Object key, Object namespace, long timestamp) {
        ObjectNode timer = Json.object();
        timer.set("key", Json.of(key));
        timer.set("namespace", Json.of(namespace));
        timer.put("timestamp", timestamp);
        List<JsonNode> service = timers.computeIfAbsent(uid + "/" + kind, name -> new ArrayList<>());
        if (!service.contains(timer)) {
            service.add(timer);
        }
    }

    /** Lets the event timers go that fire at a watermark. */
    void advanceTo(long watermark) {
        timers.forEach((name, service) -> {
            if (name.endsWith("/" + StateSpec.Kind.EVENT_TIMER)) {
                service.removeIf(timer -> timer.get("timestamp").asLong() <= watermark);
            }
        });
    }

    /** The operator's states with their entries, as expected.json lists them. */
    ObjectNode toJson(OperatorSpec operator) {
        List<JsonNode> states = new ArrayList<>();
        for (StateSpec spec : operator.states()) {
            ObjectNode json = spec.toJson(operator.keyType());
            String name = operator.id() + "/" + spec.name();
            switch (spec.kind()) {
                case EVENT_TIMER, PROCESSING_TIMER -> json.set(
                        "entries", sorted(timers.getOrDefault(operator.id() + "/" + spec.kind(), List.of())));
                case OPERATOR_LIST, UNION_LIST -> listEntries(json, lists.getOrDefault(name, new TreeMap<>()));
                case BROADCAST -> json.set("entries", broadcastEntries(keyed.getOrDefault(name, Map.of())));
                default -> json.set("entries", keyedEntries(keyed.getOrDefault(name, Map.of())));
            }
            states.add(json);
        }
        ObjectNode json = Json.object().put("uid", operator.uid()).put("key_type", operator.keyType());
        if (operator.uid() == null) {
            json.put("uid_hash", operator.uidHash());
        }
        if (operator.asynchronous()) {
            json.put("asynchronous", true);
        }
        json.set("states", Json.array(states));
        return json;
    }

    private static JsonNode keyedEntries(Map<Slot, Object> state) {
        List<JsonNode> entries = new ArrayList<>();
        state.forEach((slot, value) -> {
            ObjectNode entry = Json.object();
            entry.set("key", slot.key());
            if (slot.namespace() != VoidNamespace.INSTANCE) {
                entry.set("namespace", Json.of(slot.namespace()));
            }
            entry.set("value", Json.of(value));
            entries.add(entry);
        });
        return sorted(entries);
    }

    private static JsonNode broadcastEntries(Map<Slot, Object> state) {
        List<JsonNode> entries = new ArrayList<>();
        for (Object map : state.values()) {
            ((Map<?, ?>) map).forEach((key, value) -> {
                ObjectNode entry = Json.object();
                entry.set("key", Json.of(key));
                entry.set("value", Json.of(value));
                entries.add(entry);
            });
        }
        return sorted(entries);
    }

    private static void listEntries(ObjectNode json, TreeMap<Integer, List<Object>> subtasks) {
        List<JsonNode> entries = new ArrayList<>();
        ObjectNode bySubtask = Json.object();
        subtasks.forEach((subtask, elements) -> {
            elements.forEach(element -> entries.add(Json.of(element)));
            bySubtask.set(subtask.toString(), Json.of(elements));
        });
        json.set("entries", sorted(entries));
        json.set("entries_per_subtask", bySubtask);
    }

    private static JsonNode sorted(List<JsonNode> entries) {
        return Json.array(Json.sorted(entries.stream()));
    }
}
