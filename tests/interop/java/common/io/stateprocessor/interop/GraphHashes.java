package io.stateprocessor.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.OperatorIDPair;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.runtime.jobgraph.jsonplan.JsonPlanGenerator;
import org.apache.flink.runtime.rest.util.RestMapperUtils;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Prints graphs of jobs: as {@code getExecutionPlan()} and the REST interface show them, and the ids of their operators.
 *
 * <p>Arguments: a file with a JSON list of jobs, and the file for the answers. A job is a list of operators: {name, inputs (positions),
 * keyed, parallelism, uid, alone (starts a task)}. An operator without inputs is a source.
 */
public final class GraphHashes {

    public static void main(String[] arguments) throws Exception {
        List<JsonNode> answers = new ArrayList<>();
        for (JsonNode job : Json.MAPPER.readTree(Path.of(arguments[0]).toFile())) {
            answers.add(answer(job));
        }
        Files.writeString(Path.of(arguments[1]), Json.MAPPER.writeValueAsString(answers));
    }

    private static JsonNode answer(JsonNode job) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(1);
        List<SingleOutputStreamOperator<Long>> made = new ArrayList<>();
        for (JsonNode operator : job) {
            made.add(identified(operator, made(env, operator, made)));
        }
        ObjectNode answer = Json.object().put("execution_plan", env.getExecutionPlan());
        JobGraph graph = env.getStreamGraph().getJobGraph();
        answer.put("rest", plan(graph));
        List<JsonNode> ids = new ArrayList<>();
        for (JobVertex vertex : graph.getVertices()) {
            for (OperatorIDPair pair : vertex.getOperatorIDs()) {
                ids.add(Json.MAPPER.valueToTree(pair.getGeneratedOperatorID().toString()));
            }
        }
        return answer.set("ids", Json.array(ids));
    }

    /** The graph of a job as the REST interface shows it. */
    static String plan(JobGraph graph) throws Exception {
        Object plan = JsonPlanGenerator.generatePlan(graph); // text in Flink 1
        return plan instanceof String text ? text : RestMapperUtils.getStrictObjectMapper().writeValueAsString(plan);
    }

    private static SingleOutputStreamOperator<Long> made(
            StreamExecutionEnvironment env, JsonNode operator, List<SingleOutputStreamOperator<Long>> made) {
        JsonNode inputs = operator.path("inputs");
        if (inputs.isEmpty()) {
            return env.fromSequence(1, 9);
        }
        DataStream<Long> input = made.get(inputs.get(0).asInt());
        for (int i = 1; i < inputs.size(); i++) {
            input = input.union(made.get(inputs.get(i).asInt()));
        }
        return operator.path("keyed").asBoolean(false)
                ? input.keyBy(value -> value).map(value -> value).returns(Types.LONG)
                : input.map(value -> value).returns(Types.LONG);
    }

    private static SingleOutputStreamOperator<Long> identified(JsonNode operator, SingleOutputStreamOperator<Long> made) {
        SingleOutputStreamOperator<Long> found = made.name(operator.get("name").asText());
        if (operator.hasNonNull("parallelism")) {
            found = found.setParallelism(operator.get("parallelism").asInt());
        }
        if (operator.hasNonNull("uid")) {
            found = found.uid(operator.get("uid").asText());
        }
        return operator.path("alone").asBoolean(false) ? found.startNewChain() : found;
    }

    private GraphHashes() {}
}
