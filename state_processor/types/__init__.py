"""What users pass: types, states to write, operators and durations, and how they are written as text.

``flink_types`` has ``Types`` and the types of Flink SQL, ``state_specs`` the states to write. ``type_parser`` parses
types, ``type_of_column`` finds the type of a column without one. ``declared_types`` and ``python_types`` are types that users
give for stored states. ``identifier`` and ``durations`` check other arguments. ``answers`` has what checks return.
"""
