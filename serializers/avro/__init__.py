"""Avro records in Flink's encoding.

``records`` contains Flink's serializer. It converts a schema to types: ``scalars`` (also logical types) and ``containers``.
"""
