"""Bytes of one value: Flink's type serializers and their snapshots. No files, no Spark."""
