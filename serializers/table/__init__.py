"""Flink SQL's types, binary rows and single values, and PyFlink's coders.

Types: ``logical_types`` has their classes. ``type_descriptors`` has one row for each: its names, its Java class and the codecs of
its values. ``logical_type_text`` parses types, ``logical_type_objects`` reads and writes them and the serializers of
their values as Java objects.

Values, lowest first: ``binary_values`` (values in Python and their conversion), ``sql_limits`` (rules such as NOT NULL),
``binary_slots`` (the layout of a value inside a row), ``single_values`` and ``python_values`` (values outside
of rows). Above the descriptors: ``binary_format`` (rows, arrays, maps), ``rowdata`` (their serializers) and ``row_names``.

Operators of SQL: ``operator_records``, ``record_comparators``. PyFlink: ``python_rows`` (its table runtime)
and ``python_state`` (coders of its DataStream API, pickles).
"""
