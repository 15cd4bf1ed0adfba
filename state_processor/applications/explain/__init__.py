"""Explanations of restores that failed: a trace of Flink, the snapshot and the new job give the cause and the repair."""
