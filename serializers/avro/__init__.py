"""Avro records in Flink's encoding.

``records`` contains Flink's serializer. ``schema`` converts a schema to types: ``scalars`` (also logical types) and
``containers``. ``reader_schema`` resolves a reader's schema.
"""
