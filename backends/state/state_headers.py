"""Headers of state files: the registered states and their serializers. Equal headers are read once.

Flink: ``KeyedBackendSerializationProxy``, ``OperatorBackendSerializationProxy``, ``StateMetaInfoSnapshot``,
``StateMetaInfoSnapshotReadersWriters``, ``TypeSerializerSnapshotSerializationUtil``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from state_processor.serializers.base import (
    TypeSerializer,
    TypeSerializerSnapshot,
    read_versioned_snapshot,
    write_versioned_snapshot,
)
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.unread import UnreadSnapshot
from state_processor.serializers.format_versions import ADAPTER_VERSION, FormatVersions
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
from state_processor.support.mappings import names_of

_JAVA_OBJECTS: Final = "its serializers are Java objects; restore it in Flink 1.8 to 1.16 and take a new savepoint"

KEY_VALUE: Final = "KEY_VALUE"
PRIORITY_QUEUE: Final = "PRIORITY_QUEUE"
KEY_VALUE_V2: Final = "KEY_VALUE_V2"
"""Registered kind of keyed state of the asynchronous API (Flink 2) with ForSt. Other backends register ``KEY_VALUE``."""
_BACKEND_TYPES: Final = (KEY_VALUE, "OPERATOR", "BROADCAST", PRIORITY_QUEUE, KEY_VALUE_V2)
"""``StateMetaInfoSnapshot.BackendStateType`` by ordinal. Headers store the ordinal."""

KEY: Final = "KEY_SERIALIZER"
NAMESPACE: Final = "NAMESPACE_SERIALIZER"
USER_KEY: Final = "USER_KEY_SERIALIZER"
VALUE: Final = "VALUE_SERIALIZER"

_PROXY_VERSION: Final = 2
SERIALIZER_SNAPSHOTS: Final = FormatVersions("the frame of serializer snapshots", {_PROXY_VERSION: "1.7"}, _JAVA_OBJECTS)
_ROLES: Final = frozenset({KEY, NAMESPACE, USER_KEY, VALUE})
_FRAMED_ROLES: Final = tuple(len(role).to_bytes(2, "big") + role.encode() for role in sorted(_ROLES))
_T = TypeVar("_T")


@dataclass(slots=True)
class Ends:
    """Ends of unreadable snapshots."""

    by_start: Mapping[int, tuple[int, str]] = field(default_factory=dict)  # the ends by the starts of the snapshots, with reasons
    trusts_frames: bool = False  # whether a snapshot with a frame ends behind its frame, as :func:`_least_end` has it
    used_frames: bool = False  # whether a snapshot was read so


def _read_registration(source: DataInput) -> tuple[str, str, dict[str, str], int]:
    """Read the part of a state in front of its serializers: name, type, options, and the number of serializers."""
    start = source.position
    name, ordinal = source.read_utf(), source.read_int()
    if not 0 <= ordinal < len(_BACKEND_TYPES):
        raise source.corrupt(f"state {name!r} has backend type {ordinal}; Flink does not write this type", start)
    options = {source.read_utf(): source.read_utf() for _ in range(source.read_count("options", 4))}
    return name, _BACKEND_TYPES[ordinal], options, source.read_count("serializers", 6)


def read_snapshot_proxy(source: DataInput, ends: Ends | None = None, context: str = "") -> TypeSerializerSnapshot:
    """Read a proxy version and a snapshot (Flink: ``TypeSerializerSnapshotSerializationUtil``)."""
    start, version = source.position, source.read_int()
    SERIALIZER_SNAPSHOTS.check(version, source.source, start, source.flink_major)
    if ends is not None and start in ends.by_start:
        return _unread(source, *ends.by_start[start], context)
    begin = source.position
    try:
        return read_versioned_snapshot(source)
    except UnknownSerializerError as problem:
        if ends is None:
            raise
        source.position = start
        end, is_framed = _least_end(source)
        if not (is_framed and ends.trusts_frames):
            raise _EndUnknownError(str(problem)) from problem
        ends.used_frames = True
        source.position = begin
        return _unread(source, end, str(problem), context)


def _unread(source: DataInput, end: int, reason: str, context: str) -> UnreadSnapshot:
    class_name, version = source.read_utf(), source.read_int()
    return UnreadSnapshot(class_name, version, source.read_bytes(end - source.position), context + reason)


def _write_snapshot_proxy(snapshot: TypeSerializerSnapshot, target: DataOutput) -> None:
    """Write the bytes that :func:`read_snapshot_proxy` reads."""
    target.write_int(_PROXY_VERSION)
    write_versioned_snapshot(snapshot, target)


class _EndUnknownError(UnknownSerializerError):
    """An unreadable snapshot whose end is not known."""


KEYED_VERSION: Final = 6
"""Version of keyed headers; every Flink since 1.7 writes it."""
OPERATOR_VERSION: Final = 5
"""Version of operator headers; every Flink since 1.7 reads it. 1.18 and later write 6."""
KEYED_STATE: Final = FormatVersions("keyed state", {KEYED_VERSION: "1.7"}, _JAVA_OBJECTS)
OPERATOR_STATE: Final = FormatVersions("operator state", {OPERATOR_VERSION: "1.7", OPERATOR_VERSION + 1: "1.18"}, _JAVA_OBJECTS)

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
        name, backend_type, options, count = _read_registration(source)
        try:
            serializers = {source.read_utf(): read_snapshot_proxy(source, ends, f"state {name!r}: ") for _ in range(count)}
        except _EndUnknownError as problem:
            raise _EndUnknownError(f"state {name!r}: {problem}") from None
        return cls(name, backend_type, options, serializers)

    @classmethod
    def read_without_serializers(cls, source: DataInput, reason: str) -> StateMetaInfo:
        """Read the state at ``source``. Its serializers can't be read for a known reason."""
        name, ordinal = source.read_utf(), source.read_int()
        options = {source.read_utf(): source.read_utf() for _ in range(source.read_count("options", 4))}
        unread = UnreadSnapshot("", 0, None, f"state {name!r}: {reason}")
        return cls(name, _BACKEND_TYPES[ordinal], options, dict.fromkeys((NAMESPACE, VALUE), unread))

    def write(self, target: DataOutput) -> None:
        """Write the bytes that :meth:`read` reads."""
        target.write_utf(self.name)
        target.write_int(_BACKEND_TYPES.index(self.backend_type))
        target.write_int(len(self.options))
        for key, value in self.options.items():
            target.write_utf(key)
            target.write_utf(value)
        target.write_int(len(self.serializers))
        for role, snapshot in self.serializers.items():
            target.write_utf(role)
            _write_snapshot_proxy(snapshot, target)


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
        return _stepping_over(source, cls._read, cls._begin)

    @classmethod
    def _read(cls, source: DataInput, ends: Ends) -> KeyedHeader:
        start = source.position
        version = source.read_int()
        KEYED_STATE.check(version, source.source, start, source.flink_major)
        compressed = source.read_boolean()
        key = read_snapshot_proxy(source, ends)
        return cls(version, compressed, key, _read_states(source, ends))

    @staticmethod
    def _begin(source: DataInput) -> _Rest:
        source.skip(5, "version")
        return _Rest(lists=1, keys=1)

    def write(self, target: DataOutput) -> None:
        """Write the bytes that :meth:`read` reads."""
        target.write_int(self.version)
        target.write_boolean(self.compressed)
        _write_snapshot_proxy(self.key, target)
        _write_states(self.states, target)

    @property
    def snapshots(self) -> Iterator[TypeSerializerSnapshot]:
        """The serializer snapshots in the header."""
        yield self.key
        yield from _snapshots(self.states)

    def state_id(self, name: str) -> int:
        """Return the position of a state; -1 if the file does not contain it."""
        names = names_of(self.states)
        return names.index(name) if name in names else -1


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
        return _stepping_over(source, cls._read, cls._begin)

    @classmethod
    def _read(cls, source: DataInput, ends: Ends) -> OperatorHeader:
        start = source.position
        version = source.read_int()
        OPERATOR_STATE.check(version, source.source, start, source.flink_major)
        compressed = source.read_boolean() if version > OPERATOR_VERSION else False
        lists, broadcasts = _read_states(source, ends), _read_states(source, ends)
        return cls(version, compressed, lists, broadcasts, source.position - start)

    @staticmethod
    def _begin(source: DataInput) -> _Rest:
        if source.read_int() > OPERATOR_VERSION:
            source.read_boolean()
        return _Rest(lists=2)

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
    return chain.from_iterable(state.serializers.values() for state in states)


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


