"""Sinks with a write-ahead log, such as the one of Cassandra."""
