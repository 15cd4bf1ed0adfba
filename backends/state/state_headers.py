"""Headers of state files: the registered states and their serializers. Equal headers are read once.

Flink: ``KeyedBackendSerializationProxy``, ``OperatorBackendSerializationProxy``, ``StateMetaInfoSnapshot``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar

from state_processor.backends.state.header_parts import (
    BACKEND_TYPES,
    JAVA_OBJECTS,
    Ends,
    EndUnknownError,
    Rest,
    read_registration,
    read_snapshot_proxy,
    stepping_over,
    write_snapshot_proxy,
)
from state_processor.backends.state.header_parts import KEY as KEY
from state_processor.backends.state.header_parts import KEY_VALUE as KEY_VALUE
from state_processor.backends.state.header_parts import KEY_VALUE_V2 as KEY_VALUE_V2
from state_processor.backends.state.header_parts import NAMESPACE as NAMESPACE
from state_processor.backends.state.header_parts import PRIORITY_QUEUE as PRIORITY_QUEUE
from state_processor.backends.state.header_parts import SERIALIZER_SNAPSHOTS as SERIALIZER_SNAPSHOTS
from state_processor.backends.state.header_parts import USER_KEY as USER_KEY
from state_processor.backends.state.header_parts import VALUE as VALUE
from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.unread import UnreadSnapshot
from state_processor.serializers.format_versions import FormatVersions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.registry import Registrations, current_registrations
from state_processor.support.errors import (
    CorruptSnapshotError,
    ForeignCodeError,
    StateProcessorError,
    UnknownSerializerError,
    message_of,
    qualified_name,
    third_party_errors,
)

KEYED_VERSION: Final = 6
"""Version of keyed headers; every Flink since 1.7 writes it."""
OPERATOR_VERSION: Final = 5
"""Version of operator headers; every Flink since 1.7 reads it. 1.18 and later write 6."""
KEYED_STATE: Final = FormatVersions("keyed state", {KEYED_VERSION: "1.7"}, JAVA_OBJECTS)
OPERATOR_STATE: Final = FormatVersions("operator state", {OPERATOR_VERSION: "1.7", OPERATOR_VERSION + 1: "1.18"}, JAVA_OBJECTS)

KEYED_STATE_TYPE: Final = "KEYED_STATE_TYPE"
DISTRIBUTION_MODE: Final = "OPERATOR_STATE_DISTRIBUTION_MODE"


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
        """Restore the serializer of a role, such as :data:`VALUE`."""
        if role not in self.serializers:
            raise CorruptSnapshotError(
                f"state {self.name!r} does not have a {role}, only {', '.join(self.serializers) or 'a name'}"
            )
        try:
            with third_party_errors(f"state {self.name!r}"):
                restored = self.serializers[role].restore_serializer()
                if not isinstance(restored, Codec):  # of a state that is migrated, a codec without a snapshot
                    self._refuse_restored(self.serializers[role], restored)
            return restored
        except UnknownSerializerError as problem:
            raise UnknownSerializerError(f"state {self.name!r}: {problem}") from problem

    def _refuse_restored(self, snapshot: TypeSerializerSnapshot, restored: object) -> None:
        culprit = f"{qualified_name(type(snapshot))}.restore_serializer"
        error = TypeError(f"expected a TypeSerializer, found a {type(restored).__name__}")
        raise ForeignCodeError(message_of(f"state {self.name!r}", culprit, error)) from error

    @classmethod
    def read(cls, source: DataInput, ends: Ends | None = None) -> StateMetaInfo:
        """Read the state at ``source``."""
        name, backend_type, options, count = read_registration(source)
        try:
            serializers = {source.read_utf(): read_snapshot_proxy(source, ends, f"state {name!r}: ") for _ in range(count)}
        except EndUnknownError as problem:
            raise EndUnknownError(f"state {name!r}: {problem}") from None
        return cls(name, backend_type, options, serializers)

    @classmethod
    def read_without_serializers(cls, source: DataInput, reason: str) -> StateMetaInfo:
        """Read the state at ``source``. Its serializers can't be read for a known reason."""
        name, ordinal = source.read_utf(), source.read_int()
        options = {source.read_utf(): source.read_utf() for _ in range(source.read_count("options", 4))}
        unread = UnreadSnapshot("", 0, None, f"state {name!r}: {reason}")
        return cls(name, BACKEND_TYPES[ordinal], options, dict.fromkeys((NAMESPACE, VALUE), unread))

    def write(self, target: DataOutput) -> None:
        """Write the bytes that :meth:`read` reads."""
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
        """Read the header at ``source``."""
        return stepping_over(source, cls._read, cls._begin)

    @classmethod
    def _read(cls, source: DataInput, ends: Ends) -> KeyedHeader:
        start = source.position
        version = source.read_int()
        KEYED_STATE.check(version, source.source, start, source.flink_major)
        compressed = source.read_boolean()
        key = read_snapshot_proxy(source, ends)
        return cls(version, compressed, key, _read_states(source, ends))

    @staticmethod
    def _begin(source: DataInput) -> Rest:
        source.skip(5, "version")
        return Rest(lists=1, keys=1)

    def write(self, target: DataOutput) -> None:
        """Write the bytes that :meth:`read` reads."""
        target.write_int(self.version)
        target.write_boolean(self.compressed)
        write_snapshot_proxy(self.key, target)
        _write_states(self.states, target)

    @property
    def snapshots(self) -> Iterator[TypeSerializerSnapshot]:
        """The serializer snapshots in the header."""
        yield self.key
        yield from _snapshots(self.states)

    def state_id(self, name: str) -> int:
        """Return the position of a state; -1 if the file does not contain it."""
        return next((i for i, s in enumerate(self.states) if s.name == name), -1)


