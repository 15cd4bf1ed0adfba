"""Serializers of flink-core.

Scalar types: ``basic``, ``temporal``, ``sql_times`` (with ``time_values`` and ``calendars``), and ``fixed_width`` for types of
users. ``scalar_type`` describes one, ``scalars`` is the table of all.

Types with nested types: ``arrays``, ``collections``, ``tuples``, ``rows``, ``nullable`` (with ``Either``), and
``pojo`` (with ``pojo_columns``, ``pojo_entries``, and ``optional_map`` of its snapshot). ``enums``
and ``self_written`` are of classes of users.

``templates`` has base classes for serializers of other packages. ``unread`` stands for values that are not decoded.
``legacy`` reads the snapshots of Flink 1.6 and earlier.
"""
