package io.stateprocessor.interop;

import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.java.tuple.Tuple2;

/** The mean of longs; its accumulator is (sum, count), declared Object as every state value is here. */
final class Average implements AggregateFunction<Object, Object, Object> {

    @Override
    public Object createAccumulator() {
        return Tuple2.of(0L, 0L);
    }

    @Override
    @SuppressWarnings("unchecked")
    public Object add(Object value, Object accumulator) {
        Tuple2<Long, Long> sum = (Tuple2<Long, Long>) accumulator;
        return Tuple2.of(sum.f0 + (Long) value, sum.f1 + 1);
    }

    @Override
    @SuppressWarnings("unchecked")
    public Object merge(Object left, Object right) {
        Tuple2<Long, Long> a = (Tuple2<Long, Long>) left;
        Tuple2<Long, Long> b = (Tuple2<Long, Long>) right;
        return Tuple2.of(a.f0 + b.f0, a.f1 + b.f1);
    }

    @Override
    @SuppressWarnings("unchecked")
    public Object getResult(Object accumulator) {
        Tuple2<Long, Long> sum = (Tuple2<Long, Long>) accumulator;
        return (double) sum.f0 / sum.f1;
    }
}