# The ends of serializer snapshots that can't be read. Snapshots do not store their length; the ends follow from the rest of the
# header.

_WORK: Final = 4
"""Limit of the steps of a search for the ends of unreadable snapshots, for each byte of the header."""
_LEAST_WORK: Final = 1 << 22
_MOST_OPTIONS: Final = 8


def _stepping_over(source: DataInput, read: Callable[[DataInput, Ends], _T], begin: Callable[[DataInput], _Rest]) -> _T:
    """Read a header, and skip unreadable serializer snapshots.

    ``source``: the header, up to its end. ``read``: reads the header with known ends of unreadable snapshots. ``begin``: reads
    the part in front of the first snapshot or state; returns what follows it.
    """
    start, ends = source.position, Ends(trusts_frames=True)
    try:
        header = read(source, ends)
        if not ends.used_frames or source.at_end():
            return header
        reason: StateProcessorError = source.corrupt(f"the header ends here; {source.remaining} bytes are left")
    except StateProcessorError as problem:
        if not (ends.used_frames or isinstance(problem, _EndUnknownError)):
            raise
        reason = problem
    source.position = start
    unreadable = _EndSearch(source, begin(source)).ends()
    if unreadable is None:
        raise UnknownSerializerError(str(reason)) from reason
    source.position = start
    return read(source, Ends(unreadable))


