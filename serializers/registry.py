"""Which Python class reads which of Flink's serializer snapshot classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final, Protocol

from state_processor.serializers.errors import UnknownSerializerError
from state_processor.serializers.io import DataInput

if TYPE_CHECKING:
    from state_processor.serializers.base import TypeSerializerSnapshot

ENTRY_POINT_GROUP: Final = "state_processor.serializers"


class SnapshotReader(Protocol):
    """What the registry holds: a snapshot class, or anything that reads like one."""

    def read(self, class_name: str, version: int, source: DataInput) -> TypeSerializerSnapshot:
        """The snapshot whose payload lies at ``source``."""


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

_REGISTERED: Final[dict[str, SnapshotReader]] = {}
_INSTALLED: Final[dict[str, SnapshotReader]] = {}
"""Those of Flink and of installed packages, which every process finds by itself."""


def register_snapshot(class_name: str, snapshot: SnapshotReader | type[TypeSerializerSnapshot]) -> None:
    """Make a serializer snapshot class known.

    Parameters
    ----------
    class_name
        The Java class as the savepoint names it, with ``$`` before nested classes: ``com.acme.MoneySerializerSnapshot``.
    snapshot
        A subclass of ``TypeSerializerSnapshot``, usually of ``SimpleTypeSerializerSnapshot`` or
        ``CompositeTypeSerializerSnapshot``.
    """
    _REGISTERED[class_name] = snapshot  # type: ignore[assignment]


def register_snapshots(names: Iterable[str], snapshot: SnapshotReader | type[TypeSerializerSnapshot]) -> None:
    """Make several names of one snapshot class known: Flink has renamed and moved some."""
    for name in names:
        register_snapshot(name, snapshot)


def find_snapshot_class(class_name: str, version: int, source: DataInput, offset: int) -> SnapshotReader:
    """The class that reads a snapshot.

    Raises
    ------
    UnknownSerializerError
        If there is none. Snapshots have no length, so nothing after this one can be read.
    """
    _load_families()
    found = _REGISTERED.get(class_name)
    if found is None and version == _ADAPTER_VERSION:
        raise UnknownSerializerError(
            f"{source.source}, offset {offset}: the serializer snapshot {class_name} is of a class from before Flink 1.7, whose "
            "content only that class knows. Restore the savepoint with Flink 1.7 to 1.16 and take another one."
        )
    if found is None:
        raise UnknownSerializerError(
            f"{source.source}, offset {offset}: the serializer snapshot {class_name} (version {version}) is not known, and "
            "Flink gives it no length to step over. Register a reader for it with register_snapshot(); a serializer without "
            "configuration needs a subclass of SimpleTypeSerializerSnapshot only."
        )
    return found


@cache
def _load_families() -> None:
    by_users = dict(_REGISTERED)
    for family in _FAMILIES:
        import_module(f"state_processor.serializers.{family}")
    _REGISTERED.update(by_users)  # a reader that a user has put in the place of Flink's own stays there
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        registration: Callable[[], None] = entry_point.load()
        registration()
    _INSTALLED.update({name: found for name, found in _REGISTERED.items() if by_users.get(name) is not found})


def user_snapshots() -> dict[str, SnapshotReader]:
    """The snapshot classes that were registered by calls in this process, not by what is installed."""
    _load_families()
    return {name: found for name, found in _REGISTERED.items() if _INSTALLED.get(name) is not found}
