"""Headers of state files: which states they hold and with which serializers.

Flink: ``KeyedBackendSerializationProxy``, ``OperatorBackendSerializationProxy``, ``StateMetaInfoSnapshot``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from state_processor.serializers.base import (
    TypeSerializer,
    TypeSerializerSnapshot,
    read_versioned_snapshot,
    write_versioned_snapshot,
)
from state_processor.serializers.errors import CorruptSnapshotError, UnsupportedFormatError
from state_processor.serializers.io import DataInput, DataOutput

KEYED_VERSION: Final = 6
"""What every Flink since 1.7 writes."""
OPERATOR_VERSION: Final = 5
"""What every Flink since 1.7 reads; 1.18 and later write 6."""

BACKEND_TYPES: Final = ("KEY_VALUE", "OPERATOR", "BROADCAST", "PRIORITY_QUEUE", "KEY_VALUE_V2")
"""``StateMetaInfoSnapshot.BackendStateType`` by ordinal, which is what headers store."""

KEYED_STATE_TYPE: Final = "KEYED_STATE_TYPE"
DISTRIBUTION_MODE: Final = "OPERATOR_STATE_DISTRIBUTION_MODE"
KEY: Final = "KEY_SERIALIZER"
NAMESPACE: Final = "NAMESPACE_SERIALIZER"
USER_KEY: Final = "USER_KEY_SERIALIZER"
VALUE: Final = "VALUE_SERIALIZER"

_PROXY_VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class StateMetaInfo:
    """One registered state (Flink: ``StateMetaInfoSnapshot``).

    ``options`` and ``serializers`` keep the order of the bytes, so that writing gives the same bytes.
    """

    name: str
    backend_type: str
    options: dict[str, str] = field(default_factory=dict)
    serializers: dict[str, TypeSerializerSnapshot] = field(default_factory=dict)

    def restore(self, role: str) -> TypeSerializer:
        """The serializer of a role, such as :data:`VALUE`.

        Raises
        ------
        CorruptSnapshotError
            If the state has none in that role.
        """
        if role not in self.serializers:
            raise CorruptSnapshotError(f"state {self.name!r} has no {role}, only {', '.join(self.serializers) or 'nothing'}")
        return self.serializers[role].restore_serializer()

    @classmethod
    def read(cls, source: DataInput) -> StateMetaInfo:
        """The state at ``source``."""
        name = source.read_utf()
        start = source.position
        ordinal = source.read_int()
        if not 0 <= ordinal < len(BACKEND_TYPES):
            raise source.corrupt(f"state {name!r} has backend type {ordinal}, which no Flink writes", start)
        options = {source.read_utf(): source.read_utf() for _ in range(source.read_count("options", 4))}
        serializers = {source.read_utf(): read_snapshot_proxy(source) for _ in range(source.read_count("serializers", 6))}
        return cls(name, BACKEND_TYPES[ordinal], options, serializers)

    def write(self, target: DataOutput) -> None:
        """The inverse of :meth:`read`."""
        target.write_utf(self.name)
        target.write_int(BACKEND_TYPES.index(self.backend_type))
        target.write_int(len(self.options))
        for key, value in self.options.items():
            target.write_utf(key)
            target.write_utf(value)
        target.write_int(len(self.serializers))
        for role, snapshot in self.serializers.items():
            target.write_utf(role)
            write_snapshot_proxy(snapshot, target)


@dataclass(frozen=True, slots=True)
class KeyedHeader:
    """Start of a keyed state file (Flink: ``KeyedBackendSerializationProxy``). A state's id is its position in ``states``."""

    version: int
    compressed: bool
    key: TypeSerializerSnapshot
    states: tuple[StateMetaInfo, ...]

    @classmethod
    def read(cls, source: DataInput) -> KeyedHeader:
        """The header at ``source``.

        Raises
        ------
        UnsupportedFormatError
            If Flink 1.6 or older wrote it.
        """
        start = source.position
        version = source.read_int()
        if version != KEYED_VERSION:
            raise _unsupported(source, "keyed", version, range(1, KEYED_VERSION), start)
        compressed = source.read_boolean()
        key = read_snapshot_proxy(source)
        return cls(version, compressed, key, _read_states(source))

    def write(self, target: DataOutput) -> None:
        """The inverse of :meth:`read`."""
        target.write_int(self.version)
        target.write_boolean(self.compressed)
        write_snapshot_proxy(self.key, target)
        _write_states(self.states, target)

    def state_id(self, name: str) -> int:
        """Position of a state; -1 where this file does not hold it."""
        return next((i for i, s in enumerate(self.states) if s.name == name), -1)