class _Rest(NamedTuple):
    """What follows a position of a header: serializers of a state, states of a list, and lists of states."""

    serializers: int = 0
    states: int = 0
    lists: int = 0
    keys: int = 0
    """1 in front of the snapshot of the key, which does not have a role."""


class _Way(NamedTuple):
    """The next step on a way to the end of the header, and the number of ways."""

    position: int
    rest: _Rest
    ways: int


class _EndSearch:
    """Search for the ends of unreadable snapshots in a header.

    The length of a snapshot is not stored, but the end of the header is known. Exactly one way has to lead there. Positions where
    a serializer, a state or a list may start are visited once, from the last to the first: the ways from a position to the end of
    the header do not depend on what precedes it.

    ``source``: the header, at the first snapshot or list of states. ``rest``: what follows.
    """

    def __init__(self, source: DataInput, rest: _Rest) -> None:
        self._source = source
        self._root = (source.position, rest)
        starts = _possible_starts(source)
        self._counts = _possible_counts(source, starts)
        self._starts = sorted({*starts, *self._counts})
        self._remaining_work = _WORK * source.remaining + _LEAST_WORK
        self._unread: dict[int, str] = {}
        self._sums: dict[_Rest, list[_Way]] = {}
        self._ways_by_position: dict[int, dict[_Rest, _Way]] = {source.end: {_Rest(): _Way(source.end, _Rest(), 1)}}

    def ends(self) -> dict[int, tuple[int, str]] | None:
        """Return the ends of unreadable snapshots by their starts, with the reasons; ``None`` if they are not certain."""
        try:
            for position in (self._source.end, *reversed(self._starts)):
                self._sum(position)
            position, rest = self._root
            ways = dict(self._after_key(position)) if rest.keys else self._ways(position)
        except _TooMuchWorkError:
            return None
        if rest not in ways or ways[rest].ways != 1:
            return None
        ends: dict[int, tuple[int, str]] = {}
        way = ways[rest]
        while position != self._source.end:
            proxy = self._proxy_at(position, rest)
            if proxy in self._unread:
                ends[proxy] = (way.position, self._unread[proxy])
            position, rest = way.position, way.rest
            way = self._ways(position)[rest]
        return ends

    def _ways(self, position: int) -> dict[_Rest, _Way]:
        """Return the ways from a position to the end, by what has to follow."""
        if position not in self._ways_by_position:
            ways: dict[_Rest, _Way] = {}
            for step in (self._after_serializer, self._after_state, self._after_count):
                ways |= step(position)
            self._ways_by_position[position] = ways
        return self._ways_by_position[position]

    def _after_key(self, position: int) -> Iterator[tuple[_Rest, _Way]]:
        return ((rest._replace(keys=1), way) for rest, way in self._after_proxy(position))

    def _after_serializer(self, position: int) -> Iterator[tuple[_Rest, _Way]]:
        proxy = self._proxy_at(position, _Rest(serializers=1))
        ways = () if proxy < 0 else self._after_proxy(proxy)
        return ((rest._replace(serializers=rest.serializers + 1), way) for rest, way in ways if rest.serializers < len(_ROLES))

    def _after_state(self, position: int) -> Iterator[tuple[_Rest, _Way]]:
        try:
            name, _, _, serializers = self._at(position, _read_registration)
        except (StateProcessorError, ValueError):
            return
        if not (name and name.isprintable()):  # a wrong position, a few bytes before the name
            return
        for rest, way in self._ways_from(self._source.position):
            if rest.serializers == serializers:
                yield rest._replace(serializers=0, states=rest.states + 1), way

    def _after_count(self, position: int) -> Iterator[tuple[_Rest, _Way]]:
        if position not in self._counts:
            return
        states = self._at(position, DataInput.read_short)
        for rest, way in self._ways_from(position + 2):
            if (rest.serializers, rest.states) == (0, states) and rest.lists < self._root[1].lists:
                yield rest._replace(states=0, lists=rest.lists + 1), way

    def _after_proxy(self, position: int) -> Iterator[tuple[_Rest, _Way]]:
        """Yield the ways behind the snapshot at a position; behind an unreadable one, those of all possible ends."""
        least = -1
        try:
            try:
                self._at(position, read_snapshot_proxy)
            except UnknownSerializerError as problem:
                self._unread[position] = str(problem)
                least, _ = self._at(position, _least_end)
        except (StateProcessorError, ValueError):
            return
        yield from self._ways_from(self._source.position) if least < 0 else self._ways_behind(least)

    def _ways_behind(self, least: int) -> Iterator[tuple[_Rest, _Way]]:
        """Yield the ways from all starts from a position on."""
        self._spend(len(self._sums))
        for rest, sums in self._sums.items():
            place = bisect_right(sums, -least, key=lambda way: -way.position)
            if place:
                yield rest, sums[place - 1]

    def _sum(self, position: int) -> None:
        """Add the ways from a start to the sums of the ways from all later starts."""
        for rest, way in self._ways_from(position):
            sums = self._sums.setdefault(rest, [])
            sums.append(way._replace(ways=min(2, way.ways + (sums[-1].ways if sums else 0))))

    def _ways_from(self, position: int) -> Iterator[tuple[_Rest, _Way]]:
        """Yield the ways from a position, as steps to it."""
        ways = self._ways(position)
        self._spend(len(ways) + 1)
        return ((rest, _Way(position, rest, way.ways)) for rest, way in ways.items())

    def _proxy_at(self, position: int, rest: _Rest) -> int:
        """Return the position of the snapshot of a serializer that starts at a position; -1 if none does."""
        if rest.keys or not rest.serializers:
            return position if rest.keys else -1
        role = next((role for role in _FRAMED_ROLES if self._source.data[position : position + len(role)] == role), b"")
        return position + len(role) if role else -1

    def _at(self, position: int, read: Callable[[DataInput], _T]) -> _T:
        self._source.position = position
        try:
            return read(self._source)
        finally:
            self._spend(1 + ((self._source.position - position) >> 4))

    def _spend(self, work: int) -> None:
        self._remaining_work -= work
        if self._remaining_work < 0:
            raise _TooMuchWorkError


