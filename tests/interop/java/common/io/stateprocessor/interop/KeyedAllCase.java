package io.stateprocessor.interop;

import fixtures.Circle;
import fixtures.Tier;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Keyed states of all types and kinds, TTL and both kinds of timers, under keys of five types. */
final class KeyedAllCase extends FixtureCase {

    private static final int KEYS = 12;
    private static final long FAR = 4_102_444_800_000L; // in the year 2100
    private static final String ACCOUNT = "POJO<fixtures.Account>";
    private static final String SIMPLE = "POJO<fixtures.Simple>";
    private static final String ADDRESS = "POJO<fixtures.Address>";
    private static final String SHAPE = "POJO<fixtures.Shape>";

    /** A state and the steps that fill it: its operator's i-th key is given the i-th value, some keys a second one. */
    private record Filled(String operator, StateSpec state, IntFunction<Object> value) {}

    private static final List<Filled> STATES = new ArrayList<>();
    private static final Map<String, String> KEY_TYPES = new LinkedHashMap<>();

    private static void value(String operator, String name, String type, IntFunction<Object> value) {
        STATES.add(new Filled(operator, StateSpec.of(StateSpec.Kind.VALUE, name, type), value));
    }

    private static void state(String operator, StateSpec state, IntFunction<Object> value) {
        STATES.add(new Filled(operator, state, value));
    }

    static {
        KEY_TYPES.put("keyed-long", "LONG");
        KEY_TYPES.put("keyed-string", "STRING");
        KEY_TYPES.put("keyed-int", "INT");
        KEY_TYPES.put("keyed-tuple", "TUPLE<STRING,INT>");
        KEY_TYPES.put("keyed-pojo", "POJO<fixtures.UserKey>");

        for (TypesCase.Specimen specimen : TypesCase.specimens()) {
            if (!specimen.type().contains("interop.")) { // the classes of this case are others
                String operator = specimen.type().matches("[A-Z_]+") && !specimen.type().matches("BYTES|.*ARRAY") ? "keyed-long" : "keyed-string";
                value(operator, "value-" + specimen.name(), specimen.type(), i -> specimen.values().get(i % specimen.values().size()));
            }
        }
        value("keyed-string", "value-enum", "ENUM<fixtures.Tier>", i -> Tier.values()[i % 3]);
        value("keyed-string", "value-kryo-bitset", "KRYO<java.util.BitSet>", Samples::bits);
        value("keyed-string", "value-kryo-maybe", "KRYO<fixtures.Maybe>", Samples::maybe);
        value("keyed-string", "value-pojo-account", ACCOUNT, Samples::account);
        value("keyed-string", "value-pojo-shape", SHAPE, Samples::shape);
        value("keyed-string", "value-object-array", "OBJECT_ARRAY<" + ADDRESS + ">", Samples::addresses);

        state("keyed-int", StateSpec.of(StateSpec.Kind.LIST, "list-string", "STRING"), Samples::text);
        state("keyed-int", StateSpec.of(StateSpec.Kind.LIST, "list-long", "LONG"), Samples::number);
        state("keyed-int", StateSpec.of(StateSpec.Kind.LIST, "list-pojo", SIMPLE), Samples::simple);
        state("keyed-int", StateSpec.of(StateSpec.Kind.LIST, "list-tuple", "TUPLE<STRING,LONG>"), i -> Tuple2.of(Samples.text(i), Samples.number(i)));
        state("keyed-int", StateSpec.map(StateSpec.Kind.MAP, "map-string-long", "STRING", "LONG"), i -> entry(Samples.text(i), Samples.number(i)));
        state("keyed-int", StateSpec.map(StateSpec.Kind.MAP, "map-int-pojo", "INT", ACCOUNT), i -> entry(-i, Samples.account(i)));
        state("keyed-int", StateSpec.map(StateSpec.Kind.MAP, "map-tuple-row", "TUPLE<STRING,INT>", "ROW<a:STRING,b:INT>"),
                i -> entry(Tuple2.of(Samples.text(i), i), Row.ofKind(RowKind.values()[i % 4], i % 3 == 0 ? null : Samples.text(i), i)));
        state("keyed-int", StateSpec.map(StateSpec.Kind.MAP, "map-long-list", "LONG", "LIST<STRING>"),
                i -> entry(Samples.number(i), new ArrayList<>(Arrays.asList("a", null, Samples.text(i)))));
        state("keyed-int", StateSpec.of(StateSpec.Kind.REDUCING, "reducing-long", "LONG"), Samples::number);
        state("keyed-int", StateSpec.of(StateSpec.Kind.REDUCING, "reducing-tuple", "TUPLE<STRING,LONG>"), i -> Tuple2.of("of " + i % KEYS, Samples.number(i)));
        state("keyed-int", StateSpec.of(StateSpec.Kind.AGGREGATING, "aggregating-average", "TUPLE<LONG,LONG>"), i -> (long) i);
        state("keyed-int", StateSpec.of(StateSpec.Kind.VALUE, "ttl-value", "STRING").withTtl(), Samples::text);
        state("keyed-int", StateSpec.of(StateSpec.Kind.VALUE, "ttl-value-pojo", SIMPLE).withTtl(), Samples::simple);
        state("keyed-int", StateSpec.of(StateSpec.Kind.LIST, "ttl-list", "LONG").withTtl(), Samples::number);
        state("keyed-int", StateSpec.map(StateSpec.Kind.MAP, "ttl-map", "STRING", "STRING").withTtl(), i -> entry(Samples.text(i), "v" + i));
        state("keyed-int", StateSpec.of(StateSpec.Kind.REDUCING, "ttl-reducing", "LONG").withTtl(), Samples::number);
        state("keyed-int", StateSpec.of(StateSpec.Kind.AGGREGATING, "ttl-aggregating", "TUPLE<LONG,LONG>").withTtl(), i -> (long) i);

        state("keyed-tuple", StateSpec.of(StateSpec.Kind.VALUE, "count", "LONG"), Samples::number);
        state("keyed-tuple", StateSpec.map(StateSpec.Kind.MAP, "by-name", "STRING", "DOUBLE"), i -> entry(Samples.text(i), Samples.real(i)));
        state("keyed-tuple", StateSpec.map(StateSpec.Kind.MAP, "labels", "STRING", "STRING"), i -> entry("l" + i, i % 3 == 1 ? null : Samples.text(i)));
        state("keyed-tuple", StateSpec.of(StateSpec.Kind.LIST, "history", "INSTANT"), i -> Instant.ofEpochSecond(i * 1_000_000L, i));

        state("keyed-pojo", StateSpec.of(StateSpec.Kind.VALUE, "account", ACCOUNT), Samples::account);
        state("keyed-pojo", StateSpec.of(StateSpec.Kind.LIST, "shapes", SHAPE), Samples::shape);
        state("keyed-pojo", StateSpec.map(StateSpec.Kind.MAP, "addresses", "SHORT", ADDRESS), i -> entry((short) i, i % 4 == 3 ? null : Samples.address(i)));
        state("keyed-pojo", StateSpec.map(StateSpec.Kind.MAP, "by-day", "LOCAL_DATE", "BIG_DEC"),
                i -> entry(LocalDate.of(2024, 1, 1 + i % 28), Samples.account(i).limit));
    }

