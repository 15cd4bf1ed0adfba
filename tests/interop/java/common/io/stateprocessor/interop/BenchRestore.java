package io.stateprocessor.interop;

import java.nio.file.Path;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Restores savepoints of {@link BenchSavepoint}'s job with the RocksDB backend, one after the other in one cluster, and prints the
 * seconds from submission until all tasks run: a line for each round, a column for each savepoint.
 *
 * <p>Arguments: the number of rounds; the job's kind; the directories of the savepoints.
 */
public final class BenchRestore {

    public static void main(String[] arguments) throws Exception {
        try (Cluster cluster = new Cluster(2, 20 * 1024)) {
            for (int round = 0; round < Integer.parseInt(arguments[0]); round++) {
                StringBuilder line = new StringBuilder();
                for (int savepoint = 2; savepoint < arguments.length; savepoint++) {
                    Configuration settings = new Variant("rocksdb", "native").configuration("file:///tmp");
                    StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(settings);
                    JobGraph graph = BenchSavepoint.job(env, arguments[1], 0);
                    String path = Path.of(arguments[savepoint]).toUri().toString();
                    graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(path));
                    long began = System.nanoTime();
                    JobID job = cluster.start(graph);
                    line.append(' ').append((System.nanoTime() - began) / 1e9);
                    cluster.cancel(job);
                }
                System.out.println(line);
            }
        }
    }

    private BenchRestore() {}
}
