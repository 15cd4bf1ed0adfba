package io.stateprocessor.interop;

import org.apache.flink.streaming.api.watermark.Watermark;

/** Emits the indexes of some steps of a case, then the case's watermark. */
final class StepSource extends IdleSource<Integer> {

    private final String caseName;
    private final int from;
    private final int to;

    StepSource(String caseName, int from, int to) {
        this.caseName = caseName;
        this.from = from;
        this.to = to;
    }

    @Override
    void emit(SourceContext<Integer> context) {
        FixtureCase fixture = FixtureCase.named(caseName);
        for (int index = from; index < to; index++) {
            context.collectWithTimestamp(index, fixture.steps().get(index).timestamp());
        }
        context.emitWatermark(new Watermark(fixture.watermark()));
    }
}
