package io.stateprocessor.interop;

import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.KeyValueGroupedDataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessorWithInitialState;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;

/** A running count per key in the JVM of Spark, as {@code Counts} in Python. Rows begin with the key. */
public final class SparkCounts extends StatefulProcessorWithInitialState<String, Row, Row, Row> {
    private static final MapFunction<Row, String> KEY = row -> row.getString(0);

    private transient ValueState<Long> count;

    /** The stream with the processor, from the first counts. */
    public static Dataset<Row> counted(Dataset<Row> stream, Dataset<Row> initial) {
        KeyValueGroupedDataset<String, Row> first = initial.groupByKey(KEY, Encoders.STRING());
        StructType result = new StructType().add("customer", "string").add("count", "long");
        return stream.groupByKey(KEY, Encoders.STRING())
                .transformWithState(
                        new SparkCounts(),
                        TimeMode.None(),
                        OutputMode.Update(),
                        first,
                        Encoders.row(result),
                        Encoders.row(initial.schema()));
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
        count = getHandle().getValueState("count", Encoders.LONG(), TTLConfig.NONE());
    }

    @Override
    public void handleInitialState(String key, Row initialState, TimerValues timerValues) {
        count.update(initialState.getLong(1));
    }

    @Override
    public Iterator<Row> handleInputRows(String key, Iterator<Row> rows, TimerValues timerValues) {
        long sum = count.exists() ? count.get() : 0;
        for (; rows.hasNext(); rows.next()) {
            sum++;
        }
        count.update(sum);
        return Iterator.single(RowFactory.create(key, sum));
    }
}
