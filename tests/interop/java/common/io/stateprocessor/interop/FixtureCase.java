package io.stateprocessor.interop;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.JobID;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A job and its input. By default every operator is a {@link KeyedFunction} or a {@link ListsFunction} that applies the steps that
 * name it; what its states hold after all steps is worked out by {@link Model} on plain collections.
 */
abstract class FixtureCase {

    /** Midnight of 2024-01-01, where the cases' event time begins. */
    static final long START = 1_704_067_200_000L;

    private static final Map<String, FixtureCase> ALL =
            Map.ofEntries(
                    Map.entry("orders", new OrdersCase()),
                    Map.entry("types", new TypesCase()),
                    Map.entry("windows", new WindowsCase("windows", false)),
                    Map.entry("asynchronous-windows", new WindowsCase("asynchronous-windows", true)),
                    Map.entry("baskets", new BasketsCase()),
                    Map.entry("keyed-all", new KeyedAllCase()),
                    Map.entry("operator-state", new OperatorStateCase()),
                    Map.entry("small", new SmallCase("small", SmallCase.COUNTERS)),
                    Map.entry("empty-state", new SmallCase("empty-state", SmallCase.NOTHING)),
                    Map.entry("unicode-uid", new SmallCase("unicode-uid", SmallCase.UNICODE)),
                    Map.entry("no-uid", new SmallCase("no-uid", SmallCase.WITHOUT_UID)),
                    Map.entry("big-list", new SmallCase("big-list", SmallCase.BIG_LIST)),
                    Map.entry("rescaled", new RescaledCase()),
                    Map.entry("rescaled-asynchronous", RescaledCase.asynchronous()),
                    Map.entry("asynchronous", new AsynchronousCase()),
                    Map.entry("windows-kinds", new WindowKindsCase()),
                    Map.entry("in-flight", new InFlightCase()),
                    Map.entry("finished-tasks", new FinishedTasksCase()),
                    Map.entry("evolution-v1", new EvolutionCase(1)),
                    Map.entry("evolution-v2", new EvolutionCase(2)),
                    Map.entry("evolution-v3-incompatible", new EvolutionCase(3)));

    /** Cases that need libraries on the class path, by the beginning of their names. */
    private static final Map<String, String> WITH_LIBRARIES = Map.of("sql-", "SqlCase", "cep", "CepCase");

    static FixtureCase named(String name) {
        FixtureCase found = ALL.get(name);
        for (Map.Entry<String, String> library : WITH_LIBRARIES.entrySet()) {
            if (name.startsWith(library.getKey())) {
                found = withLibrary(library.getValue(), name);
            }
        }
        if (found == null) {
            throw new IllegalArgumentException("no case is called " + name + "; there are " + ALL.keySet());
        }
        return found;
    }

    private static FixtureCase withLibrary(String className, String name) {
        try {
            return (FixtureCase) Class.forName(FixtureCase.class.getPackageName() + "." + className).getConstructor(String.class).newInstance(name);
        } catch (ReflectiveOperationException e) {
            throw new IllegalArgumentException("no case is called " + name, e);
        }
    }

    abstract String name();

    abstract List<OperatorSpec> operators();

    /** The input, the same on every call. */
    abstract List<Step> steps();

    /** The watermark after the last step. */
    abstract long watermark();

    /** Runs the job and takes a snapshot of it. */
    void generate(Variant variant, Path directory) throws Exception {
        generate(variant, directory, null);
    }

    /** The same, from a snapshot of another case where the case is such a one. */
    void generate(Variant variant, Path directory, Path from) throws Exception {
        new FixtureRun(this, variant, variant.parallelism(), directory).run(steps(), expected(variant.parallelism()));
    }

    /** The size up to which Flink keeps state inside _metadata. */
    int inlineBytes(Variant variant) {
        return variant.inlineBytes();
    }

    /** What the job sets beyond its variant. */
    void configure(StreamExecutionEnvironment env) {}

    /** Waits until the snapshot can be taken. */
    void awaitInput(Cluster cluster, JobID job) throws Exception {
        IdleSource.awaitEmitted();
    }

    /** Adds to expected.json what the states hold. */
    void describe(ObjectNode expected, Model model, int parallelism) throws Exception {
        List<JsonNode> described = new ArrayList<>();
        for (OperatorSpec operator : operators()) {
            ObjectNode json = model.toJson(operator);
            if (operator.uid() == null) { // Flink makes an id of the operator's place in the job
                expected.get("vertices").forEach(vertex -> {
                    if (vertex.get("name").asText().equals(operator.id())) {
                        json.put("uid_hash", vertex.get("id").asText());
                    }
                });
            }
            described.add(json);
        }
        expected.set("operators", Json.array(described));
    }

    /** Adds the operators behind the source of steps. */
    void build(DataStream<Integer> source) {
        StepJob.addOperators(source, name(), operators());
    }

    /** The uids of the operators that keep no state. */
    List<String> statelessOperators() {
        List<String> uids = new ArrayList<>(List.of(StepJob.SOURCE));
        operators().forEach(operator -> uids.add(StepJob.filterOf(operator)));
        return uids;
    }

    /** What the states hold after all steps and the watermark. */
    Model expected(int parallelism) {
        Model model = new Model(parallelism);
        apply(steps(), model);
        return model;
    }

    final void apply(List<Step> steps, Model model) {
        for (int index = 0; index < steps.size(); index++) {
            String id = steps.get(index).operator();
            OperatorSpec operator = operators().stream().filter(o -> o.id().equals(id)).findFirst().orElseThrow();
            model.apply(operator, index, steps.get(index));
        }
        model.advanceTo(watermark());
    }
}
