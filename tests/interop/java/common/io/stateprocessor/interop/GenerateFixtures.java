package io.stateprocessor.interop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.StreamSupport;
import org.apache.flink.api.common.JobID;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Writes snapshots and what they hold.
 *
 * <p>Arguments: the directory to write to, then one CASE/VARIANT each. Makes CASE-VARIANT/savepoint and CASE-VARIANT/expected.json.
 */
public final class GenerateFixtures {

    private static final int PARALLELISM = 2;
    private static final int MAX_PARALLELISM = 128;

    /** The sizes up to which Flink keeps state inside _metadata: all in files of their own, or its default. */
    private static final int NOTHING_INLINE = 0;

    private static final int DEFAULT_INLINE = 20 * 1024;

    public static void main(String[] arguments) throws Exception {
        Path output = Path.of(arguments[0]).toAbsolutePath();
        for (String wanted : List.of(arguments).subList(1, arguments.length)) {
            String[] parts = wanted.split("/");
            FixtureCase fixture = FixtureCase.named(parts[0]);
            try (Cluster cluster = new Cluster(PARALLELISM, fixture.name().equals("orders") ? NOTHING_INLINE : DEFAULT_INLINE)) {
                generate(cluster, fixture, Variant.parse(parts[1]), output.resolve(parts[0] + "-" + parts[1]));
            }
        }
    }

    private static void generate(Cluster cluster, FixtureCase fixture, Variant variant, Path directory) throws Exception {
        Path savepoint = Files.createDirectories(directory.resolve("savepoint"));
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(variant.configuration(savepoint.toUri().toString()));
        env.setParallelism(PARALLELISM);
        env.setMaxParallelism(MAX_PARALLELISM);
        if (variant.isCheckpoint()) {
            env.enableCheckpointing(24 * 60 * 60 * 1000L); // taken by hand
        }
        Steps.put(fixture.name(), fixture.steps());
        fixture.build(StepJob.source(env, fixture.name(), fixture.watermark()));
        JobGraph graph = env.getStreamGraph().getJobGraph();

        long begin = System.currentTimeMillis();
        JobID job = cluster.start(graph);
        IdleSource.awaitEmitted();
        Path written;
        if (variant.isCheckpoint()) {
            written = cluster.checkpoint(job);
        } else {
            written = cluster.savepoint(job, savepoint, variant.savepointFormat());
        }
        ObjectNode expected = describe(fixture, variant, graph);
        expected.put("checkpoint_id", cluster.lastCheckpointId(job));
        expected.set("written_between_ms", Json.of(List.of(begin, System.currentTimeMillis())));
        cluster.cancel(job);
        if (!variant.isCheckpoint()) {
            written = unwrap(written, savepoint);
        }
        expected.put("snapshot_dir", directory.relativize(written).toString());
        List<JsonNode> operators = new ArrayList<>();
        Model model = fixture.expected(PARALLELISM);
        fixture.operators().forEach(operator -> operators.add(model.toJson(operator)));
        expected.set("operators", Json.array(operators));
        Files.writeString(directory.resolve("expected.json"), expected.toString());
    }

    private static ObjectNode describe(FixtureCase fixture, Variant variant, JobGraph graph) {
        ObjectNode json = Json.object().put("case", fixture.name());
        json.put("flink_version", EnvironmentInformation.getVersion());
        json.put("backend", variant.backend());
        json.put("format", variant.isCheckpoint() ? "checkpoint" : variant.format());
        json.put("variant", variant.backend() + "-" + variant.format());
        json.put("parallelism", PARALLELISM).put("max_parallelism", MAX_PARALLELISM).put("watermark", fixture.watermark());
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

    private GenerateFixtures() {}
}
