package io.stateprocessor.interop;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.json.JsonWriteFeature;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.transformations.PhysicalTransformation;

/**
 * Restores snapshots and writes down what Flink reads from them; then, if asked, goes on with them and takes further savepoints.
 *
 * <p>Arguments: a file with a JSON list of requests, and the file for the list of answers. A request has
 *
 * <ul>
 *   <li>{@code operators}: as in expected.json; entries are ignored, but for the keys of asynchronous states, which Flink can't list.
 *       In jobs that print or fill their states, an operator may have a {@code name} and {@code inputs}, positions of operators, and
 *       be {@code anonymous}: without its uid
 *   <li>{@code savepoint}: the directory to restore; without it the job starts with nothing
 *   <li>{@code backend}, {@code parallelism}, {@code max_parallelism}: of the job
 *   <li>{@code steps}: a list of {operator, state, key, value} to apply, where a MAP's value is [key, value] and the states "(event
 *       timer)" and "(processing timer)" set timers; then {@code watermark}
 *   <li>{@code savepoint_to}, {@code format}: where to write a savepoint after the steps, canonical or native, or (incremental) a
 *       checkpoint
 *   <li>{@code case}: the name of a {@link FixtureCase} whose operators go on in place of those that apply steps; its steps are {user,
 *       amount, time}
 *   <li>{@code fired}: how many timers and windows have to fire before the savepoint, which those of processing time do on their own
 *   <li>{@code settings}: configuration of the job and its restore
 *   <li>{@code printed}: false if no job is to print what it restored before the one that goes on; one that claims a snapshot may remove it
 *   <li>{@code filled}: the job puts the operators' {@code entries} into their states, in place of printing what it restored
 *   <li>{@code snapshots}: formats, as {@code format} has them, in which the job that printed or filled its states snapshots them
 *       below {@code snapshots_to}
 * </ul>
 *
 * An answer has {@code operators}, with the entries found before the steps, {@code plan}, the graph of this job as the REST
 * interface shows it, {@code snapshots}, by format, {@code fired}, what timers and windows did after
 * them, and {@code savepoint}, the one written; or {@code error}, the exceptions by which Flink refused.
 *
 * <p>A third argument is the directory for what the changelog backend writes.
 */
public final class RestoreAndPrint {

    private static final String JOB = "restored";

    public static void main(String[] arguments) throws Exception {
        JsonNode requests = Json.MAPPER.readTree(Path.of(arguments[0]).toFile());
        List<JsonNode> answers = new ArrayList<>();
        int slots = 4;
        boolean kept = arguments.length == 2;
        for (JsonNode request : requests) {
            slots = Math.max(slots, request.get("parallelism").asInt());
            kept &= request.path("settings").isEmpty(); // with a setting, jobs may delete files; a cluster that closes awaits it
        }
        Path changelogs = arguments.length > 2 ? Path.of(arguments[2]) : null;
        try (Cluster cluster = kept ? Cluster.kept(slots, 0) : new Cluster(slots, 0, changelogs)) {
            for (JsonNode request : requests) {
                answers.add(answer(cluster, request));
            }
        }
        Json.MAPPER.writer().with(JsonWriteFeature.ESCAPE_NON_ASCII).writeValue(Path.of(arguments[1]).toFile(), Json.array(answers));
    }

    private static JsonNode answer(Cluster cluster, JsonNode request) {
        ObjectNode answer = Json.object();
        List<OperatorSpec> operators = new ArrayList<>();
        try {
            request.get("operators").forEach(operator -> operators.add(OperatorSpec.fromJson(operator)));
            if (request.path("filled").asBoolean(false)) {
                fill(cluster, request, operators, answer);
            } else if (request.hasNonNull("savepoint") && request.path("printed").asBoolean(true)) {
                dump(cluster, request, operators, answer);
            }
            if (request.hasNonNull("savepoint_to")) {
                answer.put("savepoint", goOn(cluster, request, operators).toString());
                answer.set("fired", Json.array(Fired.sorted()));
            }
        } catch (Exception refused) {
            StringWriter trace = new StringWriter();
            refused.printStackTrace(new PrintWriter(trace));
            answer.put("error", chain(refused)).put("trace", trace.toString());
        }
        return answer;
    }

    private static String chain(Throwable thrown) {
        return Stream.iterate(thrown, Objects::nonNull, Throwable::getCause).map(Throwable::toString).collect(Collectors.joining("\n"));
    }

    private static void fill(Cluster cluster, JsonNode request, List<OperatorSpec> operators, ObjectNode answer) throws Exception {
        takeContents(request);
        open(cluster, request, operators, o -> o.asynchronous() ? AsynchronousState.fill(o) : new FillOperator(o), answer);
    }

    private static void takeContents(JsonNode request) {
        FillOperator.CONTENTS.clear();
        for (JsonNode operator : request.get("operators")) {
            List<JsonNode> entries = new ArrayList<>();
            operator.get("states").forEach(state -> entries.add(state.path("entries")));
            FillOperator.CONTENTS.put(OperatorSpec.fromJson(operator).id(), entries);
        }
    }

