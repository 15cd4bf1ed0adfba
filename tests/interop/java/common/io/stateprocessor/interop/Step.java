package io.stateprocessor.interop;

/**
 * One change to one state. What the value is depends on the state: of MAP and BROADCAST an {@link java.util.Map.Entry}, of timers the
 * timestamp, of LIST, REDUCING and AGGREGATING what is added; null clears the state for the key.
 */
record Step(String operator, String state, Object key, Object value) {

    /** The event time of the step: that of its event if it is about one. */
    long timestamp() {
        if (value instanceof Event event) {
            return event.time;
        } else if (value instanceof fixtures.Event event) {
            return event.time;
        }
        return value instanceof Timed timed ? timed.time() : FixtureCase.START;
    }
}
