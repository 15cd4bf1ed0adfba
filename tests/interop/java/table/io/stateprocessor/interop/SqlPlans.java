package io.stateprocessor.interop;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.PlanReference;
import org.apache.flink.table.api.TableEnvironment;

/** Runs compiled plans of queries that print their changes, from a savepoint or from nothing, and stops them with one. */
public final class SqlPlans {

    private static final long QUIET = 1500;
    private static final long TIMEOUT = 60_000;

    public static void main(String[] arguments) throws Exception {
        List<JsonNode> answers = new ArrayList<>();
        for (JsonNode request : Json.MAPPER.readTree(Path.of(arguments[0]).toFile())) {
            try {
                answers.add(run(request));
            } catch (Exception error) {
                StringWriter trace = new StringWriter();
                error.printStackTrace(new PrintWriter(trace));
                answers.add(Json.object().put("error", trace.toString()));
            }
        }
        Files.writeString(Path.of(arguments[1]), Json.array(answers).toString());
    }

    private static JsonNode run(JsonNode request) throws Exception {
        Configuration configuration = new Configuration();
        if (request.has("from")) {
            for (String option : List.of("execution.savepoint.path", "execution.state-recovery.path")) {
                configuration.setString(option, request.get("from").asText());
            }
        }
        for (String option : List.of("state.backend.type", "state.backend")) {
            configuration.setString(option, request.get("backend").asText());
        }
        configuration.setString("parallelism.default", "2");
        configuration.setString("pipeline.max-parallelism", "128");
        configuration.setString("table.local-time-zone", "UTC");
        configuration.setString("table.plan.compile.catalog-objects", "SCHEMA");
        configuration.setString("table.plan.restore.catalog-objects", "IDENTIFIER");
        request.get("settings").fields().forEachRemaining(s -> configuration.setString(s.getKey(), s.getValue().asText()));
        TableEnvironment tables =
                TableEnvironment.create(EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build());
        request.get("tables").forEach(statement -> tables.executeSql(statement.asText()));
        Path plan = Path.of(request.get("plan").asText());
        if (!Files.exists(plan)) {
            tables.executeSql("COMPILE PLAN '" + plan + "' FOR " + request.get("insert").asText());
        }
        if (!request.has("to")) {
            return Json.object();
        }
        PrintStream console = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        ObjectNode answer = Json.object();
        try {
            JobClient job = tables.loadPlan(PlanReference.fromFile(plan.toString())).execute().getJobClient().orElseThrow();
            try {
                waitForSilence(job, printed, request.get("lines").asInt());
                SavepointFormatType format = SavepointFormatType.valueOf(request.path("format").asText("canonical").toUpperCase(Locale.ROOT));
                String savepoint =
                        job.stopWithSavepoint(false, request.get("to").asText(), format).get(TIMEOUT, TimeUnit.MILLISECONDS);
                answer.put("savepoint", savepoint);
            } catch (Exception error) {
                job.cancel();
                throw error;
            }
        } finally {
            System.setOut(console);
        }
        List<JsonNode> changes = new ArrayList<>();
        lines(printed).forEach(line -> changes.add(Json.of(line.replaceFirst("^.*?(?=[+-][IUD]\\[)", ""))));
        answer.set("changes", Json.array(changes));
        return answer;
    }

    private static List<String> lines(ByteArrayOutputStream printed) {
        return printed.toString(StandardCharsets.UTF_8).lines().filter(line -> line.matches(".*[+-][IUD]\\[.*")).toList();
    }

    /** Waits until at least so many changes are there, and no more come. */
    private static void waitForSilence(JobClient job, ByteArrayOutputStream printed, int wanted) throws Exception {
        long end = System.currentTimeMillis() + TIMEOUT;
        int before = -1;
        long since = System.currentTimeMillis();
        while (System.currentTimeMillis() < end) {
            if (job.getJobStatus().get().isTerminalState()) {
                job.getJobExecutionResult().get();
                throw new IllegalStateException("the job has ended");
            }
            int now = lines(printed).size();
            if (now != before) {
                before = now;
                since = System.currentTimeMillis();
            } else if (now >= wanted && System.currentTimeMillis() - since >= QUIET) {
                return;
            }
            Thread.sleep(50);
        }
        throw new IllegalStateException("of " + wanted + " changes only these have come: " + lines(printed));
    }

    private SqlPlans() {}
}
