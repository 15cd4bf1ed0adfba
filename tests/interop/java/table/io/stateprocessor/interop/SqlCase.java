package io.stateprocessor.interop;

import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

/** A query over orders, and over customers if it joins; what it has to remember is worked out from its input. */
public final class SqlCase extends FixtureCase {

    private static final int ORDERS = 60;
    private static final int CUSTOMERS = 14;
    private static final long WINDOW = 10_000;
    private static final String TTL = "876000 h";

    /** An order, as SQL sees it and as expected.json has it. */
    private record Order(long time, Row row) implements Timed {

        String k() {
            return (String) row.getField("k");
        }

        Integer n() {
            return (Integer) row.getField("n");
        }

        BigDecimal amount() {
            return (BigDecimal) row.getField("amount");
        }

        LocalDateTime ts() {
            return (LocalDateTime) row.getField("ts");
        }

        JsonNode json() {
            Row nested = (Row) row.getField("nested");
            List<JsonNode> fields = new ArrayList<>();
            for (String name : List.of("k", "n", "amount", "ts", "flag", "tags", "attrs")) {
                fields.add(Json.of(row.getField(name)));
            }
            fields.add(nested == null ? Json.of(null) : Json.array(List.of(Json.of(nested.getField("a")), Json.of(nested.getField("b")))));
            return Json.array(fields);
        }
    }

    private static final TypeInformation<Row> NESTED = Types.ROW_NAMED(new String[] {"a", "b"}, Types.INT, Types.STRING);
    private static final TypeInformation<Row> ORDER_TYPE =
            Types.ROW_NAMED(
                    new String[] {"k", "n", "amount", "ts", "flag", "tags", "attrs", "nested"},
                    Types.STRING,
                    Types.INT,
                    Types.BIG_DEC,
                    Types.LOCAL_DATE_TIME,
                    Types.BOOLEAN,
                    Types.OBJECT_ARRAY(Types.STRING),
                    Types.MAP(Types.STRING, Types.INT),
                    NESTED);

    private static final Map<String, String> QUERIES =
            Map.of(
                    "sql-group-agg",
                            "SELECT k, COUNT(*) AS cnt, SUM(amount) AS total, MAX(ts) AS latest, MIN(n) AS low, AVG(n) AS mean,"
                                    + " COUNT(DISTINCT n) AS kinds, LAST_VALUE(k) AS last_k, COLLECT(n) AS all_n FROM orders GROUP BY k",
                    "sql-group-by-types", "SELECT n, amount, ts, flag, COUNT(*) AS cnt FROM orders GROUP BY n, amount, ts, flag",
                    "sql-deduplicate",
                            "SELECT k, n, amount, ts, tags, attrs, nested FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY"
                                    + " rowtime DESC) AS rn FROM orders) WHERE rn = 1",
                    "sql-join",
                            "SELECT o.k, o.amount, o.ts, o.tags, o.attrs, o.nested, c.city FROM orders AS o JOIN customers AS c ON"
                                    + " o.k = c.k",
                    "sql-window",
                            "SELECT k, window_start, window_end, COUNT(*) AS cnt, SUM(amount) AS total FROM TABLE(TUMBLE(TABLE orders,"
                                    + " DESCRIPTOR(rowtime), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end",
                    "sql-top",
                            "SELECT k, amount, rn FROM (SELECT k, amount, ROW_NUMBER() OVER (PARTITION BY k ORDER BY amount DESC) AS rn"
                                    + " FROM orders) WHERE rn <= 2",
                    "sql-over",
                            "SELECT k, SUM(amount) OVER (PARTITION BY k ORDER BY rowtime RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND"
                                    + " CURRENT ROW) FROM orders",
                    "sql-retract-top",
                            "SELECT k, flag, total FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY flag ORDER BY total) AS rn FROM"
                                    + " (SELECT k, flag, SUM(amount) AS total FROM orders GROUP BY k, flag)) WHERE rn <= 2",
                    "sql-group-window", "SELECT k, COUNT(*) AS cnt FROM orders GROUP BY k, TUMBLE(rowtime, INTERVAL '10' SECOND)",
                    "sql-sort", "SELECT k, rowtime, amount FROM orders ORDER BY rowtime");

    private final String name;

    public SqlCase(String name) {
        this.name = name;
        if (!QUERIES.containsKey(name)) {
            throw new IllegalArgumentException("no query is called " + name + "; there are " + QUERIES.keySet());
        }
    }

    @Override
    String name() {
        return name;
    }

    @Override
    List<OperatorSpec> operators() {
        return List.of();
    }

    @Override
    long watermark() {
        return START + 25_000;
    }

