"""Splits of sources: Kafka, files, sequences, hybrid sources."""
