package io.stateprocessor.interop;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterJobClient;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.PlanReference;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/** Runs queries that print their changes, as compiled plans or as text, from a savepoint or from nothing, and stops them with one. */
public final class SqlPlans {

    private static final long QUIET = 1500;
    private static final long TIMEOUT = 240_000;

    /** What all jobs print; lines begin with the name of the request. */
    private final ByteArrayOutputStream printed = new ByteArrayOutputStream();

    public static void main(String[] arguments) throws Exception {
        new SqlPlans().answer(Path.of(arguments[0]), Path.of(arguments[1]), Integer.parseInt(arguments[2]));
    }

    private void answer(Path asked, Path answered, int atOnce) throws Exception {
        KeptCluster.Environments.begin();
        NodeNumbers.restart();
        PrintStream console = System.out;
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        ExecutorService workers = Executors.newFixedThreadPool(atOnce);
        try {
            List<Future<JsonNode>> running = new ArrayList<>();
            for (JsonNode request : Json.MAPPER.readTree(asked.toFile())) {
                running.add(workers.submit(() -> answer(request)));
            }
            List<JsonNode> answers = new ArrayList<>();
            for (Future<JsonNode> answer : running) {
                answers.add(answer.get());
            }
            Files.writeString(answered, Json.array(answers).toString());
        } finally {
            workers.shutdownNow();
            System.setOut(console);
            KeptCluster.Environments.end();
        }
    }

    private JsonNode answer(JsonNode request) {
        try {
            return run(request);
        } catch (Exception error) {
            StringWriter trace = new StringWriter();
            error.printStackTrace(new PrintWriter(trace));
            return Json.object().put("error", trace.toString());
        }
    }

    private JsonNode run(JsonNode request) throws Exception {
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
        configuration.setString("table.generated-code.max-length", "1000000"); // splitting it takes longer than compiling it
        configuration.setString("table.local-time-zone", "UTC");
        configuration.setString("table.plan.compile.catalog-objects", "SCHEMA");
        configuration.setString("table.plan.restore.catalog-objects", "IDENTIFIER");
        request.get("settings").fields().forEachRemaining(s -> configuration.setString(s.getKey(), s.getValue().asText()));
        TableEnvironment tables =
                TableEnvironment.create(EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build());
        request.get("tables").forEach(statement -> tables.executeSql(statement.asText()));
        Path plan = Path.of(request.get("plan").asText());
        boolean isText = request.path("text").asBoolean();
        if (!isText && !Files.exists(plan)) {
            tables.executeSql("COMPILE PLAN '" + plan + "' FOR " + request.get("insert").asText());
        }
        if (!request.has("to")) {
            return Json.object();
        }
        String name = request.get("name").asText();
        ObjectNode answer = Json.object();
        TableResult submitted =
                isText
                        ? tables.executeSql(request.get("insert").asText())
                        : tables.loadPlan(PlanReference.fromFile(plan.toString())).execute();
        JobClient job = submitted.getJobClient().orElseThrow();
        try {
            Set<String> tasks = waitForTasks(job);
            waitForSilence(job, tasks, name, request.get("lines").asInt());
            answer.put("before", lines(name).size());
            SavepointFormatType format = SavepointFormatType.valueOf(request.path("format").asText("canonical").toUpperCase(Locale.ROOT));
            String savepoint =
                    job.stopWithSavepoint(request.path("drain").asBoolean(), request.get("to").asText(), format)
                            .get(TIMEOUT, TimeUnit.MILLISECONDS);
            answer.put("savepoint", savepoint);
        } catch (Exception error) {
            cancel(job, error);
            throw error;
        }
        List<JsonNode> changes = new ArrayList<>();
        lines(name).forEach(line -> changes.add(Json.of(line.replaceFirst("^.*?(?=[+-][IUD]\\[)", ""))));
        answer.set("changes", Json.array(changes));
        return answer;
    }

    /** Waits until all subtasks of a job run: one of them may print its changes while another one starts. Returns their names. */
    private static Set<String> waitForTasks(JobClient job) throws Exception {
        Field field = MiniClusterJobClient.class.getDeclaredField("miniCluster");
        field.setAccessible(true);
        MiniCluster cluster = (MiniCluster) field.get(job);
        long end = System.currentTimeMillis() + TIMEOUT;
        while (!Cluster.allRunning(cluster, job.getJobID())) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("the tasks did not all start in " + TIMEOUT + " ms");
            }
            Thread.sleep(200); // each look copies the graph in a thread that serves the other jobs, too
        }
        Set<String> names = new HashSet<>();
        cluster.getExecutionGraph(job.getJobID())
                .get(TIMEOUT, TimeUnit.MILLISECONDS)
                .getAllExecutionVertices()
                .forEach(vertex -> names.add(vertex.getTaskNameWithSubtaskIndex()));
        return names;
    }

    /** Cancels a job that may have ended already, which is why it failed. */
    private static void cancel(JobClient job, Exception error) {
        try {
            job.cancel();
        } catch (RuntimeException ended) {
            error.addSuppressed(ended);
        }
    }

    private List<String> lines(String name) {
        return printed.toString(StandardCharsets.UTF_8).lines().filter(line -> line.startsWith(name + ":") || line.startsWith(name + ">")).toList();
    }

    /**
     * Waits until at least so many changes are there, no more come, and all threads of the tasks wait for input.
     *
     * <p>On a busy machine, a task that has work may stand still for longer than QUIET: a thread that is ready to run is not silent.
     */
    private void waitForSilence(JobClient job, Set<String> tasks, String name, int wanted) throws Exception {
        long end = System.currentTimeMillis() + TIMEOUT;
        int before = -1;
        long since = System.currentTimeMillis();
        Set<Thread> readyBefore = new HashSet<>();
        CompletableFuture<JobExecutionResult> result = job.getJobExecutionResult();
        while (System.currentTimeMillis() < end) {
            if (result.isDone()) {
                result.get();
                throw new IllegalStateException("the job has ended");
            }
            int now = lines(name).size();
            Set<Thread> ready = ready(tasks);
            readyBefore.retainAll(ready);
            if (now != before || !readyBefore.isEmpty()) {
                before = now;
                since = System.currentTimeMillis();
            } else if (now >= wanted && System.currentTimeMillis() - since >= QUIET) {
                return;
            }
            readyBefore = ready;
            Thread.sleep(50);
        }
        throw new IllegalStateException("of " + wanted + " changes only these have come: " + lines(name));
    }

    /** The threads of tasks, and those that find and read files for them, that do not wait. Timers wake them for moments. */
    private static Set<Thread> ready(Set<String> tasks) {
        ThreadGroup all = Thread.currentThread().getThreadGroup();
        while (all.getParent() != null) {
            all = all.getParent();
        }
        Thread[] threads = new Thread[2 * all.activeCount()];
        Set<Thread> ready = new HashSet<>(Arrays.asList(threads).subList(0, all.enumerate(threads)));
        ready.removeIf(
                thread ->
                        thread.getState() != Thread.State.RUNNABLE && thread.getState() != Thread.State.BLOCKED
                                || !thread.getName().startsWith("SourceCoordinator-")
                                        && tasks.stream().noneMatch(thread.getName()::contains));
        return ready;
    }

    private SqlPlans() {}
}
