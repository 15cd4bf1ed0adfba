package io.stateprocessor.interop;

import java.time.LocalDate;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.java.tuple.Tuple2;

/** A shop: what its customers ordered, by customer, and the operator state of its catalogue. */
final class OrdersCase extends FixtureCase {

    private static final List<String> CUSTOMERS =
            List.of(
                    "amelia", "anders", "aoife", "beatriz", "bjorn", "camila", "chidi", "clara", "dmitri", "elena", "elif", "emre",
                    "farah", "felix", "freya", "giulia", "hana", "henrik", "ines", "ivan", "jakob", "jamal", "josé", "kaito",
                    "katarina", "kofi", "lars", "leila", "lucía", "magnus", "mateo", "mei", "milan", "nadia", "noah", "olga",
                    "oskar", "paula", "priya", "quentin", "rania", "ravi", "sofia", "søren", "tariq", "tomás", "uma", "viktor",
                    "yuki", "zoë");
    private static final List<String> PRODUCTS =
            List.of("teapot", "kettle", "mug", "green tea", "black tea", "honey", "biscuits", "strainer", "tray", "napkins");
    private static final List<Integer> CENTS = List.of(3950, 4500, 890, 1290, 1150, 720, 540, 650, 2200, 380);
    private static final List<String> CITIES = List.of("Lisbon", "Oslo", "Kyoto", "Lyon", "Porto Alegre", "Kraków", "Accra");
    private static final List<String> STREETS = List.of("Harbour Street", "Mill Lane", "Station Road", "Garden Walk");
    private static final List<String> TAGS = List.of("newsletter", "gift wrap", "wholesale", "early adopter");
    private static final long HOUR = 3_600_000L;

    @Override
    String name() {
        return "orders";
    }

    @Override
    List<OperatorSpec> operators() {
        return List.of(
                new OperatorSpec(
                        "orders",
                        "STRING",
                        StateSpec.of(StateSpec.Kind.VALUE, "total", "LONG"),
                        StateSpec.of(StateSpec.Kind.VALUE, "profile", "POJO<" + Profile.class.getName() + ">"),
                        StateSpec.of(StateSpec.Kind.LIST, "history", "STRING"),
                        StateSpec.map(StateSpec.Kind.MAP, "items", "STRING", "LONG"),
                        StateSpec.of(StateSpec.Kind.VALUE, "session", "STRING").withTtl(),
                        StateSpec.timers(StateSpec.Kind.EVENT_TIMER)),
                new OperatorSpec(
                        "catalog",
                        null,
                        StateSpec.of(StateSpec.Kind.OPERATOR_LIST, "pending", "STRING"),
                        StateSpec.of(StateSpec.Kind.UNION_LIST, "offsets", "TUPLE<STRING,LONG>"),
                        StateSpec.map(StateSpec.Kind.BROADCAST, "discounts", "STRING", "DOUBLE")));
    }

    @Override
    List<Step> steps() {
        List<Step> steps = new ArrayList<>();
        for (int customer = 0; customer < CUSTOMERS.size(); customer++) {
            addCustomer(steps, customer);
        }
        for (int i = 0; i < PRODUCTS.size(); i++) {
            steps.add(new Step("catalog", "pending", null, "restock " + PRODUCTS.get(i)));
            steps.add(new Step("catalog", "offsets", null, Tuple2.of("stock-" + i, 1000L + 37 * i)));
            steps.add(new Step("catalog", "discounts", null, Map.entry(PRODUCTS.get(i), 0.05 * (i % 4))));
        }
        return steps;
    }

    /** So that small states have files of their own too. */
    @Override
    int inlineBytes(Variant variant) {
        return 0;
    }

    private static void addCustomer(List<Step> steps, int customer) {
        String key = CUSTOMERS.get(customer);
        long total = 0;
        Map<String, Long> counts = new LinkedHashMap<>();
        for (int order = 0; order < 1 + customer % 4; order++) {
            int product = (3 * customer + 7 * order) % PRODUCTS.size();
            long pieces = 1 + (customer + order) % 3;
            total += pieces * CENTS.get(product);
            counts.merge(PRODUCTS.get(product), pieces, Long::sum);
            steps.add(new Step("orders", "total", key, total));
            steps.add(new Step("orders", "history", key, pieces + " × " + PRODUCTS.get(product)));
            steps.add(new Step("orders", "items", key, Map.entry(PRODUCTS.get(product), counts.get(PRODUCTS.get(product)))));
        }
        if (customer % 5 != 4) { // some never filled in their profile
            steps.add(new Step("orders", "profile", key, profile(customer)));
        }
        if (customer % 3 != 2) {
            steps.add(new Step("orders", "session", key, String.format("s-%05d", 7919 * (customer + 1) % 100_000)));
        }
        steps.add(new Step("orders", Model.EVENT_TIMER, key, START + (customer % 12) * HOUR));
        if (customer % 10 == 9) { // and some asked to be forgotten
            steps.add(new Step("orders", "history", key, null));
        }
    }

    private static Profile profile(int customer) {
        String name = CUSTOMERS.get(customer);
        Profile profile = new Profile();
        profile.name = name.substring(0, 1).toUpperCase(java.util.Locale.ROOT) + name.substring(1);
        profile.email = customer % 7 == 6 ? null : name + "@example.com";
        profile.tier = Tier.values()[customer % 3];
        profile.active = customer % 8 != 7;
        profile.discount = 0.025 * (customer % 5);
        profile.since = LocalDate.of(2015 + customer % 9, 1 + customer % 12, 1 + customer % 28);
        profile.address =
                customer % 6 == 5
                        ? null
                        : new Address(
                                STREETS.get(customer % STREETS.size()) + " " + (1 + 3 * customer),
                                CITIES.get(customer % CITIES.size()),
                                10_000 + 137 * customer);
        profile.tags = TAGS.subList(0, customer % (TAGS.size() + 1));
        profile.visits = new LinkedHashMap<>();
        profile.visits.put("web", 3L + customer);
        if (customer % 2 == 0) {
            profile.visits.put("app", 40L - customer);
        }
        return profile;
    }

    @Override
    long watermark() {
        return START + 5 * HOUR; // the first reminders have fired
    }
}
