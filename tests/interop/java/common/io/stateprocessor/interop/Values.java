package io.stateprocessor.interop;

import java.lang.reflect.RecordComponent;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.flink.api.common.typeinfo.BasicArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.api.java.typeutils.EitherTypeInfo;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.api.java.typeutils.EnumTypeInfo;
import org.apache.flink.api.java.typeutils.ListTypeInfo;
import org.apache.flink.api.java.typeutils.MapTypeInfo;
import org.apache.flink.api.java.typeutils.ObjectArrayTypeInfo;
import org.apache.flink.api.java.typeutils.PojoField;
import org.apache.flink.api.java.typeutils.PojoTypeInfo;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.api.java.typeutils.TupleTypeInfo;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/** Values from JSON, the inverse of {@link Json} for the types that tests put in. */
final class Values {

    /** How values are read that JSON holds as text. */
    private static final Map<Class<?>, Function<String, ?>> FROM_TEXT =
            Map.ofEntries(
                    Map.entry(String.class, text -> text),
                    Map.entry(Character.class, text -> text.charAt(0)),
                    Map.entry(BigDecimal.class, BigDecimal::new),
                    Map.entry(BigInteger.class, BigInteger::new),
                    Map.entry(java.util.Date.class, text -> java.util.Date.from(Instant.parse(text))),
                    Map.entry(java.sql.Date.class, java.sql.Date::valueOf),
                    Map.entry(java.sql.Time.class, java.sql.Time::valueOf),
                    Map.entry(java.sql.Timestamp.class, java.sql.Timestamp::valueOf),
                    Map.entry(LocalDate.class, LocalDate::parse),
                    Map.entry(LocalTime.class, LocalTime::parse),
                    Map.entry(LocalDateTime.class, LocalDateTime::parse),
                    Map.entry(Instant.class, Instant::parse),
                    Map.entry(java.time.Duration.class, java.time.Duration::parse),
                    Map.entry(java.util.UUID.class, java.util.UUID::fromString),
                    Map.entry(byte[].class, HexFormat.of()::parseHex));

    private static final Map<Class<?>, Function<JsonNode, ?>> FROM_NUMBER =
            Map.of(
                    Boolean.class, JsonNode::asBoolean,
                    Byte.class, node -> (byte) node.asInt(),
                    Short.class, node -> (short) node.asInt(),
                    Integer.class, JsonNode::asInt,
                    Long.class, JsonNode::asLong,
                    Float.class, node -> Float.valueOf(node.asText()), // NaN and infinities are text
                    Double.class, node -> Double.valueOf(node.asText()));

    /** A value of the type that a label names; {@code NULLABLE} around it makes no difference to the value. */
    static Object fromJson(String label, JsonNode json) {
        Object row = Labels.rowOfTable(label, json);
        if (row != null) {
            return row;
        }
        boolean wrapped = label.startsWith("NULLABLE<");
        return fromJson(Labels.type(wrapped ? label.substring("NULLABLE<".length(), label.length() - 1) : label), json);
    }

