"""Avro records in Flink's encoding.

``records`` is Flink's serializer; ``schema`` makes the types of a schema: ``scalars``, ``logical``, ``containers``.
``reader_schema`` resolves a reader's schema.
"""
