package io.stateprocessor.interop;

import java.io.Serializable;
import java.util.List;

/** One operator and its states; the key type is null where it has no keyed state. */
record OperatorSpec(String uid, String keyType, List<StateSpec> states) implements Serializable {

    OperatorSpec(String uid, String keyType, StateSpec... states) {
        this(uid, keyType, List.of(states));
    }

    StateSpec state(String name, boolean timer) {
        return states.stream()
                .filter(state -> state.name().equals(name) && state.kind().isTimer() == timer)
                .findFirst()
                .orElseThrow();
    }
}
