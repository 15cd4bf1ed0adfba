package io.stateprocessor.interop;

import java.util.concurrent.atomic.LongAdder;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackend;
import org.apache.flink.runtime.state.StateBackend;
import org.apache.flink.runtime.state.hashmap.HashMapStateBackend;
import org.apache.flink.state.api.OperatorIdentifier;
import org.apache.flink.state.api.SavepointReader;
import org.apache.flink.state.api.functions.KeyedStateReaderFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.SinkFunction;
import org.apache.flink.util.Collector;

/**
 * Reads the savepoint of {@link BenchSavepoint} with Flink's State Processor API and prints how many keys it has.
 *
 * <p>Arguments: its directory, {@code long_long} or {@code string_pojo}, and {@code hashmap} or {@code rocksdb}.
 */
public final class ReadBench {

    private static final LongAdder KEYS = new LongAdder();

    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2);
        env.setRuntimeMode(RuntimeExecutionMode.BATCH);
        env.getConfig().enableObjectReuse();
        StateBackend backend =
                arguments[2].equals("rocksdb") ? new EmbeddedRocksDBStateBackend() : new HashMapStateBackend();
        SavepointReader savepoint = SavepointReader.read(env, arguments[0], backend);
        switch (arguments[1]) {
            case "long_long" -> read(savepoint, Types.LONG, Types.LONG);
            case "string_pojo" -> read(savepoint, Types.STRING, Types.POJO(Customer.class));
            default -> throw new IllegalArgumentException("no such benchmark: " + arguments[1]);
        }
        env.execute();
        System.out.println(KEYS.sum());
    }

    private static <K, V> void read(SavepointReader savepoint, TypeInformation<K> key, TypeInformation<V> value)
            throws Exception {
        savepoint
                .readKeyedState(OperatorIdentifier.forUid("bench"), new Values<K, V>(value), key, value)
                .addSink(new Count<>());
    }

    /** Gives the value of each key. */
    private static final class Values<K, V> extends KeyedStateReaderFunction<K, V> {
        private final TypeInformation<V> type;
        private transient ValueState<V> state;

        Values(TypeInformation<V> type) {
            this.type = type;
        }

        @Override
        public void open(Configuration parameters) {
            state = getRuntimeContext().getState(new ValueStateDescriptor<>("value", type));
        }

        @Override
        public void readKey(K key, Context context, Collector<V> out) throws Exception {
            out.collect(state.value());
        }
    }

    /** Counts values; all tasks are in this process. */
    private static final class Count<V> implements SinkFunction<V> {
        @Override
        public void invoke(V value, SinkFunction.Context context) {
            KEYS.increment();
        }
    }
}
