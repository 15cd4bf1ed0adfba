"""Avro records in Flink's encoding: types, schemas, resolution of a reader's schema."""