    /** Runs a job whose operators do all they do as they open, and takes the snapshots that are asked for. */
    private static void open(
            Cluster cluster,
            JsonNode request,
            List<OperatorSpec> operators,
            Function<OperatorSpec, OneInputStreamOperator<Integer, Void>> make,
            ObjectNode answer)
            throws Exception {
        StreamExecutionEnvironment env = environment(request);
        Steps.put(JOB, List.of());
        addOpened(env, request, operators, make);
        JobGraph graph = restoring(env, request);
        answer.put("plan", GraphHashes.plan(graph));
        JobID job = cluster.start(graph);
        try {
            ObjectNode snapshots = Json.object();
            for (JsonNode format : request.path("snapshots")) {
                Variant variant = new Variant(request.get("backend").asText(), format.asText());
                Path to = Path.of(request.get("snapshots_to").asText());
                Path path = variant.isCheckpoint() ? cluster.checkpoint(job) : cluster.savepoint(job, to, variant.savepointFormat());
                snapshots.put(format.asText(), path.toString());
            }
            answer.set("snapshots", snapshots);
            answer.set("parallelism", request.get("parallelism"));
        } finally {
            cluster.cancel(job);
        }
    }

    /** Adds the operators, each after its inputs: by default after the source. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void addOpened(
            StreamExecutionEnvironment env,
            JsonNode request,
            List<OperatorSpec> operators,
            Function<OperatorSpec, OneInputStreamOperator<Integer, Void>> make) {
        boolean anonymous = false;
        for (JsonNode json : request.get("operators")) {
            anonymous |= json.path("anonymous").asBoolean(false);
        }
        DataStream<Integer> source =
                anonymous ? StepJob.anonymousSource(env, JOB) : StepJob.source(env, JOB, Long.MIN_VALUE);
        List<DataStream<Integer>> made = new ArrayList<>();
        for (int i = 0; i < operators.size(); i++) {
            OperatorSpec operator = operators.get(i);
            JsonNode json = request.get("operators").get(i);
            DataStream<Integer> input = source;
            for (int at = 0; at < json.path("inputs").size(); at++) {
                DataStream<Integer> one = made.get(json.get("inputs").get(at).asInt());
                input = at == 0 ? one : input.union(one);
            }
            DataStream<Integer> keyed =
                    operator.keyType() == null ? input : input.keyBy(index -> null, Labels.type(operator.keyType()));
            SingleOutputStreamOperator<Integer> opened =
                    keyed.transform("opened", Types.INT, (OneInputStreamOperator) make.apply(operator));
            if (!json.path("anonymous").asBoolean(false)) {
                StepJob.identify(opened, operator);
            }
            if (json.hasNonNull("name")) {
                opened.name(json.get("name").asText());
            }
            if (json.path("non_parallel").asBoolean(false)) {
                opened.forceNonParallel();
                ((PhysicalTransformation<?>) opened.getTransformation()).setChainingStrategy(ChainingStrategy.ALWAYS);
            }
            if (json.hasNonNull("max_parallelism")) {
                opened.setMaxParallelism(json.get("max_parallelism").asInt());
            }
            made.add(opened);
        }
    }

    private static void dump(Cluster cluster, JsonNode request, List<OperatorSpec> operators, ObjectNode answer) throws Exception {
        DumpOperator.ENTRIES.clear();
        takeContents(request);
        open(cluster, request, operators, o -> o.asynchronous() ? AsynchronousState.dump(o) : new DumpOperator(o), answer);
        List<JsonNode> answers = new ArrayList<>();
        for (OperatorSpec operator : operators) {
            List<JsonNode> states = new ArrayList<>();
            for (int i = 0; i < operator.states().size(); i++) {
                StateSpec spec = operator.states().get(i);
                states.add(spec.toJson(operator.keyType()).set("entries", Json.array(entries(operator, i, spec.kind()))));
            }
            ObjectNode json = Json.object().put("uid", operator.uid()).put("key_type", operator.keyType());
            if (operator.uid() == null) {
                json.put("uid_hash", operator.uidHash());
            }
            if (operator.asynchronous()) {
                json.put("asynchronous", true);
            }
            answers.add(json.set("states", Json.array(states)));
        }
        answer.set("operators", Json.array(answers));
    }

    /** The entries that the subtasks found, sorted; of what every subtask has a copy, one copy. */
    private static List<JsonNode> entries(OperatorSpec operator, int position, StateSpec.Kind kind) {
        Map<Integer, List<JsonNode>> bySubtask = new TreeMap<>();
        for (DumpOperator.Entry entry : DumpOperator.ENTRIES) {
            if (entry.operator().equals(operator.id()) && entry.state() == position) {
                bySubtask.computeIfAbsent(entry.subtask(), subtask -> new ArrayList<>()).add(entry.json());
            }
        }
        if (kind == StateSpec.Kind.UNION_LIST || kind == StateSpec.Kind.BROADCAST) {
            List<List<JsonNode>> copies = bySubtask.values().stream().map(copy -> Json.sorted(copy.stream())).distinct().toList();
            if (copies.size() > 1) {
                throw new IllegalStateException("the subtasks' copies of state " + position + " of " + operator.id() + " differ: " + copies);
            }
            return copies.isEmpty() ? List.of() : copies.get(0);
        }
        return Json.sorted(bySubtask.values().stream().flatMap(List::stream));
    }

