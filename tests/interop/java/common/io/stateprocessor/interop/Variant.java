package io.stateprocessor.interop;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;

/**
 * A way to take a snapshot, BACKEND-FORMAT with words between and behind: canonical and native are savepoints, incremental, full and
 * checkpoint are checkpoints; the words are those of {@link #SETTINGS}, {@code files} and {@code inline} (where state lies), {@code p1},
 * {@code p3} (parallelism), {@code maxp512} (max parallelism).
 */
record Variant(String text, String backend, String format) {

    private static final List<String> FORMATS = List.of("canonical", "native", "incremental", "full", "checkpoint");

    /** What words set, under the names of Flink 1.x and 2.x. */
    private static final Map<String, List<String>> SETTINGS =
            Map.of(
                    "compressed", List.of("execution.checkpointing.snapshot-compression=true"),
                    "heap-timers", List.of("state.backend.rocksdb.timer-service.factory=HEAP"),
                    "changelog",
                            List.of(
                                    "state.backend.changelog.enabled=true",
                                    "state.changelog.enabled=true",
                                    "state.backend.changelog.periodic-materialize.interval=1 d",
                                    "state.changelog.periodic-materialize.interval=1 d"),
                    "materialized",
                            List.of(
                                    "state.backend.changelog.periodic-materialize.interval=200 ms",
                                    "state.changelog.periodic-materialize.interval=200 ms"),
                    "filemerging",
                            List.of(
                                    "state.checkpoints.file-merging.enabled=true",
                                    "execution.checkpointing.file-merging.enabled=true"),
                    "disaggregated", List.of("state.backend.forst.sync.enforce-local=false"), // synchronous state too, where checkpoints are
                    "asynchronous", List.of("table.exec.async-state.enabled=true"), // of queries
                    "local", List.of("state.backend.forst.primary-dir=local"),
                    "unaligned",
                            List.of("execution.checkpointing.unaligned=true", "execution.checkpointing.unaligned.enabled=true"));

    private static final int ALL_INLINE = 1024 * 1024;
    private static final int DEFAULT_INLINE = 20 * 1024;

    Variant(String backend, String format) {
        this(backend + "-" + format, backend, format);
    }

    static Variant parse(String text) {
        List<String> parts = List.of(text.split("-"));
        return new Variant(text, parts.get(0), FORMATS.stream().filter(parts::contains).findFirst().orElse("checkpoint"));
    }

    boolean has(String word) {
        return ("-" + text + "-").contains("-" + word + "-");
    }

    boolean isCheckpoint() {
        return !format.equals("canonical") && !format.equals("native");
    }

    SavepointFormatType savepointFormat() {
        return SavepointFormatType.valueOf(format.toUpperCase(Locale.ROOT));
    }

    int parallelism() {
        return number("p", 2);
    }

    int maxParallelism() {
        return number("maxp", 128);
    }

    /** The number behind one of the words. */
    private int number(String word, int otherwise) {
        for (String part : text.split("-")) {
            if (part.matches(word + "\\d+")) {
                return Integer.parseInt(part.substring(word.length()));
            }
        }
        return otherwise;
    }

    /** The size up to which Flink keeps state inside _metadata. */
    int inlineBytes() {
        return has("files") ? 0 : has("inline") ? ALL_INLINE : DEFAULT_INLINE;
    }

    /** What the job sets beyond the defaults. */
    Map<String, String> settings() {
        Map<String, String> settings = new LinkedHashMap<>();
        for (String word : List.of("compressed", "heap-timers", "changelog", "materialized", "filemerging", "unaligned", "disaggregated", "local", "asynchronous")) {
            if (has(word)) {
                SETTINGS.get(word).forEach(setting -> settings.put(setting.split("=")[0], setting.split("=")[1]));
            }
        }
        return settings;
    }

    /** The job's configuration; keys that Flink renamed are set under both names. */
    Configuration configuration(String checkpointUri) {
        boolean incremental = isCheckpoint() && !format.equals("full");
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", backend);
        settings.setString("state.backend.incremental", Boolean.toString(incremental));
        settings.setString("execution.checkpointing.incremental", Boolean.toString(incremental));
        settings.setString("state.checkpoints.dir", checkpointUri);
        settings.setString("execution.checkpointing.dir", checkpointUri);
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        settings.setString("restart-strategy.type", "none");
        settings.setString("restart-strategy", "none");
        settings().forEach(settings::setString);
        return settings;
    }
}
