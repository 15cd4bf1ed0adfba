package io.stateprocessor.interop;

import java.time.Duration;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.streaming.api.datastream.WindowedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.Window;

/** What Flink 1.x and 2.x call by different names; this is Flink 2.x. */
final class Compat {

    static StateTtlConfig ttlOfDays(long days) {
        return StateTtlConfig.newBuilder(Duration.ofDays(days)).build();
    }

    static <T> TypeSerializer<T> serializer(TypeInformation<T> type) {
        return type.createSerializer(new SerializerConfigImpl());
    }

    static void registerPojo(StreamExecutionEnvironment env, Class<?> type) {
        ((SerializerConfigImpl) env.getConfig().getSerializerConfig()).registerPojoType(type);
    }

    static int subtask(RuntimeContext context) {
        return context.getTaskInfo().getIndexOfThisSubtask();
    }

    static int parallelism(RuntimeContext context) {
        return context.getTaskInfo().getNumberOfParallelSubtasks();
    }

    static int maxParallelism(RuntimeContext context) {
        return context.getTaskInfo().getMaxNumberOfParallelSubtasks();
    }

    static TumblingEventTimeWindows tumbling(long millis) {
        return TumblingEventTimeWindows.of(Duration.ofMillis(millis));
    }

    static SlidingEventTimeWindows sliding(long millis, long slideMillis) {
        return SlidingEventTimeWindows.of(Duration.ofMillis(millis), Duration.ofMillis(slideMillis));
    }

    static <T, K, W extends Window> WindowedStream<T, K, W> lateness(WindowedStream<T, K, W> windows, long millis) {
        return windows.allowedLateness(Duration.ofMillis(millis));
    }

    static EventTimeSessionWindows session(long gapMillis) {
        return EventTimeSessionWindows.withGap(Duration.ofMillis(gapMillis));
    }

    private Compat() {}
}
