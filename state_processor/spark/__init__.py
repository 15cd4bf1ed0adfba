"""All that uses Spark: the data sources, the engine that runs a write as jobs, differences between versions.

Packages that build an application for Spark import the names of ``__init__.pyi`` from here: ``SnapshotDataSource``, of which a
format is made, and ``rows_of_parts``, which reads parts of snapshots in tasks. They may change in a minor version.
"""

from __future__ import annotations

from state_processor import lazy_names

__getattr__, __dir__ = lazy_names(__name__, "__init__.pyi")
