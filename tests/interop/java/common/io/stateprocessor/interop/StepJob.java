package io.stateprocessor.interop;

import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Builds jobs whose operators apply {@link Steps} to their states. */
final class StepJob {

    /** The uid of the source of steps. */
    static final String SOURCE = "steps";

    /** The uid of the operator before the one that has states. */
    static String filterOf(OperatorSpec operator) {
        return "only-" + operator.id();
    }

    static DataStream<Integer> source(StreamExecutionEnvironment env, String job, long watermark) {
        return env.addSource(new StepSource(job, watermark), SOURCE, Types.INT).uid(SOURCE).setParallelism(1);
    }

    static DataStream<Integer> anonymousSource(StreamExecutionEnvironment env, String job) {
        return env.addSource(new StepSource(job, Long.MIN_VALUE), SOURCE, Types.INT).setParallelism(1);
    }

    static void addOperators(DataStream<Integer> steps, String job, List<OperatorSpec> operators) {
        for (OperatorSpec operator : operators) {
            String id = operator.id();
            DataStream<Integer> own = // as parallel as the source, so that the steps keep their order
                    steps.filter(index -> Steps.get(job, index).operator().equals(id))
                            .setParallelism(1)
                            .uid(filterOf(operator))
                            .name(filterOf(operator));
            identify(
                    operator.keyType() == null
                            ? own.broadcast().process(new ListsFunction(job, operator))
                            : keyed(own.keyBy(index -> Steps.get(job, index).key(), Labels.type(operator.keyType())), job, operator),
                    operator);
        }
    }

    private static SingleOutputStreamOperator<Void> keyed(KeyedStream<Integer, Object> own, String job, OperatorSpec operator) {
        return operator.asynchronous()
                ? AsynchronousState.process(own, job, operator)
                : own.process(new KeyedFunction(job, operator));
    }

    /** Gives an operator the identity that its state is found by. */
    static void identify(SingleOutputStreamOperator<?> stream, OperatorSpec operator) {
        stream.name(operator.id());
        if (operator.uid() != null) {
            stream.uid(operator.uid());
        } else {
            stream.setUidHash(operator.uidHash());
        }
    }

    private StepJob() {}
}
