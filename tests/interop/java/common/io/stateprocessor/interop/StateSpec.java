package io.stateprocessor.interop;

import java.io.Serializable;
import org.apache.flink.api.common.state.AggregatingStateDescriptor;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ReducingStateDescriptor;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * One state as expected.json describes it: enough to register it with Flink. Types are {@link Labels}; of AGGREGATING the value
 * type is the accumulator's. A timer service counts as a state.
 */
record StateSpec(String name, Kind kind, String mapKeyType, String valueType, String namespaceType, boolean ttl)
        implements Serializable {

    /** Long enough that no fixture expires. */
    static final long TTL_DAYS = 36_500;

    static final String NO_NAMESPACE = "VOID_NAMESPACE";

    enum Kind {
        VALUE,
        LIST,
        MAP,
        REDUCING,
        AGGREGATING,
        EVENT_TIMER,
        PROCESSING_TIMER,
        OPERATOR_LIST,
        UNION_LIST,
        BROADCAST;

        boolean isTimer() {
            return this == EVENT_TIMER || this == PROCESSING_TIMER;
        }

        boolean isOperatorState() {
            return this == OPERATOR_LIST || this == UNION_LIST || this == BROADCAST;
        }

        boolean isKeyedState() {
            return !isTimer() && !isOperatorState();
        }
    }

    static StateSpec of(Kind kind, String name, String valueType) {
        return new StateSpec(name, kind, null, valueType, NO_NAMESPACE, false);
    }

    static StateSpec map(Kind kind, String name, String mapKeyType, String valueType) {
        return new StateSpec(name, kind, mapKeyType, valueType, NO_NAMESPACE, false);
    }

    static StateSpec timers(Kind kind) {
        return new StateSpec("user-timers", kind, null, null, NO_NAMESPACE, false);
    }

    StateSpec withTtl() {
        return new StateSpec(name, kind, mapKeyType, valueType, namespaceType, true);
    }

    StateSpec inNamespace(String label) {
        return new StateSpec(name, kind, mapKeyType, valueType, label, ttl);
    }

    /** Flink's descriptor of a keyed state. */
    StateDescriptor<?, ?> descriptor() {
        StateDescriptor<?, ?> descriptor =
                switch (kind) {
                    case VALUE -> valueType.startsWith("NULLABLE")
                            ? new ValueStateDescriptor<>(name, Labels.serializer(valueType))
                            : new ValueStateDescriptor<>(name, Labels.type(valueType));
                    case LIST -> listDescriptor();
                    case MAP -> mapDescriptor();
                    case REDUCING -> valueType.startsWith("NULLABLE")
                            ? new ReducingStateDescriptor<>(name, new Sum(), Labels.serializer(valueType))
                            : new ReducingStateDescriptor<>(name, new Sum(), Labels.type(valueType));
                    case AGGREGATING -> valueType.contains("_WINDOW") || valueType.startsWith("NULLABLE")
                            ? new AggregatingStateDescriptor<>(name, new Average(), Labels.serializer(valueType))
                            : new AggregatingStateDescriptor<>(name, new Average(), Labels.type(valueType));
                    default -> throw new IllegalArgumentException(name + " is no keyed state");
                };
        if (ttl) {
            descriptor.enableTimeToLive(Compat.ttlOfDays(TTL_DAYS));
        }
        return descriptor;
    }

    /** Flink's descriptor of a list, keyed or of the operator. */
    ListStateDescriptor<Object> listDescriptor() {
        return valueType.contains("_WINDOW") || valueType.startsWith("STREAM_RECORD") || valueType.startsWith("NULLABLE")
                ? new ListStateDescriptor<>(name, Labels.serializer(valueType))
                : new ListStateDescriptor<>(name, Labels.type(valueType));
    }

    /** Flink's descriptor of a map, keyed or broadcast. */
    MapStateDescriptor<Object, Object> mapDescriptor() {
        return valueType.startsWith("NULLABLE")
                ? new MapStateDescriptor<>(name, Labels.serializer(mapKeyType), Labels.serializer(valueType))
                : new MapStateDescriptor<>(name, Labels.type(mapKeyType), Labels.type(valueType));
    }

    static StateSpec fromJson(JsonNode json) {
        return new StateSpec(
                json.get("name").asText(),
                Kind.valueOf(json.get("kind").asText()),
                json.path("map_key_type").asText(null),
                json.path("value_type").asText(null),
                json.path("namespace_type").asText(NO_NAMESPACE),
                json.path("ttl").asBoolean(false));
    }

    ObjectNode toJson(String keyType) {
        ObjectNode json = Json.object().put("name", name).put("kind", kind.name());
        if (!kind.isOperatorState()) {
            json.put("key_type", keyType);
        }
        if (mapKeyType != null) {
            json.put("map_key_type", mapKeyType);
        }
        if (kind.isTimer() || !namespaceType.equals(NO_NAMESPACE)) {
            json.put("namespace_type", namespaceType);
        }
        if (valueType != null) {
            json.put("value_type", valueType);
        }
        if (kind.isKeyedState()) {
            json.put("ttl", ttl);
        }
        if (name.equals("merging-window-set")) {
            json.put("unordered_elements", true); // an accident of hashing
        }
        return json;
    }
}
