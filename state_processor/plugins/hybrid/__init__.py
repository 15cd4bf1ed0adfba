"""Flink's hybrid source, which reads one source after the other."""
