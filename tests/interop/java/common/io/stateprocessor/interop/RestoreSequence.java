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
 * <p>Arguments: savepoints, as URIs, each followed by a parallelism; a line is printed for each.
 */
public final class RestoreSequence {

    private RestoreSequence() {}

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < arguments.length; i += 2) {
            System.out.println(restored(arguments[i], Integer.parseInt(arguments[i + 1])));
        }
    }

    private static Map<Long, Integer> restored(String savepoint, int parallelism) throws Exception {
        Configuration configuration = new Configuration();
        // The option's name in Flink 1, and in Flink 2
        configuration.setString("execution.savepoint.path", savepoint);
        configuration.setString("execution.state-recovery.path", savepoint);
        configuration.setString("rest.bind-port", "0");
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        environment.setParallelism(parallelism);
        Map<Long, Integer> given = new TreeMap<>();
        try (CloseableIterator<Long> numbers =
                environment
                        .fromSource(new NumberSequenceSource(1, 1000), WatermarkStrategy.noWatermarks(), "sequence")
                        .uid("sequence")
                        .executeAndCollect()) {
            numbers.forEachRemaining(number -> given.merge(number, 1, Integer::sum));
        }
        return given;
    }
}
