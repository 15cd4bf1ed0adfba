package io.stateprocessor.interop;

import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;

/** A sink, with the method that only Flink 1.x has. */
interface BaseSink extends Sink<String> {
    @Override
    default SinkWriter<String> createWriter(InitContext context) {
        throw new UnsupportedOperationException("Flink calls the other method");
    }
}
