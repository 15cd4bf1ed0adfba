"""Registry of the readers of serializer snapshots: Flink's own, and those that users register."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Final

from state_processor.serializers.errors import UnknownSerializerError
from state_processor.serializers.io import DataInput
from state_processor.serializers.user_registrations import SnapshotReader, current_registrations, install, register

ENTRY_POINT_GROUP: Final = "state_processor.serializers"


_FAMILIES: Final = (
    "core.basic",
    "core.collections",
    "core.temporal",
    "core.arrays",
    "core.tuples",
    "core.rows",
    "core.either",
    "core.nullable",
    "core.enums",
    "core.user_code",
    "core.pojo",
    "runtime.namespaces",
    "runtime.wrapping",
    "runtime.ttl",
    "runtime.timers",
    "runtime.stream_records",
    "runtime.two_phase_commit",
    "runtime.java_objects",
    "runtime.cep",
    "kryo.serializer",
    "avro.records",
    "runtime.gelly",
    "core.legacy",
    "table.rowdata",
    "runtime.scala",
    "table.operator_records",
    "table.python_rows",
)
"""Modules of this package that register Flink's own snapshot classes."""

_ADAPTER_VERSION: Final = 0x7A53C4F0  # a TypeSerializerConfigSnapshot

_FLINK: Final[dict[str, SnapshotReader]] = {}
"""Readers of Flink's own snapshot classes: constant once all modules are imported."""


def register_snapshot(class_name: str, snapshot: SnapshotReader) -> None:
    """Register a serializer snapshot class.

    Parameters
    ----------
    class_name
        The Java class as the savepoint names it, with ``$`` before nested classes: ``com.acme.MoneySerializerSnapshot``.
    snapshot
        A subclass of ``TypeSerializerSnapshot``, usually of ``SimpleTypeSerializerSnapshot`` or
        ``CompositeTypeSerializerSnapshot``.
    """
    register(lambda registered: registered.with_snapshot(class_name, snapshot))


def provide_snapshots(names: Iterable[str], snapshot: SnapshotReader) -> None:
    """Add the reader of one of Flink's own snapshot classes, under each name that Flink has given it."""
    _FLINK.update(dict.fromkeys(names, snapshot))


def find_snapshot_class(class_name: str, version: int, source: DataInput, offset: int) -> SnapshotReader:
    """Return the reader of a snapshot class.

    Raises
    ------
    UnknownSerializerError
        If there is none. Snapshots have no length, so the bytes after it can't be read.
    """
    _load_families()
    found = current_registrations().snapshots.get(class_name) or _FLINK.get(class_name)
    if found is None and version == _ADAPTER_VERSION:
        raise UnknownSerializerError(
            f"{source.source}, offset {offset}: the serializer snapshot {class_name} is of a class from before Flink 1.7, whose "
            "format is unknown. Restore the savepoint with Flink 1.7 to 1.16 and take another one."
        )
    if found is None:
        raise UnknownSerializerError(
            f"{source.source}, offset {offset}: the serializer snapshot {class_name} (version {version}) is unknown, and "
            "Flink gives it no length to step over. Register a reader for it with register_snapshot(); a serializer without "
            "configuration needs a subclass of SimpleTypeSerializerSnapshot only."
        )
    return found


@cache
def _load_families() -> None:
    for family in _FAMILIES:
        import_module(f"state_processor.serializers.{family}")
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        install(entry_point.load)
