"""Headers of state files: the registered states and their serializers.

Flink: ``KeyedBackendSerializationProxy``, ``OperatorBackendSerializationProxy``, ``StateMetaInfoSnapshot``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from state_processor.serializers.base import (
    TypeSerializer,
    TypeSerializerSnapshot,
    read_versioned_snapshot,
    write_versioned_snapshot,
)
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.unread import UnreadSnapshot
from state_processor.serializers.errors import (
    CorruptSnapshotError,
    ForeignCodeError,
    StateProcessorError,
    UnknownSerializerError,
)
from state_processor.serializers.format_versions import FormatVersions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.third_party import message_of, qualified_name, third_party_errors

KEYED_VERSION: Final = 6
"""Version of keyed headers; every Flink since 1.7 writes it."""
OPERATOR_VERSION: Final = 5
"""Version of operator headers; every Flink since 1.7 reads it. 1.18 and later write 6."""
_JAVA_OBJECTS: Final = "its serializers are Java objects; restore it in Flink 1.8 to 1.16 and take a new savepoint"
KEYED_STATE: Final = FormatVersions("keyed state", {KEYED_VERSION: "1.7"}, _JAVA_OBJECTS)
OPERATOR_STATE: Final = FormatVersions("operator state", {OPERATOR_VERSION: "1.7", OPERATOR_VERSION + 1: "1.18"}, _JAVA_OBJECTS)

KEY_VALUE: Final = "KEY_VALUE"
PRIORITY_QUEUE: Final = "PRIORITY_QUEUE"
KEY_VALUE_V2: Final = "KEY_VALUE_V2"
"""Registered kind of keyed state of the asynchronous API (Flink 2) with ForSt. Other backends register ``KEY_VALUE``."""
BACKEND_TYPES: Final = (KEY_VALUE, "OPERATOR", "BROADCAST", PRIORITY_QUEUE, KEY_VALUE_V2)
"""``StateMetaInfoSnapshot.BackendStateType`` by ordinal. Headers store the ordinal."""

KEYED_STATE_TYPE: Final = "KEYED_STATE_TYPE"
DISTRIBUTION_MODE: Final = "OPERATOR_STATE_DISTRIBUTION_MODE"
KEY: Final = "KEY_SERIALIZER"
NAMESPACE: Final = "NAMESPACE_SERIALIZER"
USER_KEY: Final = "USER_KEY_SERIALIZER"
VALUE: Final = "VALUE_SERIALIZER"

_PROXY_VERSION: Final = 2
SERIALIZER_SNAPSHOTS: Final = FormatVersions("the frame of serializer snapshots", {_PROXY_VERSION: "1.7"}, _JAVA_OBJECTS)
_ROLES: Final = frozenset({KEY, NAMESPACE, USER_KEY, VALUE})
_MOST_ATTEMPTS: Final = 500
"""Maximum number of attempts to read a header, when the ends of unreadable snapshots are searched."""
_MOST_OPTIONS: Final = 8
_T = TypeVar("_T")

Ends = Mapping[int, tuple[int, str]]
"""Ends of unreadable snapshots by their starts, and the reasons."""


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
        """Restore the serializer of a role, such as :data:`VALUE`.

        Raises
        ------
        CorruptSnapshotError
            If the state does not have a serializer in that role.
        UnknownSerializerError
            If a serializer inside it is not known.
        ForeignCodeError
            If a snapshot class of a user fails.
        """
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
        found = TypeError(f"expected a TypeSerializer, found a {type(restored).__name__}")
        raise ForeignCodeError(message_of(f"state {self.name!r}", culprit, found)) from found

    @classmethod
    def read(cls, source: DataInput, ends: Ends | None = None) -> StateMetaInfo:
        """Read the state at ``source``.

        Raises
        ------
        UnknownSerializerError
            If a serializer snapshot can't be read, and ``ends`` does not contain it.
        """
        name = source.read_utf()
        start = source.position
        if ends and not (name and name.isprintable()):  # an attempt at a wrong position, a few bytes before the name
            raise source.corrupt(f"{name!r} is not the name of a state", start)
        ordinal = source.read_int()
        if not 0 <= ordinal < len(BACKEND_TYPES):
            raise source.corrupt(f"state {name!r} has backend type {ordinal}; Flink does not write this type", start)
        options = {source.read_utf(): source.read_utf() for _ in range(source.read_count("options", 4))}
        count = source.read_count("serializers", 6)
        try:
            serializers = {source.read_utf(): read_snapshot_proxy(source, ends) for _ in range(count)}
        except _EndUnknownError as problem:
            raise problem.of_state(name) from None
        return cls(name, BACKEND_TYPES[ordinal], options, serializers)

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
        """Read the header at ``source``.

        Raises
        ------
        UnsupportedFormatError
            If the version of the header is not known.
        UnknownSerializerError
            If a serializer snapshot can't be read, and the following bytes don't determine its end.
        """
        return _stepping_over(source, cls._read)

    @classmethod
    def _read(cls, source: DataInput, ends: Ends) -> KeyedHeader:
        start = source.position
        version = source.read_int()
        KEYED_STATE.check(version, source.source, start, source.flink_major)
        compressed = source.read_boolean()
        key = read_snapshot_proxy(source, ends)
        return cls(version, compressed, key, _read_states(source, ends))

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
        """Read the header at ``source``.

        Raises
        ------
        UnsupportedFormatError
            If the version of the header is not known.
        UnknownSerializerError
            As for :meth:`KeyedHeader.read`.
        """
        return _stepping_over(source, cls._read)

    @classmethod
    def _read(cls, source: DataInput, ends: Ends) -> OperatorHeader:
        start = source.position
        version = source.read_int()
        OPERATOR_STATE.check(version, source.source, start, source.flink_major)
        compressed = source.read_boolean() if version > OPERATOR_VERSION else False
        lists, broadcasts = _read_states(source, ends), _read_states(source, ends)
        return cls(version, compressed, lists, broadcasts, source.position - start)

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


def read_snapshot_proxy(source: DataInput, ends: Ends | None = None) -> TypeSerializerSnapshot:
    """Read a proxy version and a snapshot (Flink: ``TypeSerializerSnapshotSerializationUtil``)."""
    start = source.position
    version = source.read_int()
    SERIALIZER_SNAPSHOTS.check(version, source.source, start, source.flink_major)
    if ends is not None and start in ends:
        end, reason = ends[start]
        class_name, snapshot_version = source.read_utf(), source.read_int()
        return UnreadSnapshot(class_name, snapshot_version, source.read_bytes(end - source.position), reason)
    try:
        return read_versioned_snapshot(source)
    except UnknownSerializerError as problem:
        if ends is None:
            raise
        raise _EndUnknownError(str(problem), start) from problem


class _EndUnknownError(UnknownSerializerError):
    """An unreadable snapshot, and its start."""

    def __init__(self, message: str, start: int) -> None:
        super().__init__(message)
        self.start = start

    def of_state(self, name: str) -> _EndUnknownError:
        """Return the error with the name of the state."""
        return _EndUnknownError(f"state {name!r}: {self}", self.start)


def _stepping_over(source: DataInput, read: Callable[[DataInput, Ends], _T]) -> _T:
    """Read a header, and skip unreadable serializer snapshots.

    The length of a snapshot is not stored, but the end of the header is known. Exactly one possible end of the snapshot has to
    lead to the end of the header.
    """
    start = source.position
    try:
        return read(source, {})
    except _EndUnknownError as problem:
        found = _completions(source, start, read, {}, problem, iter(range(_MOST_ATTEMPTS)))
        if len(found) != 1:
            raise UnknownSerializerError(str(problem)) from problem
        end, header = found[0]
        source.position = end
        return header


def _completions(
    source: DataInput,
    start: int,
    read: Callable[[DataInput, Ends], _T],
    ends: Ends,
    problem: _EndUnknownError,
    attempts: Iterator[int],
) -> list[tuple[int, _T]]:
    """Return up to two ways to read the header to its end, each with its end.

    Raises
    ------
    UnknownSerializerError
        If ``attempts`` are used up: the ways multiply with the number of unreadable snapshots.
    """
    found: list[tuple[int, _T]] = []
    for end in _possible_ends(source, problem.start):
        if next(attempts, None) is None:
            raise UnknownSerializerError(str(problem))
        source.position = start
        more = {**ends, problem.start: (end, str(problem))}
        try:
            header = read(source, more)
        except _EndUnknownError as other:
            if other.start >= end:
                found += _completions(source, start, read, more, other, attempts)
        except (StateProcessorError, ValueError):
            continue
        else:
            if source.at_end():
                found.append((source.position, header))
        if len(found) > 1:
            return found[:2]
    return found


def _possible_ends(source: DataInput, start: int) -> Iterator[int]:
    """Yield possible ends of a snapshot: the header's end, or the start of another serializer, a state, or a number of states."""
    source.position = start + 4
    source.read_utf()
    source.read_int()
    for end in range(source.position, source.end):
        if _is_serializer_or_state(source, end) or _is_count_of_states(source, end):
            yield end
    yield source.end


def _is_serializer_or_state(source: DataInput, position: int) -> bool:
    size = int.from_bytes(source.data[position : position + 2], "big")
    if not 0 < size <= source.end - position - 6:  # most positions; an error for each would take long
        return False
    source.position = position
    try:
        name = source.read_utf()
        if name in _ROLES:
            return source.read_int() == _PROXY_VERSION
        is_state = bool(name) and name.isprintable() and 0 <= source.read_int() < len(BACKEND_TYPES)
        return is_state and 0 <= source.read_int() <= _MOST_OPTIONS
    except (StateProcessorError, ValueError):
        return False


def _is_count_of_states(source: DataInput, position: int) -> bool:
    source.position = position
    if source.remaining < 2:
        return False
    count = source.read_short()
    return (count == 0 and source.at_end()) or (count > 0 and _is_serializer_or_state(source, position + 2))


def write_snapshot_proxy(snapshot: TypeSerializerSnapshot, target: DataOutput) -> None:
    """Write the bytes that :func:`read_snapshot_proxy` reads."""
    target.write_int(_PROXY_VERSION)
    write_versioned_snapshot(snapshot, target)


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
