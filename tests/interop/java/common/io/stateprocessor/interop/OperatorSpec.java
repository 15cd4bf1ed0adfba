package io.stateprocessor.interop;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/**
 * One operator, known by its uid or by the hash of it, and its states; the key type is null where it has no keyed state. Keyed state
 * may be that of Flink 2's asynchronous API.
 */
record OperatorSpec(String uid, String uidHash, String keyType, List<StateSpec> states, boolean asynchronous) implements Serializable {

    OperatorSpec(String uid, String uidHash, String keyType, List<StateSpec> states) {
        this(uid, uidHash, keyType, states, false);
    }

    OperatorSpec(String uid, String keyType, StateSpec... states) {
        this(uid, null, keyType, List.of(states));
    }

    OperatorSpec inAsynchronousState() {
        return new OperatorSpec(uid, uidHash, keyType, states, true);
    }

    String id() {
        return uid != null ? uid : uidHash;
    }

    /** The state of a name; a timer service is no state of its name. */
    StateSpec state(String name) {
        return states.stream()
                .filter(state -> state.name().equals(name) && !state.kind().isTimer())
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("operator " + id() + " has no state " + name));
    }

    static OperatorSpec fromJson(JsonNode json) {
        List<StateSpec> states = new ArrayList<>();
        json.get("states").forEach(state -> states.add(StateSpec.fromJson(state)));
        return new OperatorSpec(
                json.path("uid").asText(null),
                json.path("uid_hash").asText(null),
                json.path("key_type").asText(null),
                states,
                json.path("asynchronous").asBoolean(false));
    }
}
