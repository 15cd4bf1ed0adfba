package io.stateprocessor.interop;

import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * POJOs of a class that changes: which version of {@code fixtures.evo.Profile} it is depends on the class path. Versions but the first
 * go on from its snapshot.
 */
final class EvolutionCase extends FixtureCase {

    private static final int KEYS = 24;
    private static final String CLASS = "fixtures.evo.Profile";
    private static final String PROFILE = "POJO<" + CLASS + ">";

    private final int version;

    EvolutionCase(int version) {
        this.version = version;
    }

    @Override
    String name() {
        return version == 3 ? "evolution-v3-incompatible" : "evolution-v" + version;
    }

    @Override
    List<OperatorSpec> operators() {
        return List.of(
                new OperatorSpec(
                        "profiles",
                        "STRING",
                        StateSpec.of(StateSpec.Kind.VALUE, "profile", PROFILE),
                        StateSpec.of(StateSpec.Kind.LIST, "profiles", PROFILE),
                        StateSpec.map(StateSpec.Kind.MAP, "by-name", "STRING", PROFILE),
                        StateSpec.of(StateSpec.Kind.VALUE, "plain", "LONG")));
    }

    /** The i-th value; {@code d}, which only the second version has, is what the second job gives it. */
    private static Object profile(int i, long d) {
        try {
            Object profile = Class.forName(CLASS).getConstructor().newInstance();
            for (Field field : profile.getClass().getFields()) {
                switch (field.getName()) {
                    case "a" -> field.set(profile, field.getType() == int.class ? (Object) (3 * i) : "a" + i);
                    case "b" -> field.set(profile, i % 7 == 6 ? null : "b-" + i);
                    case "c" -> field.set(profile, i / 4.0);
                    default -> field.set(profile, d);
                }
            }
            return profile;
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static List<Step> steps(int from, int to, long d) {
        List<Step> steps = new ArrayList<>();
        for (int i = from; i < to; i++) {
            String key = "key-" + i;
            steps.add(new Step("profiles", "profile", key, profile(i, d)));
            steps.add(new Step("profiles", "profiles", key, profile(i + 1, d)));
            steps.add(new Step("profiles", "by-name", key, Map.entry("at " + d, profile(i + 2, d))));
            steps.add(new Step("profiles", "plain", key, d + i));
        }
        return steps;
    }

    @Override
    List<Step> steps() {
        return steps(0, KEYS, 0);
    }

    /** Values of old keys, and of new ones. */
    private static List<Step> later() {
        return steps(KEYS - 6, KEYS + 3, 10_000_000_000L);
    }

    @Override
    long watermark() {
        return START;
    }

    @Override
    void generate(Variant variant, Path directory, Path from) throws Exception {
        FixtureRun run = new FixtureRun(this, variant, variant.parallelism(), directory);
        Model model = expected(variant.parallelism());
        if (version == 1) {
            run.run(steps(), model);
        } else if (version == 2) {
            apply(later(), model);
            run.restoring(from, false).run(later(), model);
        } else {
            refused(run.restoring(from, false), variant, directory);
        }
    }

    private void refused(FixtureRun run, Variant variant, Path directory) throws Exception {
        try {
            run.run(List.of(), new Model(variant.parallelism()));
        } catch (Exception refusal) {
            ObjectNode expected = Json.object().put("case", name()).put("flink_version", EnvironmentInformation.getVersion());
            expected.put("backend", variant.backend()).put("format", variant.format()).put("variant", variant.text());
            expected.put("restore_check", false);
            expected.set("restore_error", Json.of(Stream.iterate((Throwable) refusal, Objects::nonNull, Throwable::getCause).map(Throwable::toString).toList()));
            expected.set("operators", Json.array(List.of()));
            Files.walk(directory.resolve("savepoint")).sorted(java.util.Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
            Files.writeString(directory.resolve("expected.json"), expected.toString());
            return;
        }
        throw new IllegalStateException("Flink restored an incompatible type");
    }
}
