package io.stateprocessor.interop;

import org.apache.flink.api.java.functions.KeySelector;

/** The key of a step, by its index. */
record StepKey(String caseName) implements KeySelector<Integer, Object> {

    @Override
    public Object getKey(Integer index) {
        return FixtureCase.named(caseName).steps().get(index).key();
    }
}
