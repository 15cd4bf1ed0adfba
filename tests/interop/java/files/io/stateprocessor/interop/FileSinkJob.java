package io.stateprocessor.interop;

import java.nio.file.Path;
import java.util.Locale;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.filesystem.BucketAssigner;
import org.apache.flink.streaming.api.functions.sink.filesystem.RollingPolicy;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.SimpleVersionedStringSerializer;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.DefaultRollingPolicy;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;

/**
 * Writes lines with two file sinks and takes a savepoint: "rolling" has files to be committed then, "open" files in progress.
 *
 * <p>Arguments: the directory for files, the directory for the savepoint, the number of lines, and the savepoint to begin with, as
 * URI, if there is one. Prints the directory of the savepoint.
 */
public final class FileSinkJob {

    private static final int EVERYTHING_INLINE = 1_000_000;

    private FileSinkJob() {}

    public static void main(String[] arguments) throws Exception {
        Path files = Path.of(arguments[0]).toAbsolutePath();
        int lines = Integer.parseInt(arguments[2]);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(new Configuration());
        env.setParallelism(2);
        env.setMaxParallelism(128);
        env.enableCheckpointing(24 * 60 * 60 * 1000L); // taken by hand
        DataStream<String> input = env.addSource(new Lines(lines), "lines", Types.STRING).uid("lines").setParallelism(1).rebalance();
        add(input, files, "rolling", OnCheckpointRollingPolicy.build());
        add(input, files, "open", DefaultRollingPolicy.builder().build());
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
            System.out.println(cluster.savepoint(job, Path.of(arguments[1]).toAbsolutePath(), SavepointFormatType.CANONICAL));
            cluster.cancel(job);
        }
    }

    private static void add(DataStream<String> input, Path files, String name, RollingPolicy<String, String> policy) {
        org.apache.flink.core.fs.Path folder = new org.apache.flink.core.fs.Path(files.resolve(name).toUri());
        input.sinkTo(
                        FileSink.forRowFormat(folder, new SimpleStringEncoder<String>())
                                .withBucketAssigner(new FirstLetter())
                                .withRollingPolicy(policy)
                                .build())
                .uid(name)
                .name(name);
    }

    private static final class Lines extends IdleSource<String> {
        private final int count;

        Lines(int count) {
            this.count = count;
        }

        @Override
        void emit(SourceContext<String> context) {
            for (int i = 0; i < count; i++) { // two in turn, as each subtask gets every second one
                context.collect(String.format(Locale.ROOT, "%s-%d", i % 4 < 2 ? "a" : "b", i));
            }
        }
    }

    private static final class FirstLetter implements BucketAssigner<String, String> {
        @Override
        public String getBucketId(String line, Context context) {
            return "letter=" + line.charAt(0);
        }

        @Override
        public SimpleVersionedSerializer<String> getSerializer() {
            return SimpleVersionedStringSerializer.INSTANCE;
        }
    }
}
