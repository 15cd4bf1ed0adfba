package io.stateprocessor.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Locale;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.AccessExecutionGraph;
import org.apache.flink.runtime.executiongraph.AccessExecutionVertex;
import org.apache.flink.runtime.executiongraph.ErrorInfo;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * A job that inserts, updates and deletes keys while it takes checkpoints; it is cancelled and restored from its last checkpoint,
 * with another parallelism.
 *
 * <p>Arguments: the directory for checkpoints, the directory for the savepoint at the end, milliseconds between checkpoints, number
 * of retained checkpoints, number of keys, records per second, and runs of the job such as {@code 2:5000,3:5000}: parallelism and
 * milliseconds; then settings of the job such as {@code name=value}. Prints the directory of the savepoint, which has the state of the last checkpoint.
 */
public final class RunningJob {

    static final long MINUTES = 5;
    static volatile boolean emitting;

    private RunningJob() {}

    public static void main(String[] arguments) throws Exception {
        Path checkpoints = Path.of(arguments[0]).toAbsolutePath();
        Path savepoints = Path.of(arguments[1]).toAbsolutePath();
        long interval = Long.parseLong(arguments[2]);
        int keys = Integer.parseInt(arguments[4]);
        int rate = Integer.parseInt(arguments[5]);
        String[] runs = arguments[6].split(",");
        try (MiniCluster cluster = cluster(arguments[3], 4)) {
            Path last = null;
            for (int i = 0; i < runs.length; i++) {
                String[] run = runs[i].split(":");
                emitting = true;
                Configuration more = new Configuration();
                for (int setting = 7; setting < arguments.length; setting++) {
                    String[] parts = arguments[setting].split("=", 2);
                    more.setString(parts[0], parts[1]);
                }
                JobID job = start(cluster, graph(checkpoints, interval, keys, rate, Integer.parseInt(run[0]), i, last, more));
                Thread.sleep(Long.parseLong(run[1]));
                emitting = false;
                awaitCheckpoints(cluster, job, 2); // the first of them may have begun before
                if (i == runs.length - 1) {
                    String uri = savepoints.toUri().toString();
                    System.out.println(cluster.triggerSavepoint(job, uri, false, SavepointFormatType.CANONICAL).get(MINUTES, TimeUnit.MINUTES));
                }
                cluster.cancelJob(job).get(MINUTES, TimeUnit.MINUTES);
                cluster.requestJobResult(job).get(MINUTES, TimeUnit.MINUTES);
                last = newest(checkpoints.resolve(job.toString()));
            }
        }
    }

