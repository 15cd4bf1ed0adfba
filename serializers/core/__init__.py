"""Serializers of flink-core.

``basic``, ``temporal`` (with ``time_values``), ``arrays``, ``collections``, ``tuples``, ``rows``, ``either``, ``nullable``,
``enums``, ``pojo`` (with ``pojo_fields``, ``pojo_entries``) and ``user_code`` are Flink's types; ``scalars`` is the table of
scalar types. ``templates`` has what serializers of other rooms are made of, ``opaque`` and ``unread`` stand in for what is not
decoded, ``legacy`` reads the snapshots of Flink 1.6 and before.
"""
