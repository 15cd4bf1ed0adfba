"""Conversion of values of one type to another.

``resolution`` implements Flink's rules for evolving schemas. ``migration`` and ``migrated_values`` convert types and values of
Flink 1.x to 2.x, by the types that ``kryo/user_classes`` infers. ``migration`` also tells which releases of Flink read a
serializer snapshot.
"""
