package io.stateprocessor.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Writes a large savepoint with one VALUE state "value" of operator "bench".
 *
 * <p>Arguments: the directory for the savepoint; {@code long_long} (key n holds 7 n + 3) or {@code string_pojo} (key "user-" and
 * seven digits of n holds {@link Customer} n); the number of keys; the {@link Variant}.
 */
public final class BenchSavepoint {

    public static void main(String[] arguments) throws Exception {
        Path output = Files.createDirectories(Path.of(arguments[0]).toAbsolutePath());
        Variant variant = Variant.parse(arguments[3]);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(variant.configuration(output.toUri().toString()));
        JobGraph graph = job(env, arguments[1], Long.parseLong(arguments[2]));
        try (Cluster cluster = new Cluster(2, 20 * 1024)) {
            JobID job = cluster.start(graph);
            IdleSource.awaitEmitted();
            cluster.savepoint(job, output, variant.savepointFormat());
            cluster.cancel(job);
        }
    }

    /** The job, in two subtasks, which adds as many keys to its state. */
    static JobGraph job(StreamExecutionEnvironment env, String kind, long keys) {
        env.setParallelism(2);
        env.setMaxParallelism(128);
        env.getConfig().enableObjectReuse();
        DataStream<Long> numbers = env.addSource(new Numbers(keys), "numbers", Types.LONG).uid("numbers").setParallelism(1);
        switch (kind) {
            case "long_long" -> numbers.keyBy(number -> number, Types.LONG)
                    .process(new Keep<Long, Long>("LONG", number -> 7 * number + 3))
                    .uid("bench");
            case "string_pojo" -> numbers.keyBy(number -> String.format("user-%07d", number), Types.STRING)
                    .process(new Keep<String, Customer>("POJO<" + Customer.class.getName() + ">", Customer::numbered))
                    .uid("bench");
            default -> throw new IllegalArgumentException("no such benchmark: " + kind);
        }
        return env.getStreamGraph().getJobGraph();
    }

    /** Emits the numbers from 0. */
    private static final class Numbers extends IdleSource<Long> {
        private final long count;

        Numbers(long count) {
            this.count = count;
        }

        @Override
        void emit(SourceContext<Long> context) {
            for (long number = 0; number < count; number++) {
                context.collect(number);
            }
        }
    }

    /** Keeps what is made of a number, under the number's key. */
    private static final class Keep<K, V> extends KeyedProcessFunction<K, Long, Void> implements CheckpointedFunction {
        private final String type;
        private final KeySelector<Long, V> make; // a key selector because that is a serializable function
        private transient ValueState<V> state;

        Keep(String type, KeySelector<Long, V> make) {
            this.type = type;
            this.make = make;
        }

        @Override
        @SuppressWarnings("unchecked")
        public void initializeState(FunctionInitializationContext context) {
            state = (ValueState<V>) context.getKeyedStateStore().getState(new ValueStateDescriptor<>("value", Labels.type(type)));
        }

        @Override
        public void processElement(Long number, Context context, Collector<Void> out) throws Exception {
            state.update(make.getKey(number));
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}
    }

    private BenchSavepoint() {}
}
