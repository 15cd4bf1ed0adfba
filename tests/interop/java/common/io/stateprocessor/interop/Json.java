package io.stateprocessor.interop;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.RecordComponent;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;

/**
 * Values as JSON, one way for each Java type: binary as hex; decimals, dates and times as text; NaN and infinities as text; maps
 * as sorted lists of [key, value]; sets as sorted lists; tuples as lists; POJOs as objects with their class.
 */
final class Json {

    static final ObjectMapper MAPPER = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    static ObjectNode object() {
        return NODES.objectNode();
    }

    static ArrayNode array(Collection<? extends JsonNode> nodes) {
        return NODES.arrayNode().addAll(nodes);
    }

    /** Nodes in the order of their text, which is made once of each. */
    static List<JsonNode> sorted(Stream<? extends JsonNode> nodes) {
        Stream<Map.Entry<String, JsonNode>> texts = nodes.map(node -> Map.entry(node.toString(), node));
        return texts.sorted(Map.Entry.comparingByKey()).map(Map.Entry::getValue).toList();
    }

    static JsonNode of(Object value) {
        if (value == null) {
            return NODES.nullNode();
        } else if (value instanceof Boolean v) {
            return NODES.booleanNode(v);
        } else if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long) {
            return NODES.numberNode(((Number) value).longValue());
        } else if (value instanceof Float || value instanceof Double) {
            double v = ((Number) value).doubleValue();
            return Double.isFinite(v) ? NODES.numberNode(v) : NODES.textNode(Double.toString(v));
        } else if (value instanceof byte[] v) {
            return NODES.textNode(HexFormat.of().formatHex(v));
        } else if (value.getClass().isArray()) {
            List<JsonNode> elements = new ArrayList<>();
            for (int i = 0; i < Array.getLength(value); i++) {
                elements.add(of(Array.get(value, i)));
            }
            return array(elements);
        } else if (value instanceof Set<?> v) {
            return array(sorted(v.stream().map(Json::of)));
        } else if (value instanceof Collection<?> v) {
            return array(v.stream().map(Json::of).toList());
        } else if (value instanceof Map<?, ?> v) {
            Stream<ArrayNode> entries = v.entrySet().stream().map(e -> array(List.of(of(e.getKey()), of(e.getValue()))));
            return array(sorted(entries));
        } else if (value instanceof Tuple v) {
            List<JsonNode> fields = new ArrayList<>();
            for (int i = 0; i < v.getArity(); i++) {
                fields.add(of(v.getField(i)));
            }
            return array(fields);
        } else if (value instanceof Row v) {
            List<JsonNode> fields = new ArrayList<>();
            for (int i = 0; i < v.getArity(); i++) {
                fields.add(of(v.getField(i)));
            }
            ObjectNode row = object().put("kind", v.getKind().shortString());
            row.set("fields", array(fields));
            return row;
        } else if (value instanceof Either<?, ?> v) {
            ObjectNode either = object();
            either.set(v.isLeft() ? "left" : "right", of(v.isLeft() ? v.left() : v.right()));
            return either;
        } else if (value instanceof TimeWindow v) {
            return object().put("start", v.getStart()).put("end", v.getEnd());
        } else if (value instanceof VoidNamespace || value instanceof GlobalWindow) {
            return NODES.textNode(value.getClass().getSimpleName());
        } else if (value instanceof Enum<?> v) {
            return NODES.textNode(v.name());
        } else if (value instanceof StreamRecord<?> v) {
            ObjectNode record = object().put("timestamp", v.getTimestamp());
            record.set("record", of(v.getValue()));
            return record;
        } else if (value instanceof BitSet v) {
            ObjectNode bits = object().put("@class", BitSet.class.getName());
            bits.set("bits", array(v.stream().mapToObj(NODES::numberNode).toList()));
            return bits;
        } else if (value.getClass() == java.util.Date.class) {
            return NODES.textNode(((java.util.Date) value).toInstant().toString());
        } else if (value.getClass().getName().startsWith("java.")) {
            return NODES.textNode(value.toString()); // String, Character, BigDecimal, BigInteger, java.sql and java.time
        }
        return pojo(value);
    }

    private static ObjectNode pojo(Object value) {
        Map<String, JsonNode> fields = new TreeMap<>();
        try {
            for (Field field : value.getClass().getFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    fields.put(field.getName(), of(field.get(value)));
                }
            }
            if (value.getClass().isRecord()) {
                for (RecordComponent component : value.getClass().getRecordComponents()) {
                    fields.put(component.getName(), of(component.getAccessor().invoke(value)));
                }
            }
        } catch (ReflectiveOperationException e) {
            throw new IllegalArgumentException(value.getClass() + " cannot be read", e);
        }
        ObjectNode pojo = object().put("@class", value.getClass().getName());
        pojo.setAll(fields);
        return pojo;
    }

    private Json() {}
}
