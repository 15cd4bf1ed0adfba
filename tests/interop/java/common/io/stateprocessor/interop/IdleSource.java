package io.stateprocessor.interop;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A source that emits all it has and then stays, so that a savepoint can be taken. */
abstract class IdleSource<T> implements LegacySource<T> {

    private static volatile CountDownLatch emitted = new CountDownLatch(1);

    private volatile boolean running = true;

    IdleSource() {
        emitted = new CountDownLatch(1);
    }

    /** Waits until the source made last has emitted everything: a barrier sent from now on comes after it. */
    static void awaitEmitted() throws InterruptedException {
        if (!emitted.await(10, TimeUnit.MINUTES)) {
            throw new IllegalStateException("the source did not emit its input in 10 minutes");
        }
    }

    abstract void emit(SourceContext<T> context);

    @Override
    public void run(SourceContext<T> context) throws Exception {
        synchronized (context.getCheckpointLock()) {
            emit(context);
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
