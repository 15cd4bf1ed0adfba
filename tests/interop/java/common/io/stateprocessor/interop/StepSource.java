package io.stateprocessor.interop;

import org.apache.flink.streaming.api.watermark.Watermark;

/** Emits the indexes of a job's steps, then a watermark. */
final class StepSource extends IdleSource<Integer> {

    private final String job;
    private final long watermark;

    StepSource(String job, long watermark) {
        this.job = job;
        this.watermark = watermark;
    }

    @Override
    void emit(SourceContext<Integer> context) {
        for (int index = 0; index < Steps.count(job); index++) {
            context.collectWithTimestamp(index, Steps.get(job, index).timestamp());
        }
        context.emitWatermark(new Watermark(watermark));
    }
}
