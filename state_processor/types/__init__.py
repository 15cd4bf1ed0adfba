"""What users pass: types, states to write, operators and durations, and how they are written as text.

``flink_types`` has ``Types`` and the types of Flink SQL, ``state_specs`` the states to write. ``declared_types`` has types that
users give for stored states, also as text, and the type of a column without one. ``identifier`` and ``durations`` check other
arguments. ``answers`` has what checks return.
"""
