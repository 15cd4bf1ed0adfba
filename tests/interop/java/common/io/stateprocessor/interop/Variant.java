package io.stateprocessor.interop;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;

/** A way to take a snapshot: BACKEND-canonical, BACKEND-native (savepoints) or BACKEND-incremental (a checkpoint). */
record Variant(String backend, String format) {

    static Variant parse(String text) {
        String[] parts = text.split("-");
        return new Variant(parts[0], parts[1]);
    }

    boolean isCheckpoint() {
        return format.equals("incremental");
    }

    SavepointFormatType savepointFormat() {
        return SavepointFormatType.valueOf(format.toUpperCase(java.util.Locale.ROOT));
    }

    /** The job's configuration; keys that Flink renamed are set under both names. */
    Configuration configuration(String checkpointUri) {
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", backend);
        settings.setString("state.backend.incremental", Boolean.toString(isCheckpoint()));
        settings.setString("execution.checkpointing.incremental", Boolean.toString(isCheckpoint()));
        settings.setString("state.checkpoints.dir", checkpointUri);
        settings.setString("execution.checkpointing.dir", checkpointUri);
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        settings.setString("restart-strategy.type", "none");
        settings.setString("restart-strategy", "none");
        return settings;
    }
}
