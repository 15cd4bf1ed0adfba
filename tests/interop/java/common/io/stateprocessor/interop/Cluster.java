package io.stateprocessor.interop;

import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.AccessExecutionGraph;
import org.apache.flink.runtime.executiongraph.AccessExecutionVertex;
import org.apache.flink.runtime.executiongraph.ErrorInfo;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;

/** A Flink in this JVM, for several jobs one after the other. */
final class Cluster implements AutoCloseable {

    private static final long MINUTES = 10;

    private final MiniCluster cluster;

    /**
     * @param slots how many subtasks can run of each operator
     * @param inlineBytes the size up to which Flink keeps state inside _metadata instead of in a file of its own
     */
    Cluster(int slots, int inlineBytes) throws Exception {
        this(slots, inlineBytes, null);
    }

    /**
     * @param changelogs where jobs with the changelog enabled keep it; null if there are none
     */
    Cluster(int slots, int inlineBytes, Path changelogs) throws Exception {
        Configuration settings = settings(inlineBytes, changelogs);
        cluster =
                new MiniCluster(
                        new MiniClusterConfiguration.Builder()
                                .setConfiguration(settings)
                                .setNumTaskManagers(1)
                                .setNumSlotsPerTaskManager(slots)
                                .build());
        cluster.start();
    }

    private Cluster(MiniCluster cluster) {
        this.cluster = cluster;
    }

    /** One that stays when it is closed. It may still delete files of jobs that have ended. */
    static Cluster kept(int slots, int inlineBytes) throws Exception {
        return new Cluster(KeptCluster.of(settings(inlineBytes, null), slots));
    }

    private static Configuration settings(int inlineBytes, Path changelogs) {
        Configuration settings = new Configuration();
        settings.setString("rest.bind-port", "0");
        settings.setString("rest.address", "localhost");
        settings.setString("slotmanager.requirement-check.delay", "0 ms"); // no further jobs come meanwhile
        settings.setString("taskmanager.memory.managed.size", "1g");
        settings.setString("heartbeat.timeout", "600000"); // of milliseconds: a machine may be busy
        settings.setString("state.storage.fs.memory-threshold", inlineBytes + "b");
        settings.setString("execution.checkpointing.data-inline-threshold", inlineBytes + "b");
        if (changelogs != null) { // each option under its names in Flink 1 and 2
            for (String name : List.of("state.backend.changelog.storage", "state.changelog.storage")) {
                settings.setString(name, "filesystem");
            }
            for (String name : List.of("dstl.dfs.base-path", "state.changelog.dstl.dfs.base-path")) {
                settings.setString(name, changelogs.toUri().toString());
            }
        }
        return settings;
    }

    /** Starts a job and returns when all its tasks run. */
    JobID start(JobGraph job) throws Exception {
        cluster.submitJob(job).get(MINUTES, TimeUnit.MINUTES);
        long deadline = System.nanoTime() + TimeUnit.MINUTES.toNanos(MINUTES);
        while (!allRunning(cluster, job.getJobID())) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("the job's tasks did not all start in " + MINUTES + " minutes");
            }
            Thread.sleep(20);
        }
        return job.getJobID();
    }

    /** Whether all tasks of a job run; a job that has failed is an error. */
    static boolean allRunning(MiniCluster cluster, JobID job) throws Exception {
        AccessExecutionGraph graph = cluster.getExecutionGraph(job).get(MINUTES, TimeUnit.MINUTES);
        if (graph.getState() == JobStatus.FAILING || graph.getState().isTerminalState()) {
            ErrorInfo failure = graph.getFailureInfo();
            throw new IllegalStateException("the job is " + graph.getState(), failure == null ? null : failure.getException());
        }
        if (graph.getState() != JobStatus.RUNNING) {
            return false;
        }
        for (AccessExecutionVertex vertex : graph.getAllExecutionVertices()) {
            if (vertex.getExecutionState() != ExecutionState.RUNNING && vertex.getExecutionState() != ExecutionState.FINISHED) {
                return false;
            }
        }
        return true;
    }

    /** How many of the job's subtasks are through. */
    int finishedTasks(JobID job) throws Exception {
        int finished = 0;
        for (AccessExecutionVertex vertex : cluster.getExecutionGraph(job).get(MINUTES, TimeUnit.MINUTES).getAllExecutionVertices()) {
            finished += vertex.getExecutionState() == ExecutionState.FINISHED ? 1 : 0;
        }
        return finished;
    }

    Path savepoint(JobID job, Path parent, SavepointFormatType format) throws Exception {
        return path(cluster.triggerSavepoint(job, parent.toUri().toString(), false, format).get(MINUTES, TimeUnit.MINUTES));
    }

    Path checkpoint(JobID job) throws Exception {
        return path(cluster.triggerCheckpoint(job).get(MINUTES, TimeUnit.MINUTES));
    }

    /** The number of the job's last checkpoint or savepoint. */
    long lastCheckpointId(JobID job) throws Exception {
        return cluster.getExecutionGraph(job).get(MINUTES, TimeUnit.MINUTES)
                .getCheckpointStatsSnapshot()
                .getHistory()
                .getCheckpoints()
                .get(0)
                .getCheckpointId();
    }

    void cancel(JobID job) throws Exception {
        cluster.cancelJob(job).get(MINUTES, TimeUnit.MINUTES);
        cluster.requestJobResult(job).get(MINUTES, TimeUnit.MINUTES);
    }

    /** Cancels a job that may have ended already. */
    void end(JobID job, Exception failed) {
        try {
            cancel(job);
        } catch (Exception ended) {
            failed.addSuppressed(ended);
        }
    }

    @Override
    public void close() throws Exception {
        cluster.close();
    }

    private static Path path(String uri) {
        return Path.of(java.net.URI.create(uri.startsWith("/") ? "file:" + uri : uri));
    }
}
