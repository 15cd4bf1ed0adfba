"""Flink SQL's types, binary rows and single values, and PyFlink's coders.

Types: ``logical_types`` has their classes. ``type_descriptors`` has one row for each: its names, its Java class and the codecs of
its values. ``logical_type_text`` parses types, ``logical_type_objects`` reads and writes them as Java objects, and
``serializer_objects`` the serializers of their values.

Values, lowest first: ``binary_values`` (values in Python and their conversion), ``sql_limits`` (rules such as NOT NULL),
``binary_slots`` (the layout of a value inside a row), ``single_values``, ``days_and_times`` and ``python_values`` (values outside
of rows). Above the descriptors: ``binary_format`` (rows, arrays, maps), ``rowdata`` (their serializers), ``row_names`` and
``row_evolution``.

Operators of SQL: ``linked_lists``, ``operator_records``, ``record_comparators``. PyFlink: ``python_rows`` (its table runtime),
``python_coders`` (its DataStream API), ``python_state`` and ``pickles``.
"""
