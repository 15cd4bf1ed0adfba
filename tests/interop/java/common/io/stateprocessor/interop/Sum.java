package io.stateprocessor.interop;

import org.apache.flink.api.common.functions.ReduceFunction;

/** Adds longs, and events of one user. */
final class Sum implements ReduceFunction<Object> {

    @Override
    public Object reduce(Object left, Object right) {
        if (left instanceof Event a && right instanceof Event b) {
            return new Event(a.user, a.amount + b.amount, Math.max(a.time, b.time));
        }
        return (Long) left + (Long) right;
    }
}