class _TooMuchWorkError(Exception):
    """A header that was made to have many ways."""


def _least_end(source: DataInput) -> tuple[int, bool]:
    """Return the least possible end of the unreadable snapshot at ``source``, and whether it is the probable one.

    A snapshot from before Flink 1.7 has a serializer in a frame with a length, its own version, and perhaps fields of its class
    (Flink: ``TypeSerializerConfigSnapshot``). Some libraries still write such snapshots.
    """
    source.read_int()
    source.read_utf()
    is_framed = source.read_int() == ADAPTER_VERSION
    if is_framed:
        source.read_int()
        source.skip(source.read_int(), "serialized serializer")
        source.skip(4, "version")
    return source.position, is_framed


def _possible_starts(source: DataInput) -> list[int]:
    """Return the positions where a serializer or a state may start."""
    data = np.frombuffer(source.data, dtype=np.uint8)
    first, end = source.position, source.end
    places = np.arange(first, max(first, end - 6))
    behind = places + 2 + (data[places].astype(np.int64) << 8) + data[places + 1]
    fits = (behind > places + 2) & (behind <= end - 4)
    places, behind = places[fits], behind[fits]
    # A proxy version follows the name of a role; a type and a number of options follow the name of a state
    is_small = np.zeros(len(data), dtype=bool)
    is_small[:-3] = (data[:-3] == 0) & (data[1:-2] == 0) & (data[2:-1] == 0) & (data[3:] <= _MOST_OPTIONS)
    is_role = np.isin(behind - places - 2, list(map(len, _ROLES)))
    fits = is_small[behind] & (is_role | is_small[np.minimum(behind + 4, end - 1)])
    starts = [at for at in places[fits].tolist() if _is_serializer_or_state(source, at)]
    source.position = first
    return starts


def _possible_counts(source: DataInput, starts: Iterable[int]) -> frozenset[int]:
    """Return the positions where a number of states may be: in front of a state, of another number, or of the end."""
    count_positions: set[int] = set()

    def add(positions: Iterable[int], fits: Callable[[int], bool]) -> list[int]:
        counts = [at for at in positions if at >= source.position and fits(int.from_bytes(source.data[at : at + 2], "big"))]
        count_positions.update(counts)
        return counts

    in_front = add((start - 2 for start in starts), lambda count: 0 < count < 1 << 15)
    last = add([source.end - 2], lambda count: count == 0)
    add((at - 2 for at in (*in_front, *last)), lambda count: count == 0)
    return frozenset(count_positions)


def _is_serializer_or_state(source: DataInput, position: int) -> bool:
    source.position = position
    try:
        name = source.read_utf()
        if name in _ROLES:
            return source.read_int() == _PROXY_VERSION
        is_state = bool(name) and name.isprintable() and 0 <= source.read_int() < len(_BACKEND_TYPES)
        return is_state and 0 <= source.read_int() <= _MOST_OPTIONS
    except (StateProcessorError, ValueError):
        return False
