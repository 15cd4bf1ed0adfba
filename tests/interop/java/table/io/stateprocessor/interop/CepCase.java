package io.stateprocessor.interop;

import fixtures.Event;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.util.Collector;

/** A pattern of three events: some users are at its beginning, some in its middle, and all have an event that waits for the watermark. */
public final class CepCase extends FixtureCase {

    private static final int USERS = 12;
    private static final List<String> NOTES = List.of("a", "b", "c");

    public CepCase(String name) {}

    @Override
    String name() {
        return "cep";
    }

    @Override
    List<OperatorSpec> operators() {
        return List.of();
    }

    @Override
    List<String> statelessOperators() {
        return List.of(StepJob.SOURCE, "events", "matches");
    }

    @Override
    long watermark() {
        return START + 30_000;
    }

    private static Event event(int user, int number, long time) {
        Event event = new Event();
        event.user = "user-" + user;
        event.amount = 100L * user + number;
        event.note = NOTES.get(number % 3);
        event.time = time;
        return event;
    }

    /** How far a user has come in the pattern; 3 is through. */
    private static int progress(int user) {
        return user % 4;
    }

    private static Event seen(int user, int number) {
        return event(user, number, START + 1000L * number + user);
    }

    private static Event waiting(int user) {
        return event(user, 3, START + 40_000 + user);
    }

    @Override
    List<Step> steps() {
        List<Step> steps = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            for (int user = 0; user < USERS; user++) {
                if (number < progress(user)) {
                    steps.add(new Step(null, null, null, seen(user, number)));
                }
            }
        }
        for (int user = 0; user < USERS; user++) {
            steps.add(new Step(null, null, null, waiting(user)));
        }
        return steps;
    }

    @Override
    void build(DataStream<Integer> source) {
        DataStream<Event> events =
                source.map(index -> (Event) Steps.get("cep", index).value())
                        .returns(Event.class)
                        .setParallelism(1)
                        .uid("events")
                        .name("events");
        Pattern<Event, ?> pattern =
                Pattern.<Event>begin("first").where(noted("a")).followedBy("second").where(noted("b")).followedBy("third").where(noted("c"));
        CEP.pattern(events.keyBy(event -> event.user), pattern).process(new Match()).uid("cep").name("cep");
    }

    private static SimpleCondition<Event> noted(String note) {
        return SimpleCondition.of(event -> event.note.equals(note));
    }

    @Override
    Model expected(int parallelism) {
        return new Model(parallelism); // see describe
    }

    @Override
    void describe(ObjectNode expected, Model model, int parallelism) {
        List<JsonNode> entries = new ArrayList<>();
        for (int user = 0; user < USERS; user++) {
            List<JsonNode> partial = new ArrayList<>();
            for (int number = 0; number < progress(user) % 3; number++) {
                partial.add(Json.of(seen(user, number)));
            }
            ObjectNode value = Json.object();
            value.set("partial_match", Json.array(partial));
            value.set("waiting_for_watermark", Json.array(List.of(Json.of(waiting(user)))));
            entries.add(Json.object().put("key", "user-" + user).set("value", value));
        }
        ObjectNode state = Json.object().put("name", "logical content (element queue, NFA state, shared buffer)");
        state.set("entries", Json.array(entries));
        ObjectNode operator = Json.object().put("uid", "cep").put("key_type", "STRING");
        operator.set("states", Json.array(List.<JsonNode>of(state)));
        expected.set("operators", Json.array(List.<JsonNode>of(operator)));
    }

    private static final class Match extends PatternProcessFunction<Event, Integer> {
        @Override
        public void processMatch(Map<String, List<Event>> match, Context context, Collector<Integer> out) {
            out.collect(match.size());
        }
    }
}