@dataclass(frozen=True, slots=True)
class OperatorHeader:
    """Start of an operator state file (Flink: ``OperatorBackendSerializationProxy``), of ``size`` bytes where it was read."""

    version: int
    compressed: bool
    lists: tuple[StateMetaInfo, ...]
    broadcasts: tuple[StateMetaInfo, ...]
    size: int = field(default=0, compare=False)

    @classmethod
    def read(cls, source: DataInput) -> OperatorHeader:
        """The header at ``source``.

        Raises
        ------
        UnsupportedFormatError
            If Flink 1.6 or older wrote it.
        """
        start = source.position
        version = source.read_int()
        if version not in (OPERATOR_VERSION, OPERATOR_VERSION + 1):
            raise _unsupported(source, "operator", version, range(1, OPERATOR_VERSION), start)
        compressed = source.read_boolean() if version > OPERATOR_VERSION else False
        lists, broadcasts = _read_states(source), _read_states(source)
        return cls(version, compressed, lists, broadcasts, source.position - start)

    def write(self, target: DataOutput) -> None:
        """The inverse of :meth:`read`."""
        target.write_int(self.version)
        if self.version > OPERATOR_VERSION:
            target.write_boolean(self.compressed)
        _write_states(self.lists, target)
        _write_states(self.broadcasts, target)

    def state(self, name: str) -> StateMetaInfo | None:
        """A state by name; ``None`` where this file does not hold it."""
        return next((s for s in (*self.lists, *self.broadcasts) if s.name == name), None)


def read_snapshot_proxy(source: DataInput) -> TypeSerializerSnapshot:
    """A snapshot behind its proxy version (Flink: ``TypeSerializerSnapshotSerializationUtil``)."""
    start = source.position
    version = source.read_int()
    if version != _PROXY_VERSION:
        raise source.corrupt(f"serializer snapshot of proxy version {version}, {_PROXY_VERSION} is the one known", start)
    return read_versioned_snapshot(source)


def write_snapshot_proxy(snapshot: TypeSerializerSnapshot, target: DataOutput) -> None:
    """The inverse of :func:`read_snapshot_proxy`."""
    target.write_int(_PROXY_VERSION)
    write_versioned_snapshot(snapshot, target)


def _read_states(source: DataInput) -> tuple[StateMetaInfo, ...]:
    start = source.position
    count = source.read_short()
    if count < 0 or count * 14 > source.remaining:
        raise source.corrupt(f"{count} states announced, {source.remaining} bytes left", start)
    return tuple(StateMetaInfo.read(source) for _ in range(count))


def _write_states(states: tuple[StateMetaInfo, ...], target: DataOutput) -> None:
    target.write_short(len(states))
    for state in states:
        state.write(target)


def _unsupported(source: DataInput, kind: str, version: int, old: range, start: int) -> Exception:
    if version in old:
        return UnsupportedFormatError(
            f"{source.source}, offset {start}: {kind} state of format version {version}, written by Flink 1.6 or older. "
            "Its serializers are Java objects; restore it in Flink 1.8 to 1.16 and take a new savepoint."
        )
    return source.corrupt(f"{kind} state of format version {version}, which no Flink writes", start)
