package io.stateprocessor.interop;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;

/**
 * Several jobs that keep one checkpoint each in one directory. In turn, they take savepoints, and are cancelled and restored from
 * their newest checkpoint.
 *
 * <p>Arguments: the directory for checkpoints, the directory for savepoints that are taken meanwhile, the directory for those at the
 * end, a file whose content ends the jobs (stop; or halt, which kills the JVM), milliseconds between checkpoints, number of keys,
 * records per second, milliseconds between the turns, and for each job its name and settings: {@code name;setting=value;…}. Each
 * job has the same id, the hash of its name, in every JVM until it is restored for the first time. Prints for each job its newest
 * checkpoint and a canonical savepoint with the same state, each in a line.
 */
public final class BusyJobs {

    private static final String[] CLAIMS = {"NO_CLAIM", "CLAIM", "LEGACY"};
    private static final int PARALLELISM = 2;

    private BusyJobs() {}

    public static void main(String[] arguments) throws Exception {
        Path checkpoints = Path.of(arguments[0]).toAbsolutePath();
        Path end = Path.of(arguments[3]);
        int jobs = arguments.length - 8;
        RunningJob.emitting = true;
        try (MiniCluster cluster = RunningJob.cluster("1", jobs * PARALLELISM)) {
            List<Job> running = new ArrayList<>();
            for (int i = 0; i < jobs; i++) {
                Job job = new Job(cluster, checkpoints, arguments, i);
                job.begin();
                running.add(job);
            }
            for (int turn = 0; !Files.exists(end); turn++) {
                running.get(turn % jobs).turn(turn / jobs, Path.of(arguments[1]));
                for (long waited = 0; waited < Long.parseLong(arguments[7]) && !Files.exists(end); waited += 50) {
                    Thread.sleep(50);
                }
            }
            if (Files.readString(end).equals("halt")) {
                Runtime.getRuntime().halt(137);
            }
            RunningJob.emitting = false;
            for (Job job : running) {
                job.end(Path.of(arguments[2]));
            }
        }
    }

    private static final class Job {
        private final MiniCluster cluster;
        private final Path checkpoints;
        private final String[] arguments;
        private final int number;
        private final Configuration settings = new Configuration();
        private final String name;
        private JobID id;
        private int runs;

        Job(MiniCluster cluster, Path checkpoints, String[] arguments, int number) {
            this.cluster = cluster;
            this.checkpoints = checkpoints;
            this.arguments = arguments;
            this.number = number;
            String[] parts = arguments[8 + number].split(";");
            this.name = parts[0];
            for (int i = 1; i < parts.length; i++) {
                String[] setting = parts[i].split("=", 2);
                settings.setString(setting[0], setting[1]);
            }
        }

        void begin() throws Exception {
            String hash = UUID.nameUUIDFromBytes(name.getBytes(StandardCharsets.UTF_8)).toString();
            JobID fixed = JobID.fromHexString(hash.replace("-", ""));
            Path last = null;
            if (Files.isDirectory(checkpoints.resolve(fixed.toString()))) {
                try {
                    last = RunningJob.newest(checkpoints.resolve(fixed.toString()));
                } catch (java.util.NoSuchElementException none) {
                    // a later job has claimed its last checkpoint
                }
            }
            run(last, claim(0), fixed);
        }

        void turn(int turn, Path savepoints) throws Exception {
            switch (turn % 4) {
                case 0 -> savepoint(savepoints, SavepointFormatType.NATIVE);
                case 1 -> savepoint(checkpoints, SavepointFormatType.CANONICAL);
                case 2 -> restart();
                default -> savepoint(checkpoints, SavepointFormatType.NATIVE);
            }
        }

        private String savepoint(Path directory, SavepointFormatType format) throws Exception {
            return cluster.triggerSavepoint(id, directory.toUri().toString(), false, format).get(RunningJob.MINUTES, TimeUnit.MINUTES);
        }

        private void restart() throws Exception {
            RunningJob.awaitCheckpoints(cluster, id, 1);
            cancel();
            int claims = isFirstMajor() ? 3 : 2;
            run(RunningJob.newest(checkpoints.resolve(id.toString())), claim((number + runs) % claims), null);
        }

        private String claim(int choice) {
            return CLAIMS[settings.toMap().containsKey("state.changelog.enabled") ? Math.max(choice, 1) : choice]; // no full snapshots
        }

        private static boolean isFirstMajor() {
            return org.apache.flink.runtime.util.EnvironmentInformation.getVersion().startsWith("1.");
        }

        private void run(Path from, String claim, JobID fixed) throws Exception {
            Configuration more = new Configuration(settings);
            more.setString("execution.savepoint-restore-mode", claim);
            more.setString("execution.state-recovery.claim-mode", claim);
            JobGraph graph = RunningJob.graph(
                    checkpoints,
                    Long.parseLong(arguments[4]),
                    Integer.parseInt(arguments[5]),
                    Integer.parseInt(arguments[6]),
                    PARALLELISM,
                    runs++,
                    from,
                    more);
            if (fixed != null) {
                graph.setJobID(fixed);
            }
            id = RunningJob.start(cluster, graph);
        }

        private void cancel() throws Exception {
            cluster.cancelJob(id).get(RunningJob.MINUTES, TimeUnit.MINUTES);
            cluster.requestJobResult(id).get(RunningJob.MINUTES, TimeUnit.MINUTES);
        }

        void end(Path savepoints) throws Exception {
            RunningJob.awaitCheckpoints(cluster, id, 2); // the first of them may have begun before
            String savepoint = savepoint(savepoints, SavepointFormatType.CANONICAL);
            cancel();
            System.out.println(RunningJob.newest(checkpoints.resolve(id.toString())));
            System.out.println(savepoint);
        }
    }
}