    private static Path goOn(Cluster cluster, JsonNode request, List<OperatorSpec> operators) throws Exception {
        StreamExecutionEnvironment env = environment(request);
        Variant variant = new Variant(request.get("backend").asText(), request.path("format").asText("canonical"));
        Fired.clear();
        long watermark = request.path("watermark").asLong(Long.MIN_VALUE);
        if (request.hasNonNull("case")) {
            FixtureCase fixture = FixtureCase.named(request.get("case").asText());
            Steps.put(fixture.name(), events(request.path("steps")));
            fixture.build(StepJob.source(env, fixture.name(), watermark));
        } else {
            Steps.put(JOB, steps(request.path("steps"), operators));
            StepJob.addOperators(StepJob.source(env, JOB, watermark), JOB, operators);
        }
        JobID job = cluster.start(restoring(env, request));
        try {
            IdleSource.awaitEmitted();
            Fired.await(request.path("fired").asInt(0));
            Path target = Path.of(request.get("savepoint_to").asText());
            Path written =
                    variant.isCheckpoint() ? cluster.checkpoint(job) : cluster.savepoint(job, target, variant.savepointFormat());
            cluster.cancel(job);
            return written;
        } catch (Exception failed) {
            cluster.end(job, failed);
            throw failed;
        }
    }

    private static List<Step> events(JsonNode json) {
        List<Step> steps = new ArrayList<>();
        for (JsonNode event : json) {
            String user = event.get("user").asText();
            steps.add(new Step(null, null, user, new Event(user, event.get("amount").asLong(), event.get("time").asLong())));
        }
        return steps;
    }

    private static List<Step> steps(JsonNode json, List<OperatorSpec> operators) {
        List<Step> steps = new ArrayList<>();
        for (JsonNode step : json) {
            String id = step.get("operator").asText();
            OperatorSpec operator = operators.stream().filter(o -> o.id().equals(id)).findFirst().orElseThrow();
            String state = step.get("state").asText();
            Object key = operator.keyType() == null ? null : Values.fromJson(Labels.type(operator.keyType()), step.get("key"));
            steps.add(new Step(id, state, key, value(operator, state, step.get("value"))));
        }
        return steps;
    }

    private static Object value(OperatorSpec operator, String state, JsonNode json) {
        if (json == null || json.isNull()) {
            return null;
        } else if (state.equals(Model.EVENT_TIMER) || state.equals(Model.PROCESSING_TIMER)) {
            return json.asLong();
        }
        StateSpec spec = operator.state(state);
        return switch (spec.kind()) {
            case AGGREGATING -> json.asLong(); // what is added, not the accumulator
            case MAP, BROADCAST -> new java.util.AbstractMap.SimpleEntry<>(
                    Values.fromJson(Labels.type(spec.mapKeyType()), json.get(0)),
                    Values.fromJson(Labels.type(spec.valueType()), json.get(1)));
            default -> Values.fromJson(Labels.type(spec.valueType()), json);
        };
    }

    private static StreamExecutionEnvironment environment(JsonNode request) throws Exception {
        boolean checkpoint = request.path("snapshots").toString().contains("incremental");
        String format = checkpoint ? "incremental" : request.path("format").asText("canonical");
        Variant variant = new Variant(request.get("backend").asText(), format);
        String to = checkpoint ? "snapshots_to" : "savepoint_to";
        Path checkpoints = variant.isCheckpoint() ? Path.of(request.get(to).asText()) : Files.createTempDirectory("checkpoints");
        Configuration configuration = variant.configuration(checkpoints.toUri().toString());
        configuration.addAll(settings(request));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        if (variant.isCheckpoint()) {
            env.enableCheckpointing(24 * 60 * 60 * 1000L); // taken by hand
        }
        env.setParallelism(request.get("parallelism").asInt());
        env.setMaxParallelism(request.get("max_parallelism").asInt());
        return env;
    }

    private static Configuration settings(JsonNode request) {
        Configuration settings = new Configuration();
        request.path("settings").fields().forEachRemaining(setting -> settings.setString(setting.getKey(), setting.getValue().asText()));
        return settings;
    }

    private static JobGraph restoring(StreamExecutionEnvironment env, JsonNode request) {
        JobGraph graph = env.getStreamGraph().getJobGraph();
        if (request.hasNonNull("savepoint")) {
            String path = Path.of(request.get("savepoint").asText()).toAbsolutePath().toUri().toString();
            Configuration recovery = settings(request);
            recovery.setString("execution.savepoint.path", path); // the option's name in Flink 1
            recovery.setString("execution.state-recovery.path", path);
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.fromConfiguration(recovery));
        }
        return graph;
    }

    private RestoreAndPrint() {}
}
