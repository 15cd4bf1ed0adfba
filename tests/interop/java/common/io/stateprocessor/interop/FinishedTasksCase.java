package io.stateprocessor.interop;

import java.util.List;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.datastream.DataStream;

/** A job of which one source is through, and one of the subtasks of another, while the rest goes on. */
final class FinishedTasksCase extends FixtureCase {

    private static final int FINISHED_SUBTASKS = 3; // both of one source, one of the other
    private static final OperatorSpec LIVE = SmallCase.COUNTERS.operators().get(0);

    @Override
    String name() {
        return "finished-tasks";
    }

    @Override
    List<OperatorSpec> operators() {
        return List.of(LIVE);
    }

    @Override
    List<Step> steps() {
        return FixtureCase.named("small").steps();
    }

    @Override
    long watermark() {
        return FixtureCase.named("small").watermark();
    }

    @Override
    List<String> statelessOperators() {
        return List.of(StepJob.SOURCE, StepJob.filterOf(LIVE), "half", "gone");
    }

    @Override
    void build(DataStream<Integer> source) {
        super.build(source);
        for (String name : List.of("gone", "half")) {
            source.getExecutionEnvironment()
                    .fromSource(new NumberSequenceSource(1, 1000), WatermarkStrategy.noWatermarks(), name + "-source")
                    .uid(name + "-source")
                    .map(new Gate(name.equals("half")))
                    .uid(name)
                    .name(name);
        }
    }

    @Override
    void awaitInput(Cluster cluster, JobID job) throws Exception {
        super.awaitInput(cluster, job);
        while (cluster.finishedTasks(job) < FINISHED_SUBTASKS) {
            Thread.sleep(20);
        }
    }

    @Override
    void describe(ObjectNode expected, Model model, int parallelism) throws Exception {
        super.describe(expected, model, parallelism);
        expected.put("restore_check", false); // finished operators restore with their own job only
        expected.set("fully_finished_operators", Json.of(List.of("gone-source", "gone")));
        expected.set("partially_finished_operators", Json.of(List.of("half-source")));
        for (String uid : List.of("gone-source", "gone")) {
            ((ArrayNode) expected.get("operators")).add(Json.object().put("uid", uid).put("fully_finished", true).set("states", Json.array(List.of())));
        }
    }

    /** Holds up the numbers of one subtask, if it should. */
    private static final class Gate extends RichMapFunction<Long, Long> {
        private final boolean holds;

        Gate(boolean holds) {
            this.holds = holds;
        }

        @Override
        public Long map(Long number) throws Exception {
            if (holds && Compat.subtask(getRuntimeContext()) == 0) {
                Thread.sleep(1000);
            }
            return number;
        }
    }
}
