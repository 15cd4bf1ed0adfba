"""Serializers of flink-core.

Scalar types: ``basic``, ``temporal`` (with ``time_values``), and ``fixed_width`` for types of users. ``basic`` describes one,
``scalars`` is the table of all.

Types with nested types: ``arrays``, ``collections``, ``rows`` (with tuples), ``nullable`` (with ``Either``), and ``pojo`` (with
``pojo_fields``). ``enums`` and ``self_written`` are of classes of users.

``templates`` has base classes for serializers of other packages. ``unread`` stands for snapshots that can't be read and values
that are not decoded. ``legacy`` reads the snapshots of Flink 1.6 and earlier.
"""