    @Override
    List<String> statelessOperators() {
        return List.of(StepJob.SOURCE, "orders", "customers");
    }

    private static String key(int i) {
        return i % 9 == 8 ? "a rather long key which is not stored inline #" + i % 4 : "key-" + i % 7;
    }

    private static Order order(int i) {
        long time = START + 1 + 701L * i; // no whole second, which texts leave out
        Row row = Row.withNames();
        row.setField("k", key(i));
        row.setField("n", i % 8 == 5 ? null : i % 5);
        row.setField("amount", BigDecimal.valueOf(-500 + 137L * i, 2));
        row.setField("ts", LocalDateTime.ofInstant(Instant.ofEpochMilli(time), ZoneOffset.UTC));
        row.setField("flag", i % 4 == 3 ? null : i % 2 == 0);
        row.setField("tags", i % 4 == 0 ? new String[0] : i % 4 == 3 ? new String[] {"tag-é", null} : new String[] {"tag-" + i});
        Map<String, Integer> attributes = new HashMap<>();
        for (int a = 0; a < i % 3; a++) {
            attributes.put("attr" + a, a == 1 ? null : Integer.valueOf(i));
        }
        row.setField("attrs", i % 7 == 6 ? null : attributes);
        row.setField("nested", i % 8 == 5 ? null : nested(i));
        return new Order(time, row);
    }

    private static Row nested(int i) {
        Row nested = Row.withNames();
        nested.setField("a", i);
        nested.setField("b", "b-" + i);
        return nested;
    }

    private static List<Order> orders() {
        List<Order> orders = new ArrayList<>();
        for (int i = 0; i < ORDERS; i++) {
            orders.add(order(i));
        }
        return orders;
    }

    private static List<Row> customers() {
        List<Row> customers = new ArrayList<>();
        for (int i = 0; i < CUSTOMERS; i++) { // some have no orders, some two cities
            customers.add(Row.of(i < 5 ? key(i) : i < 7 ? key(0) : "nobody-" + i, i % 4 == 3 ? null : "city " + i));
        }
        return customers;
    }

    @Override
    List<Step> steps() {
        List<Step> steps = new ArrayList<>();
        orders().forEach(order -> steps.add(new Step("orders", null, null, order)));
        customers().forEach(customer -> steps.add(new Step("customers", null, null, customer)));
        return steps;
    }

    @Override
    void build(DataStream<Integer> source) {
        String job = name;
        StreamTableEnvironment tables = StreamTableEnvironment.create(source.getExecutionEnvironment());
        if (List.of("sql-group-agg", "sql-deduplicate", "sql-top").contains(name)) {
            tables.getConfig().set("table.exec.state.ttl", TTL);
        }
        tables.getConfig().set("table.local-time-zone", "UTC");
        DataStream<Row> orders =
                source.filter(index -> Steps.get(job, index).operator().equals("orders"))
                        .setParallelism(1)
                        .uid("only-orders")
                        .map(index -> ((Order) Steps.get(job, index).value()).row())
                        .returns(ORDER_TYPE)
                        .setParallelism(1)
                        .uid("orders");
        tables.createTemporaryView(
                "orders",
                orders,
                Schema.newBuilder()
                        .column("k", "STRING")
                        .column("n", "INT")
                        .column("amount", "DECIMAL(10, 2)")
                        .column("ts", "TIMESTAMP(3)")
                        .column("flag", "BOOLEAN")
                        .column("tags", "ARRAY<STRING>")
                        .column("attrs", "MAP<STRING, INT>")
                        .column("nested", "ROW<a INT, b STRING>")
                        .columnByMetadata("rowtime", "TIMESTAMP_LTZ(3)")
                        .watermark("rowtime", "SOURCE_WATERMARK()")
                        .build());
        if (name.equals("sql-join")) {
            DataStream<Row> customers =
                    source.filter(index -> Steps.get(job, index).operator().equals("customers"))
                            .setParallelism(1)
                            .uid("only-customers")
                            .map(index -> (Row) Steps.get(job, index).value())
                            .returns(Types.ROW_NAMED(new String[] {"k", "city"}, Types.STRING, Types.STRING))
                            .setParallelism(1)
                            .uid("customers");
            tables.createTemporaryView("customers", customers);
        }
        tables.toChangelogStream(tables.sqlQuery(QUERIES.get(name))).map(row -> 0).returns(Types.INT).uid("changes").name("changes");
    }

    @Override
    Model expected(int parallelism) {
        return new Model(parallelism); // see describe
    }

