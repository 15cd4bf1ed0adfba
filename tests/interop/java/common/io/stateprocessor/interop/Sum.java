package io.stateprocessor.interop;

import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.java.tuple.Tuple2;

/** Adds longs, and events and numbers that have the same owner. */
final class Sum implements ReduceFunction<Object> {

    @Override
    public Object reduce(Object left, Object right) {
        if (left instanceof Event a && right instanceof Event b) {
            return new Event(a.user, a.amount + b.amount, Math.max(a.time, b.time));
        }
        if (left instanceof Tuple2<?, ?> a && right instanceof Tuple2<?, ?> b) {
            return Tuple2.of(a.f0, (Long) a.f1 + (Long) b.f1);
        }
        return (Long) left + (Long) right;
    }
}
