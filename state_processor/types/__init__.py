"""What users pass: types, states to write, operators and durations, and how they are written as text.

``flink_types`` has ``Types`` and the types of Flink SQL, ``state_specs`` the states to write. ``declared_types`` has types that
users give for stored states, also as text, and the type of a column without one. ``identifier`` and ``durations`` check other
arguments. ``answers`` has what checks return.

Packages that build an application import the names of ``__init__.pyi`` from here: serializers of stored values beside those of
:mod:`state_processor.serializers`, and visits of their parts. They may change in a minor version.
"""

from __future__ import annotations

from state_processor import lazy_names

__getattr__, __dir__ = lazy_names(__name__, "__init__.pyi")
