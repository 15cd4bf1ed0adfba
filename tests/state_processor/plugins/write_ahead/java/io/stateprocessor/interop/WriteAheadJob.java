package io.stateprocessor.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.runtime.operators.CheckpointCommitter;
import org.apache.flink.streaming.runtime.operators.GenericWriteAheadSink;

/**
 * Writes lines with a write-ahead sink, which has not sent them when a savepoint is taken.
 *
 * <p>Arguments: the directory for files, the directory for the savepoint, the number of lines, and the savepoint to begin with, as
 * URI, if there is one. A job without lines sends what the savepoint has, each pending checkpoint to a file. Prints the directory of the
 * savepoint.
 */
public final class WriteAheadJob {

    private static final int EVERYTHING_INLINE = 1_000_000;

    private WriteAheadJob() {}

    public static void main(String[] arguments) throws Exception {
        Path files = Files.createDirectories(Path.of(arguments[0]).toAbsolutePath());
        int lines = Integer.parseInt(arguments[2]);
        Path savepoints = Path.of(arguments[1]).toAbsolutePath();
        Configuration settings = new Configuration();
        if (lines == 0) { // each option under its names in Flink 1 and 2
            for (String name : List.of("state.checkpoints.dir", "execution.checkpointing.dir")) {
                settings.setString(name, savepoints.resolve("checkpoints").toUri().toString());
            }
        }
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        env.setParallelism(2);
        env.setMaxParallelism(128);
        env.enableCheckpointing(24 * 60 * 60 * 1000L); // taken by hand
        env.addSource(new Numbers(lines), "lines", Types.STRING)
                .uid("lines")
                .setParallelism(1)
                .rebalance()
                .transform("ahead", Types.STRING, new Sink(files.toString(), lines == 0))
                .uid("ahead");
        JobGraph graph = env.getStreamGraph().getJobGraph();
        if (arguments.length > 3) {
            Configuration recovery = new Configuration();
            recovery.setString("execution.savepoint.path", arguments[3]); // in Flink 1
            recovery.setString("execution.state-recovery.path", arguments[3]); // in Flink 2
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.fromConfiguration(recovery));
        }
        try (Cluster cluster = new Cluster(2, EVERYTHING_INLINE)) {
            JobID job = cluster.start(graph);
            IdleSource.awaitEmitted();
            if (lines == 0) {
                cluster.checkpoint(job); // a sink does not send after a savepoint
            }
            System.out.println(cluster.savepoint(job, savepoints, SavepointFormatType.CANONICAL));
            cluster.cancel(job);
        }
    }

    private static final class Numbers extends IdleSource<String> {
        private final int count;

        Numbers(int count) {
            this.count = count;
        }

        @Override
        void emit(SourceContext<String> context) {
            for (int i = 0; i < count; i++) {
                context.collect("line " + i);
            }
        }
    }

    private static final class Sink extends GenericWriteAheadSink<String> {
        private final String files;
        private final boolean sends;

        Sink(String files, boolean sends) throws Exception {
            super(new NothingCommitted(), StringSerializer.INSTANCE, "job");
            this.files = files;
            this.sends = sends;
        }

        @Override
        protected boolean sendValues(Iterable<String> values, long checkpointId, long timestamp) throws Exception {
            List<String> lines = new ArrayList<>();
            values.forEach(lines::add);
            if (sends) {
                Files.write(Path.of(files, checkpointId + "-" + UUID.randomUUID()), lines);
            }
            return sends;
        }
    }

    private static final class NothingCommitted extends CheckpointCommitter {
        @Override
        public void open() {}

        @Override
        public void close() {}

        @Override
        public void createResource() {}

        @Override
        public void commitCheckpoint(int subtask, long checkpointId) {}

        @Override
        public boolean isCheckpointCommitted(int subtask, long checkpointId) {
            return false;
        }
    }
}
