package io.stateprocessor.interop;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A job that goes on from its snapshot with another parallelism. Variants begin with the two, {@code 2to3-}; the first job's snapshot is
 * kept beside the second's, with {@code -before}, or in the same folder where the second claimed it.
 */
final class RescaledCase extends FixtureCase {

    private static final int KEYS = 60;

    private static final List<OperatorSpec> OPERATORS =
            List.of(
                    new OperatorSpec(
                            "rescaled-keyed",
                            "STRING",
                            StateSpec.of(StateSpec.Kind.VALUE, "count", "LONG"),
                            StateSpec.of(StateSpec.Kind.LIST, "history", "STRING"),
                            StateSpec.of(StateSpec.Kind.VALUE, "profile", "POJO<fixtures.Simple>"),
                            StateSpec.timers(StateSpec.Kind.EVENT_TIMER)),
                    new OperatorSpec(
                            "rescaled-long",
                            "LONG",
                            StateSpec.of(StateSpec.Kind.VALUE, "value", "STRING"),
                            StateSpec.map(StateSpec.Kind.MAP, "map", "STRING", "LONG")),
                    new OperatorSpec(
                            "rescaled-lists",
                            null,
                            StateSpec.of(StateSpec.Kind.OPERATOR_LIST, "split", "STRING"),
                            StateSpec.map(StateSpec.Kind.BROADCAST, "rules", "STRING", "LONG")));

    private final String name;
    private final List<OperatorSpec> operators;

    RescaledCase() {
        name = "rescaled";
        operators = OPERATORS;
    }

    private RescaledCase(String name, List<OperatorSpec> operators) {
        this.name = name;
        this.operators = operators;
    }

    /** The same with keyed state in the asynchronous API. */
    static RescaledCase asynchronous() {
        return new RescaledCase(
                "rescaled-asynchronous",
                OPERATORS.stream().map(operator -> operator.keyType() == null ? operator : operator.inAsynchronousState()).toList());
    }

    @Override
    String name() {
        return name;
    }

    @Override
    List<OperatorSpec> operators() {
        return operators;
    }

    @Override
    List<Step> steps() {
        return steps(0, KEYS);
    }

    /** Steps of the keys in a range; those of the second job overlap with those of the first. */
    private static List<Step> steps(int from, int to) {
        List<Step> steps = new ArrayList<>();
        for (int i = from; i < to; i++) {
            steps.add(new Step("rescaled-keyed", "count", "key-" + i, Samples.number(i) + from));
            steps.add(new Step("rescaled-keyed", "history", "key-" + i, "from " + from));
            steps.add(new Step("rescaled-keyed", "profile", "key-" + i, Samples.simple(i + from)));
            steps.add(new Step("rescaled-keyed", Model.EVENT_TIMER, "key-" + i, START + i));
            steps.add(new Step("rescaled-long", "value", (long) i * i, Samples.text(i)));
            steps.add(new Step("rescaled-long", "map", (long) i * i, Map.entry("from " + from, (long) i)));
            steps.add(new Step("rescaled-lists", "split", null, "split " + i));
            steps.add(new Step("rescaled-lists", "rules", null, Map.entry("rule " + i, (long) from)));
        }
        return steps;
    }

    @Override
    long watermark() {
        return START - 1;
    }

    @Override
    void generate(Variant variant, Path directory, Path from) throws Exception {
        String[] scales = variant.text().split("-")[0].split("to");
        int before = Integer.parseInt(scales[0]);
        int after = Integer.parseInt(scales[1]);
        String rest = variant.text().substring(variant.text().indexOf('-') + 1).replace("claim-", "");
        Variant plain = Variant.parse(rest);
        boolean claimed = variant.has("claim");
        Path first = claimed ? directory : directory.resolveSibling(directory.getFileName() + "-before");
        Model model = expected(before);
        Path written = new FixtureRun(this, plain, before, first).run(steps(), model);
        List<Step> later = steps(KEYS / 2, KEYS + KEYS / 2);
        Model both = expected(after);
        apply(later, both);
        new FixtureRun(this, plain, after, directory).restoring(written, claimed).run(later, both);
    }

    @Override
    void describe(
            org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode expected, Model model, int parallelism)
            throws Exception {
        super.describe(expected, model, parallelism);
        for (var operator : expected.get("operators")) { // restored lists are dealt out in Flink's order
            operator.get("states").forEach(state -> ((org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode) state).remove("entries_per_subtask"));
        }
    }
}
