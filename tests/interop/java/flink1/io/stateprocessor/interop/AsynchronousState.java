package io.stateprocessor.interop;

import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;

/** Operators with asynchronous state, which Flink 1.x does not have. */
final class AsynchronousState {

    static SingleOutputStreamOperator<Void> process(KeyedStream<Integer, Object> stream, String job, OperatorSpec operator) {
        throw new UnsupportedOperationException("Flink 1.x has no asynchronous state: " + operator.id());
    }

    static <T, K> KeyedStream<T, K> enabled(KeyedStream<T, K> stream) {
        throw new UnsupportedOperationException("Flink 1.x has no asynchronous state");
    }

    static OneInputStreamOperator<Integer, Void> dump(OperatorSpec operator) {
        throw new UnsupportedOperationException("Flink 1.x has no asynchronous state: " + operator.id());
    }

    static OneInputStreamOperator<Integer, Void> fill(OperatorSpec operator) {
        throw new UnsupportedOperationException("Flink 1.x has no asynchronous state: " + operator.id());
    }

    private AsynchronousState() {}
}
