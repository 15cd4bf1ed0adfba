package io.stateprocessor.interop;

import org.apache.flink.api.connector.sink2.Sink;

/** A sink. */
interface BaseSink extends Sink<String> {}
