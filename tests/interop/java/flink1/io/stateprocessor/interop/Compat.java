package io.stateprocessor.interop;

import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.time.Time;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.streaming.api.datastream.WindowedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.Window;

/** What Flink 1.x and 2.x call by different names; this is Flink 1.x. */
final class Compat {

    static StateTtlConfig ttlOfDays(long days) {
        return StateTtlConfig.newBuilder(Time.days(days)).build();
    }

    static <T> TypeSerializer<T> serializer(TypeInformation<T> type) {
        return type.createSerializer(new ExecutionConfig());
    }

    static void registerPojo(StreamExecutionEnvironment env, Class<?> type) {
        env.getConfig().registerPojoType(type);
    }

    static int subtask(RuntimeContext context) {
        return context.getIndexOfThisSubtask();
    }

    static int parallelism(RuntimeContext context) {
        return context.getNumberOfParallelSubtasks();
    }

    static int maxParallelism(RuntimeContext context) {
        return context.getMaxNumberOfParallelSubtasks();
    }

    static TumblingEventTimeWindows tumbling(long millis) {
        return TumblingEventTimeWindows.of(org.apache.flink.streaming.api.windowing.time.Time.milliseconds(millis));
    }

    static SlidingEventTimeWindows sliding(long millis, long slideMillis) {
        return SlidingEventTimeWindows.of(org.apache.flink.streaming.api.windowing.time.Time.milliseconds(millis), org.apache.flink.streaming.api.windowing.time.Time.milliseconds(slideMillis));
    }

    static <T, K, W extends Window> WindowedStream<T, K, W> lateness(WindowedStream<T, K, W> windows, long millis) {
        return windows.allowedLateness(org.apache.flink.streaming.api.windowing.time.Time.milliseconds(millis));
    }

    static EventTimeSessionWindows session(long gapMillis) {
        return EventTimeSessionWindows.withGap(org.apache.flink.streaming.api.windowing.time.Time.milliseconds(gapMillis));
    }

    private Compat() {}
}