    static Object fromJson(TypeInformation<?> type, JsonNode json) {
        if (json == null || json.isNull()) {
            return null;
        } else if (FROM_NUMBER.containsKey(type.getTypeClass())) {
            return FROM_NUMBER.get(type.getTypeClass()).apply(json);
        } else if (FROM_TEXT.containsKey(type.getTypeClass())) {
            return FROM_TEXT.get(type.getTypeClass()).apply(json.asText());
        } else if (type instanceof PrimitiveArrayTypeInfo<?> array) {
            return array(array.getComponentClass(), array.getComponentType(), json);
        } else if (type instanceof BasicArrayTypeInfo<?, ?> array) {
            return array(array.getComponentTypeClass(), array.getComponentInfo(), json);
        } else if (type instanceof ObjectArrayTypeInfo<?, ?> array) {
            return array(array.getComponentInfo().getTypeClass(), array.getComponentInfo(), json);
        } else if (type instanceof EitherTypeInfo<?, ?> either) {
            return json.has("left")
                    ? Either.Left(fromJson(either.getLeftType(), json.get("left")))
                    : Either.Right(fromJson(either.getRightType(), json.get("right")));
        } else if (type instanceof ListTypeInfo<?> list) {
            List<Object> elements = new ArrayList<>();
            json.forEach(element -> elements.add(fromJson(list.getElementTypeInfo(), element)));
            return elements;
        } else if (type instanceof MapTypeInfo<?, ?> map) {
            Map<Object, Object> entries = new LinkedHashMap<>();
            json.forEach(entry -> entries.put(
                    fromJson(map.getKeyTypeInfo(), entry.get(0)), fromJson(map.getValueTypeInfo(), entry.get(1))));
            return entries;
        } else if (type instanceof TupleTypeInfo<?> tuple) {
            Tuple fields = Tuple.newInstance(tuple.getArity());
            for (int i = 0; i < tuple.getArity(); i++) {
                fields.setField(fromJson(tuple.getTypeAt(i), json.get(i)), i);
            }
            return fields;
        } else if (type instanceof RowTypeInfo row) {
            Row fields = Row.withPositions(RowKind.INSERT, row.getArity());
            for (RowKind kind : RowKind.values()) {
                if (kind.shortString().equals(json.get("kind").asText())) {
                    fields.setKind(kind);
                }
            }
            for (int i = 0; i < row.getArity(); i++) {
                fields.setField(i, fromJson(row.getTypeAt(i), json.get("fields").get(i)));
            }
            return fields;
        } else if (type instanceof EnumTypeInfo<?>) {
            for (Object constant : type.getTypeClass().getEnumConstants()) {
                if (((Enum<?>) constant).name().equals(json.asText())) {
                    return constant;
                }
            }
        } else if (type instanceof PojoTypeInfo<?> pojo) {
            return pojo(pojo, json);
        } else if (type.getTypeClass() == java.util.BitSet.class) {
            java.util.BitSet bits = new java.util.BitSet();
            json.get("bits").forEach(bit -> bits.set(bit.asInt()));
            return bits;
        } else if (type instanceof GenericTypeInfo<?> && json.isObject()) {
            return object(type.getTypeClass(), json);
        }
        throw new IllegalArgumentException("cannot make a " + type + " of " + json);
    }

    private static Object array(Class<?> elementClass, TypeInformation<?> elementType, JsonNode json) {
        Object elements = java.lang.reflect.Array.newInstance(elementClass, json.size());
        for (int i = 0; i < json.size(); i++) {
            java.lang.reflect.Array.set(elements, i, fromJson(elementType, json.get(i)));
        }
        return elements;
    }

    private static Object object(Class<?> type, JsonNode json) {
        try {
            Object object = type.getConstructor().newInstance();
            for (java.lang.reflect.Field field : type.getFields()) {
                field.set(object, fromJson(TypeInformation.of(field.getType()), json.get(field.getName())));
            }
            return object;
        } catch (ReflectiveOperationException e) {
            throw new IllegalArgumentException("cannot make a " + type, e);
        }
    }

    private static Object pojo(PojoTypeInfo<?> type, JsonNode json) {
        try {
            String className = json.path("@class").asText(type.getTypeClass().getName());
            if (!className.equals(type.getTypeClass().getName())) {
                type = (PojoTypeInfo<?>) TypeInformation.of(Class.forName(className)); // a subclass
            }
            if (type.getTypeClass().isRecord()) {
                return record(type, json);
            }
            Object pojo = type.getTypeClass().getConstructor().newInstance();
            for (int i = 0; i < type.getArity(); i++) {
                PojoField field = type.getPojoFieldAt(i);
                field.getField().set(pojo, fromJson(field.getTypeInformation(), json.get(field.getField().getName())));
            }
            return pojo;
        } catch (ReflectiveOperationException e) {
            throw new IllegalArgumentException("cannot make a " + type, e);
        }
    }

    private static Object record(PojoTypeInfo<?> type, JsonNode json) throws ReflectiveOperationException {
        RecordComponent[] components = type.getTypeClass().getRecordComponents();
        Class<?>[] classes = new Class<?>[components.length];
        Object[] values = new Object[components.length];
        for (int i = 0; i < components.length; i++) {
            String name = components[i].getName();
            classes[i] = components[i].getType();
            values[i] = fromJson(type.getPojoFieldAt(type.getFieldIndex(name)).getTypeInformation(), json.get(name));
        }
        return type.getTypeClass().getConstructor(classes).newInstance(values);
    }

    private Values() {}
}