    private static Map.Entry<Object, Object> entry(Object key, Object value) {
        return new java.util.AbstractMap.SimpleEntry<>(key, value); // which may hold null
    }

    private static Object key(String operator, int i) {
        return switch (operator) {
            case "keyed-long" -> Samples.number(i);
            case "keyed-string" -> Samples.text(i);
            case "keyed-int" -> (int) Samples.number(i) + 31 * i;
            case "keyed-tuple" -> Tuple2.of(Samples.text(i), i);
            default -> Samples.userKey(i);
        };
    }

    @Override
    String name() {
        return "keyed-all";
    }

    @Override
    void configure(StreamExecutionEnvironment env) {
        Compat.registerPojo(env, Circle.class);
    }

    @Override
    List<OperatorSpec> operators() {
        List<OperatorSpec> operators = new ArrayList<>();
        KEY_TYPES.forEach((operator, keyType) -> {
            List<StateSpec> states = new ArrayList<>(STATES.stream().filter(s -> s.operator().equals(operator)).map(Filled::state).toList());
            if (!List.of("keyed-long", "keyed-string").contains(operator)) {
                states.add(StateSpec.timers(StateSpec.Kind.EVENT_TIMER));
                states.add(StateSpec.timers(StateSpec.Kind.PROCESSING_TIMER));
            }
            operators.add(new OperatorSpec(operator, keyType, states.toArray(StateSpec[]::new)));
        });
        return operators;
    }

    @Override
    List<Step> steps() {
        List<Step> steps = new ArrayList<>();
        for (Filled filled : STATES) {
            String operator = filled.operator();
            String state = filled.state().name();
            for (int i = 0; i < KEYS; i++) {
                steps.add(new Step(operator, state, key(operator, i), filled.value().apply(i)));
                if (i % 2 == 1) {
                    steps.add(new Step(operator, state, key(operator, i), filled.value().apply(i + KEYS)));
                }
            }
            if (steps.size() % 5 == 0) { // one entry is gone again
                steps.add(new Step(operator, state, key(operator, 5), null));
            }
        }
        for (String operator : List.of("keyed-int", "keyed-tuple", "keyed-pojo")) {
            for (int i = 0; i < 2 * KEYS; i++) {
                steps.add(new Step(operator, Model.EVENT_TIMER, key(operator, i % KEYS), START + 1000L * i));
                if (i % 3 == 0) {
                    steps.add(new Step(operator, Model.PROCESSING_TIMER, key(operator, i % KEYS), FAR + i));
                }
            }
        }
        return steps;
    }

    @Override
    long watermark() {
        return START + 3000;
    }

    @Override
    void describe(org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode expected, Model model, int parallelism)
            throws Exception {
        super.describe(expected, model, parallelism);
        expected.set("registered_pojo_subclasses", Json.of(List.of(Circle.class.getName())));
    }
}
