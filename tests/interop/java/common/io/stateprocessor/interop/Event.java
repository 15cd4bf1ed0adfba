package io.stateprocessor.interop;

/** What the window operators count. */
public class Event {
    public String user;
    public long amount;
    public long time;

    public Event() {}

    public Event(String user, long amount, long time) {
        this.user = user;
        this.amount = amount;
        this.time = time;
    }
}
