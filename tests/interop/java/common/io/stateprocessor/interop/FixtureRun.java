package io.stateprocessor.interop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.StreamSupport;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** One job of a case, from its start or from a snapshot, up to the snapshot that is taken of it. */
final class FixtureRun {

    private static final long DAY = 24 * 60 * 60 * 1000L;

    private final FixtureCase fixture;
    private final Variant variant;
    private final Path directory;
    private final int parallelism;
    private final Configuration recovery = new Configuration();

    /**
     * @param directory gets {@code expected.json} and the snapshot below {@code savepoint}
     */
    FixtureRun(FixtureCase fixture, Variant variant, int parallelism, Path directory) {
        this.fixture = fixture;
        this.variant = variant;
        this.directory = directory;
        this.parallelism = parallelism;
    }

    /** Has the job begin with a snapshot; claimed, its files become the job's own. */
    FixtureRun restoring(Path snapshot, boolean claimed) {
        String uri = snapshot.toAbsolutePath().toUri().toString();
        for (String option : List.of("execution.savepoint.path", "execution.state-recovery.path")) { // in Flink 1 and 2
            recovery.setString(option, uri);
        }
        for (String option : List.of("execution.savepoint-restore-mode", "execution.state-recovery.claim-mode")) {
            recovery.setString(option, claimed ? "CLAIM" : "NO_CLAIM");
        }
        return this;
    }

    /** Runs the job with some steps; what its states hold after them is what the model says. */
    Path run(List<Step> steps, Model model) throws Exception {
        Path savepoint = Files.createDirectories(directory.resolve("savepoint")).toRealPath();
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(variant.configuration(savepoint.toUri().toString()));
        env.setParallelism(parallelism);
        env.setMaxParallelism(variant.maxParallelism());
        if (variant.isCheckpoint()) {
            env.enableCheckpointing(DAY); // taken by hand
        }
        fixture.configure(env);
        Steps.put(fixture.name(), steps);
        fixture.build(StepJob.source(env, fixture.name(), fixture.watermark()));
        JobGraph graph = env.getStreamGraph().getJobGraph();
        if (!recovery.keySet().isEmpty()) {
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.fromConfiguration(recovery));
        }

        long begin = System.currentTimeMillis();
        try (Cluster cluster = new Cluster(4, fixture.inlineBytes(variant), Files.createDirectories(savepoint.resolve("dstl")))) {
            JobID job = cluster.start(graph);
            fixture.awaitInput(cluster, job);
            if (variant.has("materialized")) {
                cluster.checkpoint(job);
                Thread.sleep(3000); // for the changelog to become files of the backend
            }
            Path written = variant.isCheckpoint() ? cluster.checkpoint(job) : cluster.savepoint(job, savepoint, variant.savepointFormat());
            ObjectNode expected = describe(graph);
            expected.put("checkpoint_id", cluster.lastCheckpointId(job));
            expected.set("written_between_ms", Json.of(List.of(begin, System.currentTimeMillis())));
            cluster.cancel(job);
            if (!variant.isCheckpoint()) {
                written = unwrap(written, savepoint);
            }
            fixture.describe(expected, model, this.parallelism);
            deleteIfEmpty(savepoint.resolve("dstl"));
            expected.put("snapshot_dir", directory.toRealPath().relativize(written.toRealPath()).toString());
            Files.writeString(directory.resolve("expected.json"), expected.toString());
            return written;
        }
    }

    private ObjectNode describe(JobGraph graph) {
        ObjectNode json = Json.object().put("case", fixture.name());
        json.put("flink_version", EnvironmentInformation.getVersion());
        json.put("backend", variant.backend());
        json.put("format", variant.isCheckpoint() ? "checkpoint" : variant.format());
        json.put("variant", variant.text());
        json.put("parallelism", parallelism).put("max_parallelism", variant.maxParallelism()).put("watermark", fixture.watermark());
        ObjectNode settings = Json.object();
        variant.settings().forEach(settings::put);
        json.set("settings", settings);
        json.set("stateless_operators", Json.of(fixture.statelessOperators()));
        List<JsonNode> vertices = new ArrayList<>();
        graph.getVertices().forEach(vertex -> {
            ObjectNode node = Json.object().put("name", vertex.getName()).put("id", vertex.getID().toString());
            node.set("operator_ids", Json.of(vertex.getOperatorIDs().stream().map(ids -> ids.getGeneratedOperatorID().toString()).toList()));
            vertices.add(node);
        });
        json.set("vertices", Json.array(vertices));
        return json;
    }

    /** Flink makes a directory for each savepoint below the one it is given; moves the files up from there. */
    private static Path unwrap(Path written, Path target) throws IOException {
        try (var files = Files.newDirectoryStream(written)) {
            for (Path file : StreamSupport.stream(files.spliterator(), false).toList()) {
                Files.move(file, target.resolve(file.getFileName()));
            }
        }
        Files.delete(written);
        return target;
    }

    private static void deleteIfEmpty(Path folder) throws IOException {
        try (var files = Files.list(folder)) {
            if (files.findAny().isPresent()) {
                return;
            }
        }
        Files.delete(folder);
    }
}
