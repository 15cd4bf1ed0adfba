package io.stateprocessor.interop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.state.v2.AggregatingStateDescriptor;
import org.apache.flink.api.common.state.v2.ListState;
import org.apache.flink.api.common.state.v2.ListStateDescriptor;
import org.apache.flink.api.common.state.v2.MapState;
import org.apache.flink.api.common.state.v2.MapStateDescriptor;
import org.apache.flink.api.common.state.v2.ReducingStateDescriptor;
import org.apache.flink.api.common.state.v2.State;
import org.apache.flink.api.common.state.v2.StateDescriptor;
import org.apache.flink.api.common.state.v2.StateFuture;
import org.apache.flink.api.common.state.v2.ValueState;
import org.apache.flink.api.common.state.v2.ValueStateDescriptor;
import org.apache.flink.runtime.state.v2.internal.InternalStateAccessible;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.core.state.StateFutureUtils;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.util.function.ThrowingConsumer;

/** Operators with asynchronous state, of Flink 2.x. */
final class AsynchronousState {

    static SingleOutputStreamOperator<Void> process(KeyedStream<Integer, Object> stream, String job, OperatorSpec operator) {
        return stream.enableAsyncState().process(new AsynchronousFunction(job, operator));
    }

    static <T, K> KeyedStream<T, K> enabled(KeyedStream<T, K> stream) {
        return stream.enableAsyncState();
    }

    static OneInputStreamOperator<Integer, Void> dump(OperatorSpec operator) {
        return new AsynchronousOperator(operator, false);
    }

    static OneInputStreamOperator<Integer, Void> fill(OperatorSpec operator) {
        return new AsynchronousOperator(operator, true);
    }

    static StateDescriptor<?> descriptor(StateSpec spec) {
        String name = spec.name();
        StateDescriptor<?> descriptor =
                switch (spec.kind()) {
                    case VALUE -> new ValueStateDescriptor<>(name, Labels.type(spec.valueType()));
                    case LIST -> new ListStateDescriptor<>(name, Labels.type(spec.valueType()));
                    case MAP -> new MapStateDescriptor<>(name, Labels.type(spec.mapKeyType()), Labels.type(spec.valueType()));
                    case REDUCING -> new ReducingStateDescriptor<>(name, new Sum(), Labels.type(spec.valueType()));
                    case AGGREGATING -> new AggregatingStateDescriptor<>(name, new Average(), Labels.type(spec.valueType()));
                    default -> throw new IllegalArgumentException(name + " is no keyed state");
                };
        if (spec.ttl()) {
            descriptor.enableTimeToLive(Compat.ttlOfDays(StateSpec.TTL_DAYS));
        }
        return descriptor;
    }

    /** Puts the value of an entry into the state of the current key and namespace. */
    @SuppressWarnings("unchecked")
    static void put(StateSpec spec, State state, JsonNode value) {
        if (state instanceof ValueState) {
            ((ValueState<Object>) state).asyncUpdate(Values.fromJson(spec.valueType(), value));
        } else if (state instanceof MapState) {
            for (JsonNode pair : value) { // ForSt can't read what asyncPutAll writes
                Object key = Values.fromJson(spec.mapKeyType(), pair.get(0));
                ((MapState<Object, Object>) state).asyncPut(key, Values.fromJson(spec.valueType(), pair.get(1)));
            }
        } else if (state instanceof ListState) {
            List<Object> elements = new ArrayList<>();
            value.forEach(element -> elements.add(Values.fromJson(spec.valueType(), element)));
            ((ListState<Object>) state).asyncUpdate(elements);
        } else {
            ((InternalStateAccessible<Object>) state).asyncUpdateInternal(Values.fromJson(spec.valueType(), value));
        }
    }

    /** Hands over the value under the current key and namespace, of AGGREGATING the accumulator, if there is one. */
    @SuppressWarnings("unchecked")
    static void read(StateSpec spec, State state, ThrowingConsumer<JsonNode, Exception> found) {
        if (state instanceof MapState) {
            Map<Object, Object> entries = new LinkedHashMap<>();
            ((MapState<Object, Object>) state)
                    .asyncEntries()
                    .thenCompose(
                            iterator ->
                                    iterator.onNext(
                                            entry -> {
                                                Object key = Labels.plain(spec.mapKeyType(), entry.getKey());
                                                entries.put(key, Labels.plain(spec.valueType(), entry.getValue()));
                                            }))
                    .thenAccept(done -> hand(entries.isEmpty() ? null : entries, found));
        } else if (state instanceof ListState) {
            List<Object> elements = new ArrayList<>();
            ((ListState<Object>) state)
                    .asyncGet()
                    .thenCompose(
                            iterator -> // which is null where there is no list
                                    iterator == null
                                            ? StateFutureUtils.completedVoidFuture()
                                            : iterator.onNext(
                                                    element -> {
                                                        elements.add(Labels.plain(spec.valueType(), element));
                                                    }))
                    .thenAccept(done -> hand(elements.isEmpty() ? null : elements, found));
        } else {
            StateFuture<Object> value =
                    state instanceof ValueState
                            ? ((ValueState<Object>) state).asyncValue()
                            : ((InternalStateAccessible<Object>) state).asyncGetInternal();
            value.thenAccept(stored -> hand(Labels.plain(spec.valueType(), stored), found));
        }
    }

    private static void hand(Object value, ThrowingConsumer<JsonNode, Exception> found) throws Exception {
        if (value != null) {
            found.accept(Json.of(value));
        }
    }

    private AsynchronousState() {}
}
