package io.stateprocessor.interop;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.apache.flink.client.deployment.executors.LocalExecutor;
import org.apache.flink.client.deployment.executors.LocalExecutorFactory;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.PipelineExecutor;
import org.apache.flink.core.execution.PipelineExecutorFactory;
import org.apache.flink.core.execution.PipelineExecutorServiceLoader;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A Flink in this JVM that stays until the JVM ends, whoever closes it: its start takes longer than small jobs do.
 *
 * <p>Tasks of jobs without jars use the class loader of the JVM, as the job manager does here. So Flink compiles the code that it
 * generates for a query once for all jobs with this query, and not for each job.
 */
final class KeptCluster extends MiniCluster {

    private static final int SLOTS = 16;
    private static final Map<Map<String, String>, KeptCluster> STARTED = new HashMap<>();

    private KeptCluster(MiniClusterConfiguration configuration) {
        super(configuration);
    }

    /** The cluster with these settings and this number of slots, which runs. */
    static synchronized KeptCluster of(Configuration settings, int slots) throws Exception {
        Map<String, String> key = new HashMap<>(settings.toMap());
        key.put("slots", String.valueOf(slots));
        KeptCluster cluster = STARTED.get(key);
        if (cluster == null) {
            cluster =
                    new KeptCluster(
                            new MiniClusterConfiguration.Builder()
                                    .setConfiguration(settings)
                                    .setNumTaskManagers(1)
                                    .setNumSlotsPerTaskManager(slots)
                                    .build());
            cluster.begin();
            STARTED.put(key, cluster);
        }
        return cluster;
    }

    private void begin() throws Exception {
        super.start();
        for (Object taskManager : (List<?>) value(MiniCluster.class, this, "taskManagers")) {
            Object libraries = value(taskManager.getClass(), taskManager, "libraryCacheManager");
            field(libraries.getClass(), "wrapsSystemClassLoader").set(libraries, true);
        }
    }

    private static Object value(Class<?> type, Object object, String name) throws ReflectiveOperationException {
        return field(type, name).get(object);
    }

    private static Field field(Class<?> type, String name) throws ReflectiveOperationException {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    @Override
    public void start() {
        // It runs already.
    }

    @Override
    public CompletableFuture<Void> closeAsync() {
        return CompletableFuture.completedFuture(null);
    }

    /** Where jobs of environments run that are made from now on. */
    static final class Environments extends StreamExecutionEnvironment {

        /** Makes jobs run in a cluster that is kept, instead of one for each. */
        static void begin() throws Exception {
            Configuration settings = new Configuration();
            settings.setString("rest.bind-port", "0");
            settings.setString("rest.address", "localhost");
            settings.setString("heartbeat.timeout", "600000"); // of milliseconds: a machine may be busy
            settings.setString("slotmanager.requirement-check.delay", "0 ms"); // no further jobs come meanwhile
            settings.setString("taskmanager.memory.managed.size", "1g");
            settings.setString("taskmanager.memory.network.min", "256m");
            settings.setString("taskmanager.memory.network.max", "256m");
            KeptCluster cluster = KeptCluster.of(settings, SLOTS);
            initializeContextEnvironment(
                    configuration -> {
                        Configuration local = new Configuration(configuration);
                        local.setString("execution.target", LocalExecutor.NAME);
                        local.setString("execution.attached", "true");
                        return new StreamExecutionEnvironment(executors(cluster), local, null);
                    });
        }

        static void end() {
            resetContextEnvironment();
        }

        private static PipelineExecutorServiceLoader executors(MiniCluster cluster) {
            PipelineExecutorFactory factory =
                    new LocalExecutorFactory() {
                        @Override
                        public PipelineExecutor getExecutor(Configuration configuration) {
                            return LocalExecutor.createWithFactory(configuration, ignored -> cluster);
                        }
                    };
            return new PipelineExecutorServiceLoader() {
                @Override
                public PipelineExecutorFactory getExecutorFactory(Configuration configuration) {
                    return factory;
                }

                @Override
                public Stream<String> getExecutorNames() {
                    return Stream.of(factory.getName());
                }
            };
        }
    }
}
