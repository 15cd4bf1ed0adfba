"""Snapshots, for packages that build an application: where they are, what is in their ``_metadata``, and their files.

``SnapshotAccess.open`` of :mod:`state_processor.options` returns a ``Snapshot``. Its operators are in ``metadata``;
:func:`operators` and :func:`states` are tables of them. The names are listed in ``snapshots.pyi``, and may change in a minor
version.
"""

from __future__ import annotations

from state_processor import lazy_names

__getattr__, __dir__ = lazy_names(__name__, "snapshots.pyi")
