"""Flink SQL's types, binary rows and single values, and PyFlink's coders.

Types: ``logical_types`` has their classes. ``type_descriptors`` has one row for each: its names, its Java class and the codecs of
its values; it also parses types. ``logical_type_objects`` reads and writes types and the serializers of their values as Java
objects.

Values, lowest first: ``binary_values`` (values in Python, their conversion, rules such as NOT NULL), ``binary_slots`` (the layout
of a value inside a row), ``single_values`` (values outside of rows). Above the descriptors: ``binary_format`` (rows, arrays,
maps), ``rowdata`` (their serializers) and ``row_names``.

Operators of SQL: ``operator_records``. PyFlink: ``python_state`` (single values, coders of its DataStream API, pickles) and
``python_rows`` (its table runtime).
"""
