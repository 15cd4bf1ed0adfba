package io.stateprocessor.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;

/** Operator state of every kind, one of them never filled, and a source with splits and a coordinator. */
final class OperatorStateCase extends FixtureCase {

    private static final int ELEMENTS = 20;
    private static final long LAST = 10_000_000;
    private static final String ACCOUNT = "POJO<fixtures.Account>";

    /** The last number that each subtask let through before the barrier. */
    private static final Map<Integer, Long> LAST_EMITTED = new ConcurrentHashMap<>();

    private static final Map<Integer, Long> BEFORE_BARRIER = new ConcurrentHashMap<>();

    @Override
    String name() {
        return "operator-state";
    }

    @Override
    List<OperatorSpec> operators() {
        return List.of(
                new OperatorSpec(
                        "lists",
                        null,
                        StateSpec.of(StateSpec.Kind.OPERATOR_LIST, "split-strings", "STRING"),
                        StateSpec.of(StateSpec.Kind.OPERATOR_LIST, "split-simple", "POJO<fixtures.Simple>"),
                        StateSpec.of(StateSpec.Kind.OPERATOR_LIST, "split-tuples", "TUPLE<STRING,LONG>"),
                        StateSpec.of(StateSpec.Kind.UNION_LIST, "union-longs", "LONG"),
                        StateSpec.of(StateSpec.Kind.UNION_LIST, "union-accounts", ACCOUNT),
                        StateSpec.of(StateSpec.Kind.OPERATOR_LIST, "never-filled", "INT")),
                new OperatorSpec(
                        "plain-broadcast",
                        null,
                        StateSpec.map(StateSpec.Kind.BROADCAST, "rules", "STRING", "LONG"),
                        StateSpec.map(StateSpec.Kind.BROADCAST, "accounts", "INT", ACCOUNT),
                        StateSpec.map(StateSpec.Kind.BROADCAST, "limits", "TUPLE<STRING,INT>", "BIG_DEC"),
                        StateSpec.map(StateSpec.Kind.BROADCAST, "empty-rules", "STRING", "STRING")));
    }

    @Override
    List<Step> steps() {
        List<Step> steps = new ArrayList<>();
        for (int i = 0; i < ELEMENTS; i++) {
            steps.add(new Step("lists", "split-strings", null, Samples.text(i)));
            steps.add(new Step("lists", "split-simple", null, Samples.simple(i)));
            steps.add(new Step("lists", "split-tuples", null, Tuple2.of(Samples.text(i), Samples.number(i))));
            steps.add(new Step("lists", "union-longs", null, Samples.number(i)));
            steps.add(new Step("lists", "union-accounts", null, Samples.account(i)));
            steps.add(new Step("plain-broadcast", "rules", null, Map.entry(Samples.text(i), Samples.number(i))));
            steps.add(new Step("plain-broadcast", "accounts", null, Map.entry(-i, Samples.account(i))));
            steps.add(new Step("plain-broadcast", "limits", null, Map.entry(Tuple2.of(Samples.text(i), i), Samples.account(i).limit)));
        }
        return steps;
    }

    @Override
    long watermark() {
        return START;
    }

    @Override
    void build(DataStream<Integer> source) {
        super.build(source);
        LAST_EMITTED.clear();
        BEFORE_BARRIER.clear();
        source.getExecutionEnvironment()
                .fromSource(new NumberSequenceSource(1, LAST), WatermarkStrategy.noWatermarks(), "sequence")
                .uid("sequence")
                .map(new Gate())
                .uid("gate")
                .name("gate");
    }

    @Override
    List<String> statelessOperators() {
        List<String> uids = new ArrayList<>(super.statelessOperators());
        uids.add("gate");
        return uids;
    }

    @Override
    void awaitInput(Cluster cluster, JobID job) throws Exception {
        super.awaitInput(cluster, job);
        while (LAST_EMITTED.size() < 2 && BEFORE_BARRIER.isEmpty()) {
            Thread.sleep(20);
        }
    }

    @Override
    void describe(ObjectNode expected, Model model, int parallelism) throws Exception {
        super.describe(expected, model, parallelism);
        ObjectNode state = Json.object().put("name", "SourceReaderState").put("kind", StateSpec.Kind.OPERATOR_LIST.name());
        state.put("value_type", "BYTES (SimpleVersionedSerialization of NumberSequenceSplit)");
        state.put("sequence_from", 1).put("sequence_to", LAST);
        ObjectNode emitted = Json.object();
        new TreeMap<>(BEFORE_BARRIER).forEach((subtask, last) -> emitted.put(subtask.toString(), last));
        state.set("last_emitted_per_subtask", emitted);
        ObjectNode source = Json.object().put("uid", "sequence").put("source", NumberSequenceSource.class.getName()).put("coordinator", true);
        source.set("states", Json.array(List.<JsonNode>of(state)));
        ((ArrayNode) expected.get("operators")).add(source);
    }

    /** Lets few numbers through, and notes the last of them when the barrier comes. */
    private static final class Gate extends RichMapFunction<Long, Long> implements CheckpointedFunction {

        @Override
        public Long map(Long number) throws Exception {
            LAST_EMITTED.put(Compat.subtask(getRuntimeContext()), number);
            Thread.sleep(20);
            return number;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {
            int subtask = Compat.subtask(getRuntimeContext());
            BEFORE_BARRIER.put(subtask, LAST_EMITTED.getOrDefault(subtask, -1L));
        }

        @Override
        public void initializeState(FunctionInitializationContext context) {}
    }
}
