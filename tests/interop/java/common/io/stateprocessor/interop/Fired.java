package io.stateprocessor.interop;

import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Stream;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** What timers and windows of the running job did when their time came. */
final class Fired {

    private static final long MINUTES = 5;
    private static final ConcurrentLinkedQueue<JsonNode> ALL = new ConcurrentLinkedQueue<>();

    /** Notes an operator, a key, a window or time domain, and a window's contents or a timestamp. */
    static void add(String operator, Object key, Object what, Object content) {
        Object shown = what instanceof Enum<?> domain ? domain.name() : what;
        ALL.add(Json.array(Stream.of(operator, key, shown, content).map(Json::of).toList()));
    }

    static void clear() {
        ALL.clear();
    }

    static void await(int count) throws InterruptedException {
        long deadline = System.nanoTime() + MINUTES * 60_000_000_000L;
        while (ALL.size() < count) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("of " + count + " timers and windows, these fired: " + ALL);
            }
            Thread.sleep(20);
        }
    }

    static List<JsonNode> sorted() {
        return Json.sorted(ALL.stream());
    }

    private Fired() {}
}
