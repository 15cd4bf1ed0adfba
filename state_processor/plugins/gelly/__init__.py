"""Gelly, Flink's graph library: serializers of its arrays of values."""
