"""Serializers of flink-core.

Flink's types: ``basic``, ``temporal`` (with ``time_values``), ``arrays``, ``collections``, ``tuples``, ``rows``, ``either``,
``nullable``, ``enums``, ``pojo`` (with ``pojo_fields``, ``pojo_entries``) and ``user_code``. ``scalars`` is the table of scalar
types. ``templates`` holds base classes for serializers of other packages. ``opaque`` and ``unread`` represent values that are
not decoded. ``legacy`` reads the snapshots of Flink 1.6 and earlier.
"""
