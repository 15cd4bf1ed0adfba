"""Conversion of values of one type to another.

``resolution`` implements Flink's rules for evolving schemas. ``migration`` and ``migrated_values`` convert types and values of
Flink 1.x to 2.x. They use the types that ``type_extractor`` infers for a class.
``releases`` tells which releases of Flink read a serializer snapshot.
``portable_type`` carries types to other processes.
"""