    static MiniCluster cluster(String retained, int slots) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("rest.bind-port", "0");
        settings.setString("rest.address", "localhost");
        settings.setString("taskmanager.memory.managed.size", "256m");
        settings.setString("heartbeat.timeout", "600000");
        settings.setString("state.checkpoints.num-retained", retained); // in Flink 1
        settings.setString("execution.checkpointing.num-retained", retained); // in Flink 2
        settings.setString("state.storage.fs.memory-threshold", "1b"); // all state is in files
        settings.setString("execution.checkpointing.data-inline-threshold", "1b");
        MiniCluster cluster =
                new MiniCluster(
                        new MiniClusterConfiguration.Builder()
                                .setConfiguration(settings)
                                .setNumTaskManagers(1)
                                .setNumSlotsPerTaskManager(slots)
                                .build());
        cluster.start();
        return cluster;
    }

    static JobGraph graph(Path checkpoints, long interval, int keys, int rate, int parallelism, int seed, Path from, Configuration more) {
        Configuration settings = new Configuration();
        for (String name : new String[] {"state.backend", "state.backend.type"}) {
            settings.setString(name, "rocksdb");
        }
        for (String name : new String[] {"state.backend.incremental", "execution.checkpointing.incremental"}) {
            settings.setString(name, "true");
        }
        for (String name : new String[] {"state.checkpoints.dir", "execution.checkpointing.dir"}) {
            settings.setString(name, checkpoints.toUri().toString());
        }
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("state.checkpoint-storage", "filesystem");
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        settings.setString("execution.checkpointing.interval", interval + "ms");
        settings.setString("execution.checkpointing.min-pause", "10ms");
        settings.addAll(more);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        env.setParallelism(parallelism);
        env.setMaxParallelism(128);
        env.addSource(new Numbers(rate, seed), "numbers", Types.LONG)
                .uid("numbers")
                .setParallelism(1)
                .keyBy(number -> Math.floorMod(number, (long) keys), Types.LONG)
                .process(new Totals())
                .returns(Types.LONG)
                .uid("totals")
                .name("totals");
        JobGraph graph = env.getStreamGraph().getJobGraph();
        if (from != null) {
            Configuration recovery = new Configuration(more);
            recovery.setString("execution.savepoint.path", from.toUri().toString());
            recovery.setString("execution.state-recovery.path", from.toUri().toString());
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.fromConfiguration(recovery));
        }
        return graph;
    }

    static JobID start(MiniCluster cluster, JobGraph graph) throws Exception {
        cluster.submitJob(graph).get(MINUTES, TimeUnit.MINUTES);
        await(cluster, graph.getJobID(), "not running", RunningJob::isRunning);
        return graph.getJobID();
    }

    static void awaitCheckpoints(MiniCluster cluster, JobID job, int more) throws Exception {
        long target = taken(execution(cluster, job)) + more;
        await(cluster, job, "without " + more + " more checkpoints", graph -> taken(graph) >= target);
    }

    /** Waits for a job, with a limit: Flink restarts a job that fails again and again without end. */
    private static void await(MiniCluster cluster, JobID job, String problem, Predicate<AccessExecutionGraph> condition) throws Exception {
        long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(MINUTES);
        AccessExecutionGraph graph = execution(cluster, job);
        while (!condition.test(graph)) {
            boolean isLate = System.nanoTime() > end;
            if (isLate || graph.getState().isTerminalState()) {
                String limit = isLate ? " after " + MINUTES + " minutes" : "";
                ErrorInfo failure = graph.getFailureInfo();
                throw new IllegalStateException(
                        "job " + job + " is " + graph.getState() + " and " + problem + limit, failure == null ? null : failure.getException());
            }
            Thread.sleep(20);
            graph = execution(cluster, job);
        }
    }

    private static AccessExecutionGraph execution(MiniCluster cluster, JobID job) throws Exception {
        return cluster.getExecutionGraph(job).get(MINUTES, TimeUnit.MINUTES);
    }

    private static boolean isRunning(AccessExecutionGraph graph) {
        boolean any = false;
        for (AccessExecutionVertex vertex : graph.getAllExecutionVertices()) {
            any = true;
            if (vertex.getExecutionState() != ExecutionState.RUNNING) {
                return false;
            }
        }
        return any;
    }

    private static long taken(AccessExecutionGraph graph) {
        return graph.getCheckpointStatsSnapshot().getCounts().getNumberOfCompletedCheckpoints();
    }

    static Path newest(Path job) throws Exception {
        try (var found = Files.list(job)) {
            return found.filter(path -> Files.exists(path.resolve("_metadata")))
                    .max(Comparator.comparingLong(path -> path.resolve("_metadata").toFile().lastModified()))
                    .orElseThrow();
        }
    }

    private static final class Numbers implements LegacySource<Long> {
        private final int rate;
        private final int seed;
        private volatile boolean running = true;

        Numbers(int rate, int seed) {
            this.rate = rate;
            this.seed = seed;
        }

        @Override
        public void run(SourceContext<Long> context) throws Exception {
            Random random = new Random(seed);
            while (running) {
                synchronized (context.getCheckpointLock()) {
                    for (int i = 0; emitting && i < Math.max(1, rate / 50); i++) {
                        context.collect(random.nextLong() >>> 1);
                    }
                }
                Thread.sleep(20);
            }
        }

        @Override
        public void cancel() {
            running = false;
        }
    }

    private static final class Totals extends KeyedProcessFunction<Long, Long, Long> {
        private transient ValueState<Long> total;
        private transient MapState<String, Long> items;

        @Override
        public void processElement(Long number, Context context, Collector<Long> out) throws Exception {
            if (total == null) {
                total = getRuntimeContext().getState(new ValueStateDescriptor<>("total", Types.LONG));
                items = getRuntimeContext().getMapState(new MapStateDescriptor<>("items", Types.STRING, Types.LONG));
            }
            long kind = (number >>> 40) % 5;
            String item = String.format(Locale.ROOT, "item-%d", (number >>> 44) % 3);
            if (kind == 0) {
                total.clear();
                items.remove(item);
            } else {
                total.update(number);
                items.put(item, kind);
            }
        }
    }
}