    @Override
    void describe(ObjectNode expected, Model model, int parallelism) {
        expected.put("sql", QUERIES.get(name));
        List<JsonNode> inputs = new ArrayList<>();
        for (Order order : orders()) {
            ObjectNode input = Json.object().put("timestamp", order.time());
            input.set("row", order.json());
            inputs.add(input);
        }
        ObjectNode streams = Json.object();
        streams.set("orders", Json.array(inputs));
        expected.set("inputs", streams);
        ObjectNode state = Json.object().put("name", "logical content");
        state.set("entries", Json.array(Json.sorted(entries().stream())));
        ObjectNode operator = Json.object().put("uid", (String) null);
        operator.set("states", Json.array(List.<JsonNode>of(state)));
        expected.set("operators", Json.array(List.<JsonNode>of(operator)));
    }

    private List<JsonNode> entries() {
        return switch (name) {
            case "sql-group-agg" -> byKey((key, orders) -> aggregate(orders));
            case "sql-group-by-types" -> byTypes();
            case "sql-deduplicate" -> byKey((key, orders) -> orders.get(orders.size() - 1).json());
            case "sql-join" -> joined();
            case "sql-window" -> byWindow();
            default -> List.of(); // for the types of their states
        };
    }

    private interface Remembered {
        JsonNode of(String key, List<Order> orders);
    }

    private static Map<String, List<Order>> grouped() {
        Map<String, List<Order>> groups = new TreeMap<>();
        orders().forEach(order -> groups.computeIfAbsent(order.k(), k -> new ArrayList<>()).add(order));
        return groups;
    }

    private static List<JsonNode> byKey(Remembered value) {
        List<JsonNode> entries = new ArrayList<>();
        grouped().forEach((key, orders) -> entries.add(Json.object().put("key", key).set("value", value.of(key, orders))));
        return entries;
    }

    private static BigDecimal total(List<Order> orders) {
        return orders.stream().map(Order::amount).reduce(BigDecimal.ZERO, BigDecimal::add);
    }

    private static JsonNode aggregate(List<Order> orders) {
        List<Integer> numbers = orders.stream().map(Order::n).filter(Objects::nonNull).toList();
        Map<Integer, Integer> counts = new TreeMap<>();
        numbers.forEach(n -> counts.merge(n, 1, Integer::sum));
        ObjectNode value = Json.object().put("cnt", orders.size()).put("total", total(orders).toString());
        value.put("latest", orders.stream().map(Order::ts).max(LocalDateTime::compareTo).orElseThrow().toString());
        value.set("low", Json.of(numbers.stream().min(Integer::compare).orElse(null)));
        value.put("sum_n", numbers.stream().mapToInt(n -> n).sum()).put("count_n", numbers.size());
        value.put("kinds", new HashSet<>(numbers).size());
        ObjectNode all = Json.object();
        counts.forEach((n, count) -> all.put(n.toString(), count));
        return value.set("all_n", all);
    }

    private static List<JsonNode> byTypes() {
        Map<JsonNode, Integer> counts = new HashMap<>();
        for (Order order : orders()) {
            List<JsonNode> key = new ArrayList<>();
            List.of(1, 2, 3, 4).forEach(field -> key.add(order.json().get(field)));
            counts.merge(Json.array(key), 1, Integer::sum);
        }
        List<JsonNode> entries = new ArrayList<>();
        counts.forEach((key, count) -> entries.add(Json.object().put("value", count).set("key", key)));
        return entries;
    }

    private static List<JsonNode> joined() {
        List<JsonNode> entries = new ArrayList<>(byKey((key, orders) -> Json.object().set("left_rows", Json.array(orders.stream().map(Order::json).toList()))));
        Map<String, List<JsonNode>> cities = new TreeMap<>();
        for (Row customer : customers()) {
            List<JsonNode> row = List.of(Json.of(customer.getField(0)), Json.of(customer.getField(1)));
            cities.computeIfAbsent((String) customer.getField(0), k -> new ArrayList<>()).add(Json.array(row));
        }
        cities.forEach((key, rows) -> entries.add(Json.object().put("key", key).set("value", Json.object().set("right_rows", Json.array(rows)))));
        return entries;
    }

    private List<JsonNode> byWindow() {
        List<JsonNode> entries = new ArrayList<>();
        grouped().forEach((key, all) -> {
            Map<Long, List<Order>> windows = new TreeMap<>();
            all.forEach(order -> windows.computeIfAbsent(order.time() - order.time() % WINDOW, start -> new ArrayList<>()).add(order));
            windows.forEach((start, orders) -> {
                if (start + WINDOW - 1 > watermark()) {
                    ObjectNode entry = Json.object().put("key", key);
                    entry.set("namespace", Json.object().put("start", start).put("end", start + WINDOW));
                    entries.add(entry.set("value", Json.object().put("cnt", orders.size()).put("total", total(orders).toString())));
                }
            });
        });
        return entries;
    }
}
