package io.stateprocessor.interop;

import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;

/** A source that decides itself when it emits, under the name that Flink 2.x has for it. */
interface LegacySource<T> extends SourceFunction<T> {}
