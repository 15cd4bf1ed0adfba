package io.stateprocessor.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.flink.agents.api.Agent;
import org.apache.flink.agents.api.AgentsExecutionEnvironment;
import org.apache.flink.agents.api.Event;
import org.apache.flink.agents.api.InputEvent;
import org.apache.flink.agents.api.OutputEvent;
import org.apache.flink.agents.api.annotation.Action;
import org.apache.flink.agents.api.chat.messages.ChatMessage;
import org.apache.flink.agents.api.context.MemoryObject;
import org.apache.flink.agents.api.context.RunnerContext;
import org.apache.flink.agents.api.event.ChatResponseEvent;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Runs an agent of Flink Agents whose memory is changed by its input.
 *
 * <p>Arguments: the file with the input, the file for the output, the directory for the savepoint, its format, and the savepoint to
 * begin with, as URI, if there is one. A line of input is {@code KEY|COMMAND|PATH|VALUE}; from {@code waiting|wait||TEXT} on, that
 * key does not get any further before the savepoint. Prints the directory of the savepoint.
 */
public final class AgentJob {

    private static final ConcurrentLinkedQueue<String> OUTPUT = new ConcurrentLinkedQueue<>();
    private static volatile boolean waits;
    private static final int EVERYTHING_INLINE = 1_000_000;

    private AgentJob() {}

    public static void main(String[] arguments) throws Exception {
        List<String> lines = Files.readAllLines(Path.of(arguments[0]));
        OUTPUT.clear();
        waits = lines.stream().anyMatch(line -> line.contains("|wait|"));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(new Configuration());
        env.setParallelism(1);
        env.setMaxParallelism(16);
        env.enableCheckpointing(24 * 60 * 60 * 1000L); // taken by hand
        DataStream<String> input = env.addSource(new Lines(lines), "lines", Types.STRING).uid("lines");
        KeySelector<String, String> key = line -> line.substring(0, line.indexOf('|'));
        AgentsExecutionEnvironment.getExecutionEnvironment(env)
                .fromDataStream(input, key)
                .apply(new Remembering())
                .toDataStream()
                .map(text -> { OUTPUT.add((String) text); return text; })
                .returns(Types.GENERIC(Object.class))
                .uid("outputs");
        JobGraph graph = env.getStreamGraph().getJobGraph();
        if (arguments.length > 4) {
            Configuration recovery = new Configuration();
            recovery.setString("execution.savepoint.path", arguments[4]); // in Flink 1
            recovery.setString("execution.state-recovery.path", arguments[4]); // in Flink 2
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.fromConfiguration(recovery));
        }
        try (Cluster cluster = new Cluster(1, EVERYTHING_INLINE)) {
            JobID job = cluster.start(graph);
            IdleSource.awaitEmitted();
            long expected = lines.stream().filter(line -> !line.startsWith("waiting|")).count();
            for (long left = 6000; OUTPUT.size() < expected && left > 0; left--) {
                Thread.sleep(20);
            }
            System.out.println(cluster.savepoint(job, Path.of(arguments[2]).toAbsolutePath(), SavepointFormatType.valueOf(arguments[3])));
            cluster.cancel(job);
        }
        Files.write(Path.of(arguments[1]), OUTPUT);
    }

    private static final class Lines extends IdleSource<String> {
        private final ArrayList<String> lines;

        Lines(List<String> lines) {
            this.lines = new ArrayList<>(lines);
        }

        @Override
        void emit(SourceContext<String> context) {
            lines.forEach(context::collect);
        }
    }

    /** The agent. */
    public static class Remembering extends Agent {

        @Action(listenEvents = {InputEvent.class})
        public static void remember(Event event, RunnerContext context) throws Exception {
            String[] parts = ((String) ((InputEvent) event).getInput()).split("\\|", -1);
            MemoryObject memory = context.getShortTermMemory();
            Object answer = null;
            switch (parts[1]) {
                case "set":
                    memory.set(parts[2], value(parts[3]));
                    break;
                case "object":
                    memory.newObject(parts[2], true);
                    break;
                case "wait":
                    context.sendEvent(new ChatResponseEvent(UUID.randomUUID(), ChatMessage.assistant(parts[3])));
                    return;
                case "fields":
                    MemoryObject place = parts[2].isEmpty() ? memory : memory.get(parts[2]);
                    answer = place == null ? null : new TreeMap<>(place.getFields());
                    break;
                default:
                    MemoryObject found = memory.get(parts[2]);
                    answer = found == null ? null : found.getValue();
            }
            context.sendEvent(new OutputEvent(parts[0] + " " + parts[1] + " " + parts[2] + ": " + shown(answer)));
        }

        @Action(listenEvents = {ChatResponseEvent.class})
        public static void resume(Event event, RunnerContext context) throws Exception {
            ChatResponseEvent response = (ChatResponseEvent) event;
            if (waits) {
                Thread.sleep(5);
                context.sendEvent(new ChatResponseEvent(response.getRequestId(), response.getResponse()));
            } else {
                context.sendEvent(new OutputEvent("resumed " + response.getResponse().getContent()));
            }
        }

        private static String shown(Object answer) {
            return answer + (answer == null ? "" : " " + answer.getClass().getSimpleName());
        }

        private static Object value(String text) {
            switch (text) {
                case "long":
                    return 7L;
                case "int":
                    return 7;
                case "double":
                    return 0.5;
                case "list":
                    return new ArrayList<>(Arrays.asList("a", 1L, 2.5, true, null));
                case "map":
                    return new HashMap<>(Map.of("street", "Main", "number", 5));
                case "chat":
                    return new ArrayList<>(List.of(ChatMessage.user("I am Ada"), ChatMessage.assistant("Hello Ada")));
                default:
                    return text;
            }
        }
    }
}
