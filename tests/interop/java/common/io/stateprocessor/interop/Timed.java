package io.stateprocessor.interop;

/** A value of a step that has an event time of its own. */
interface Timed {

    long time();
}
