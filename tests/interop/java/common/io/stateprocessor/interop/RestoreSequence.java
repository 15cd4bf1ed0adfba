package io.stateprocessor.interop;

import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;

/**
 * Restores a sequence of numbers with the uid "sequence" and prints which numbers it still gives, and how often.
 *
 * <p>Arguments: the savepoint, as a URI, and the parallelism.
 */
public final class RestoreSequence {

    private RestoreSequence() {}

    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        // The option's name in Flink 1, and in Flink 2
        configuration.setString("execution.savepoint.path", arguments[0]);
        configuration.setString("execution.state-recovery.path", arguments[0]);
        configuration.setString("rest.bind-port", "0");
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        environment.setParallelism(Integer.parseInt(arguments[1]));
        Map<Long, Integer> given = new TreeMap<>();
        try (CloseableIterator<Long> numbers =
                environment
                        .fromSource(new NumberSequenceSource(1, 1000), WatermarkStrategy.noWatermarks(), "sequence")
                        .uid("sequence")
                        .executeAndCollect()) {
            numbers.forEachRemaining(number -> given.merge(number, 1, Integer::sum));
        }
        System.out.println(given);
    }
}
