package io.stateprocessor.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * Runs queries of Flink SQL that end by themselves, each from a savepoint: {@code SqlJob REQUESTS ANSWERS}.
 *
 * <p>REQUESTS is a JSON list of {@code savepoint}, {@code backend}, {@code uids} (the format of operators' uids), {@code tables}
 * (statements) and {@code query}; ANSWERS gets the changes of each result.
 */
public final class SqlJob {

    public static void main(String[] arguments) throws Exception {
        KeptCluster.Environments.begin();
        List<JsonNode> answers = new ArrayList<>();
        try {
            NodeNumbers.restart();
            for (JsonNode request : Json.MAPPER.readTree(Path.of(arguments[0]).toFile())) {
                answers.add(Json.array(run(request)));
            }
        } finally {
            KeptCluster.Environments.end();
        }
        Files.writeString(Path.of(arguments[1]), Json.array(answers).toString());
    }

    private static List<JsonNode> run(JsonNode request) throws Exception {
        Configuration configuration = new Configuration();
        for (String option : List.of("execution.savepoint.path", "execution.state-recovery.path")) {
            configuration.setString(option, request.get("savepoint").asText());
        }
        for (String option : List.of("state.backend.type", "state.backend")) {
            configuration.setString(option, request.get("backend").asText());
        }
        configuration.setString("parallelism.default", "2");
        configuration.setString("pipeline.max-parallelism", "128");
        configuration.setString("table.generated-code.max-length", "1000000"); // splitting it takes longer than compiling it
        configuration.setString("table.exec.uid.generation", "ALWAYS");
        configuration.setString("table.exec.uid.format", request.get("uids").asText());
        TableEnvironment tables =
                TableEnvironment.create(EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build());
        request.get("tables").forEach(statement -> tables.executeSql(statement.asText()));
        List<JsonNode> changes = new ArrayList<>();
        try (CloseableIterator<Row> rows = tables.executeSql(request.get("query").asText()).collect()) {
            rows.forEachRemaining(row -> changes.add(Json.of(row)));
        }
        return changes;
    }

    private SqlJob() {}
}
