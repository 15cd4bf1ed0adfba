package io.stateprocessor.interop;

import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/** State that Flink 2.x can't restore as Flink 1.x writes it: collections in POJOs, and what Kryo writes. */
final class BasketsCase extends FixtureCase {

    private static final int BASKETS = 12;
    private static final String BASKET = "POJO<" + Basket.class.getName() + ">";
    private static final String BITS = "KRYO<java.util.BitSet>";
    private static final String DAY = "KRYO<java.time.LocalDate>";

    @Override
    String name() {
        return "baskets";
    }

    @Override
    List<OperatorSpec> operators() {
        return List.of(
                new OperatorSpec(
                        "baskets",
                        "STRING",
                        StateSpec.of(StateSpec.Kind.VALUE, "basket", BASKET),
                        StateSpec.of(StateSpec.Kind.LIST, "history", BASKET),
                        StateSpec.map(StateSpec.Kind.MAP, "by-day", DAY, BASKET),
                        StateSpec.of(StateSpec.Kind.VALUE, "draft", BASKET).withTtl(),
                        StateSpec.of(StateSpec.Kind.VALUE, "pair", "TUPLE<LONG," + BASKET + ">"),
                        StateSpec.of(StateSpec.Kind.VALUE, "bits", BITS),
                        StateSpec.of(StateSpec.Kind.VALUE, "total", "LONG"),
                        StateSpec.timers(StateSpec.Kind.EVENT_TIMER)),
                new OperatorSpec(
                        "days",
                        DAY,
                        StateSpec.of(StateSpec.Kind.VALUE, "sales", "LONG"),
                        StateSpec.timers(StateSpec.Kind.EVENT_TIMER)),
                new OperatorSpec(
                        "lists",
                        null,
                        StateSpec.of(StateSpec.Kind.OPERATOR_LIST, "open", BASKET),
                        StateSpec.of(StateSpec.Kind.UNION_LIST, "masks", BITS),
                        StateSpec.of(StateSpec.Kind.OPERATOR_LIST, "plain", "STRING"),
                        StateSpec.map(StateSpec.Kind.BROADCAST, "samples", DAY, BASKET)));
    }

    @Override
    List<Step> steps() {
        List<Step> steps = new ArrayList<>();
        for (int i = 0; i < BASKETS; i++) {
            String key = "customer-" + i;
            LocalDate day = LocalDate.of(2020 + i % 5, 1 + i % 12, 1 + i % 28);
            steps.add(new Step("baskets", "basket", key, basket(i)));
            steps.add(new Step("baskets", "history", key, basket(i + 1)));
            steps.add(new Step("baskets", "history", key, basket(i + 2)));
            steps.add(new Step("baskets", "by-day", key, Map.entry(day, basket(i + 3))));
            steps.add(new Step("baskets", "draft", key, basket(i + 4)));
            steps.add(new Step("baskets", "pair", key, org.apache.flink.api.java.tuple.Tuple2.of((long) i, basket(i + 5))));
            steps.add(new Step("baskets", "bits", key, bits(i)));
            steps.add(new Step("baskets", "total", key, 1000L * i));
            steps.add(new Step("baskets", Model.EVENT_TIMER, key, START + i));
            steps.add(new Step("days", "sales", day, (long) i));
            steps.add(new Step("days", Model.EVENT_TIMER, day, START + 60 + i));
            steps.add(new Step("lists", "open", null, basket(i + 6)));
            steps.add(new Step("lists", "masks", null, bits(i)));
            steps.add(new Step("lists", "plain", null, "plain " + i));
            steps.add(new Step("lists", "samples", null, Map.entry(day, basket(i + 7))));
        }
        return steps;
    }

    private static Basket basket(int i) {
        Basket basket = new Basket();
        basket.owner = i % 9 == 8 ? null : "owner " + i;
        basket.since = i % 8 == 7 ? null : LocalDate.of(1969 + i, 1 + i % 12, 1 + i % 28);
        basket.items = i % 5 == 0 ? null : i % 5 == 1 ? new ArrayList<>() : list(i % 2 == 0, "tea", i % 3 == 0 ? null : "müsli " + i, "tea");
        basket.codes = i % 4 == 0 ? null : i % 4 == 1 ? Collections.emptySet() : set(i, 1L << i % 60, -1L, (long) i);
        basket.counts = i % 7 == 0 ? null : i % 7 == 1 ? Collections.emptyMap() : counts(i);
        basket.prices = i % 3 == 0 ? new ArrayList<>() : list(false, 0.25 * i, Double.NaN, -0.0);
        basket.days = i % 6 == 0 ? null : list(true, LocalDate.of(2024, 2, 1 + i % 29), null, LocalDate.MIN.withYear(-i));
        basket.tiers = i % 3 == 0 ? null : set(i, Tier.values()[i % 3], Tier.GOLD);
        basket.images = i % 4 == 3 ? null : list(false, new byte[] {1, (byte) i}, new byte[0]);
        basket.lines = i % 5 == 4 ? null : list(i % 2 == 1, line(i), i % 2 == 0 ? null : line(i + 1));
        basket.best = i % 6 == 5 ? null : line(i + 2);
        basket.never = i % 2 == 0 ? null : new ArrayList<>();
        basket.nested = i % 5 == 3 ? null : list(false, list(true, "a", "b" + i), new ArrayList<String>(), null);
        basket.notes = i % 4 == 2 ? null : new ArrayList<>(Arrays.asList("note " + i, null));
        return basket;
    }

    private static Line line(int i) {
        return new Line(i % 4 == 0 ? null : "product " + i, i - 3, i % 3 == 0 ? null : list(i % 2 == 0, "remark " + i, null));
    }

    @SafeVarargs
    private static <T> List<T> list(boolean linked, T... elements) {
        return linked ? new LinkedList<>(Arrays.asList(elements)) : new ArrayList<>(Arrays.asList(elements));
    }

    @SafeVarargs
    private static <T> Set<T> set(int i, T... elements) {
        List<T> all = Arrays.asList(elements);
        return i % 3 == 0 ? new HashSet<>(all) : i % 3 == 1 ? new LinkedHashSet<>(all) : new TreeSet<>(all);
    }

    private static Map<String, Integer> counts(int i) {
        Map<String, Integer> counts = i % 3 == 0 ? new HashMap<>() : i % 3 == 1 ? new LinkedHashMap<>() : new TreeMap<>();
        counts.put("a" + i, i);
        counts.put("b", i % 2 == 0 ? null : -i);
        if (i % 3 == 0) {
            counts.put(null, 7);
        }
        return counts;
    }

    private static BitSet bits(int i) {
        BitSet bits = new BitSet();
        bits.set(i);
        bits.set(3 * i + 100);
        return bits;
    }

    @Override
    long watermark() {
        return START + 4;
    }
}