@dataclass(frozen=True, slots=True)
class OperatorHeader:
    """Start of an operator state file (Flink: ``OperatorBackendSerializationProxy``). ``size``: its bytes when it was read."""

    version: int
    compressed: bool
    lists: tuple[StateMetaInfo, ...]
    broadcasts: tuple[StateMetaInfo, ...]
    size: int = field(default=0, compare=False)

    @classmethod
    def read(cls, source: DataInput) -> OperatorHeader:
        """Read the header at ``source``."""
        return stepping_over(source, cls._read, cls._begin)

    @classmethod
    def _read(cls, source: DataInput, ends: Ends) -> OperatorHeader:
        start = source.position
        version = source.read_int()
        OPERATOR_STATE.check(version, source.source, start, source.flink_major)
        compressed = source.read_boolean() if version > OPERATOR_VERSION else False
        lists, broadcasts = _read_states(source, ends), _read_states(source, ends)
        return cls(version, compressed, lists, broadcasts, source.position - start)

    @staticmethod
    def _begin(source: DataInput) -> Rest:
        if source.read_int() > OPERATOR_VERSION:
            source.read_boolean()
        return Rest(lists=2)

    def write(self, target: DataOutput) -> None:
        """Write the bytes that :meth:`read` reads."""
        target.write_int(self.version)
        if self.version > OPERATOR_VERSION:
            target.write_boolean(self.compressed)
        _write_states(self.lists, target)
        _write_states(self.broadcasts, target)

    @property
    def snapshots(self) -> Iterator[TypeSerializerSnapshot]:
        """The serializer snapshots in the header."""
        yield from _snapshots(self.states)

    @property
    def states(self) -> tuple[StateMetaInfo, ...]:
        """List states, then broadcast states."""
        return *self.lists, *self.broadcasts

    def state(self, name: str) -> StateMetaInfo | None:
        """Return a state by name; ``None`` if the file does not contain it."""
        return next((s for s in self.states if s.name == name), None)


def _snapshots(states: Iterable[StateMetaInfo]) -> Iterator[TypeSerializerSnapshot]:
    return (snapshot for state in states for snapshot in state.serializers.values())


def _read_states(source: DataInput, ends: Ends) -> tuple[StateMetaInfo, ...]:
    start = source.position
    count = source.read_short()
    if count < 0 or count * 14 > source.remaining:
        raise source.corrupt(f"{count} states announced; {source.remaining} bytes left", start)
    return tuple(StateMetaInfo.read(source, ends) for _ in range(count))


def _write_states(states: tuple[StateMetaInfo, ...], target: DataOutput) -> None:
    target.write_short(len(states))
    for state in states:
        state.write(target)


KEPT: Final = 32
"""Number of headers in the cache, and of results about them."""

DESCRIBED: Final = 256
"""Number of states of these headers in each cache of something about a state."""

Header = TypeVar("Header", KeyedHeader, OperatorHeader)


def read_header(read: Callable[[DataInput], Header], data: bytes | memoryview, context: str, flink_major: int) -> Header:
    """Read a header, or return the header that was read from the same bytes before.

    ``read``: function that reads the header. ``data``: the start of the file, with at least the header. ``context``: the file,
    for messages. ``flink_major``: the major version of the Flink that wrote it.
    """
    header = _header_of(read, bytes(data), flink_major, current_registrations())
    return header or read(DataInput(data, context, flink_major=flink_major))


@lru_cache(maxsize=KEPT)
def _header_of(read: Callable[[DataInput], Header], data: bytes, flink_major: int, registrations: Registrations) -> Header | None:
    """Return a header that is read without a problem; ``None`` otherwise: then a message has to name the file.

    The result depends on ``registrations``.
    """
    try:
        header = read(DataInput(data, "", flink_major=flink_major))
    except StateProcessorError:
        return None
    return None if any(isinstance(snapshot, UnreadSnapshot) for snapshot in header.snapshots) else header


class Same:
    """The key of a cache, equal to keys with the same objects. Objects may be unhashable; the key keeps them alive."""

    __slots__ = ("objects",)

    def __init__(self, *objects: Any) -> None:
        self.objects = objects

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.objects)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and [*map(id, self.objects)] == [*map(id, other.objects)]
