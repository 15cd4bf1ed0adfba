package io.stateprocessor.interop;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.flink.streaming.api.watermark.Watermark;

/** Emits the indexes of some steps of a case, then a watermark, and then stays, so that a savepoint can be taken. */
final class StepSource implements LegacySource<Integer> {

    private static volatile CountDownLatch emitted = new CountDownLatch(1);

    private final String caseName;
    private final int from;
    private final int to;
    private volatile boolean running = true;

    StepSource(String caseName, int from, int to) {
        this.caseName = caseName;
        this.from = from;
        this.to = to;
        emitted = new CountDownLatch(1);
    }

    /** Waits until the source made last has emitted everything: a barrier sent from now on comes after it. */
    static void awaitEmitted() throws InterruptedException {
        if (!emitted.await(5, TimeUnit.MINUTES)) {
            throw new IllegalStateException("the source did not emit its input in 5 minutes");
        }
    }

    @Override
    public void run(SourceContext<Integer> context) throws Exception {
        FixtureCase fixture = FixtureCase.named(caseName);
        synchronized (context.getCheckpointLock()) {
            for (int index = from; index < to; index++) {
                context.collectWithTimestamp(index, fixture.steps().get(index).timestamp());
            }
            context.emitWatermark(new Watermark(fixture.watermark()));
        }
        emitted.countDown();
        while (running) {
            Thread.sleep(20);
        }
    }

    @Override
    public void cancel() {
        running = false;
    }
}
