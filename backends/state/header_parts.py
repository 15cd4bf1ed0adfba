"""Parts of the headers of state files, and the ends of serializer snapshots that can't be read.

Flink: ``StateMetaInfoSnapshotReadersWriters``, ``TypeSerializerSnapshotSerializationUtil``. Snapshots do not store their length.
The ends of unreadable snapshots follow from the rest of the header.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

import numpy as np

from state_processor.serializers.base import TypeSerializerSnapshot, read_versioned_snapshot, write_versioned_snapshot
from state_processor.serializers.core.unread import UnreadSnapshot
from state_processor.serializers.format_versions import ADAPTER_VERSION, FormatVersions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.support.errors import StateProcessorError, UnknownSerializerError

JAVA_OBJECTS: Final = "its serializers are Java objects; restore it in Flink 1.8 to 1.16 and take a new savepoint"

KEY_VALUE: Final = "KEY_VALUE"
PRIORITY_QUEUE: Final = "PRIORITY_QUEUE"
KEY_VALUE_V2: Final = "KEY_VALUE_V2"
"""Registered kind of keyed state of the asynchronous API (Flink 2) with ForSt. Other backends register ``KEY_VALUE``."""
BACKEND_TYPES: Final = (KEY_VALUE, "OPERATOR", "BROADCAST", PRIORITY_QUEUE, KEY_VALUE_V2)
"""``StateMetaInfoSnapshot.BackendStateType`` by ordinal. Headers store the ordinal."""

KEY: Final = "KEY_SERIALIZER"
NAMESPACE: Final = "NAMESPACE_SERIALIZER"
USER_KEY: Final = "USER_KEY_SERIALIZER"
VALUE: Final = "VALUE_SERIALIZER"

_PROXY_VERSION: Final = 2
SERIALIZER_SNAPSHOTS: Final = FormatVersions("the frame of serializer snapshots", {_PROXY_VERSION: "1.7"}, JAVA_OBJECTS)
_ROLES: Final = frozenset({KEY, NAMESPACE, USER_KEY, VALUE})
_FRAMED_ROLES: Final = tuple(len(role).to_bytes(2, "big") + role.encode() for role in sorted(_ROLES))
_WORK: Final = 4
"""Limit of the steps of a search for the ends of unreadable snapshots, for each byte of the header."""
_LEAST_WORK: Final = 1 << 22
_MOST_OPTIONS: Final = 8
_T = TypeVar("_T")


@dataclass(slots=True)
class Ends:
    """Ends of unreadable snapshots."""

    known: Mapping[int, tuple[int, str]] = field(default_factory=dict)  # the ends by the starts of the snapshots, and the reasons
    trusts_frames: bool = False  # whether a snapshot with a frame ends behind its frame, as :func:`_least_end` has it
    used_frames: bool = False  # whether a snapshot was read so


def read_registration(source: DataInput) -> tuple[str, str, dict[str, str], int]:
    """Read the part of a state in front of its serializers: name, type, options, and the number of serializers."""
    start = source.position
    name, ordinal = source.read_utf(), source.read_int()
    if not 0 <= ordinal < len(BACKEND_TYPES):
        raise source.corrupt(f"state {name!r} has backend type {ordinal}; Flink does not write this type", start)
    options = {source.read_utf(): source.read_utf() for _ in range(source.read_count("options", 4))}
    return name, BACKEND_TYPES[ordinal], options, source.read_count("serializers", 6)


def read_snapshot_proxy(source: DataInput, ends: Ends | None = None, context: str = "") -> TypeSerializerSnapshot:
    """Read a proxy version and a snapshot (Flink: ``TypeSerializerSnapshotSerializationUtil``)."""
    start = source.position
    version = source.read_int()
    SERIALIZER_SNAPSHOTS.check(version, source.source, start, source.flink_major)
    if ends is not None and start in ends.known:
        return _unread(source, *ends.known[start], context)
    begin = source.position
    try:
        return read_versioned_snapshot(source)
    except UnknownSerializerError as problem:
        if ends is None:
            raise
        source.position = start
        end, is_framed = _least_end(source)
        if not (is_framed and ends.trusts_frames):
            raise EndUnknownError(str(problem)) from problem
        ends.used_frames = True
        source.position = begin
        return _unread(source, end, str(problem), context)


def _unread(source: DataInput, end: int, reason: str, context: str) -> UnreadSnapshot:
    class_name, version = source.read_utf(), source.read_int()
    return UnreadSnapshot(class_name, version, source.read_bytes(end - source.position), context + reason)


def write_snapshot_proxy(snapshot: TypeSerializerSnapshot, target: DataOutput) -> None:
    """Write the bytes that :func:`read_snapshot_proxy` reads."""
    target.write_int(_PROXY_VERSION)
    write_versioned_snapshot(snapshot, target)


class EndUnknownError(UnknownSerializerError):
    """An unreadable snapshot whose end is not known."""


def stepping_over(source: DataInput, read: Callable[[DataInput, Ends], _T], begin: Callable[[DataInput], Rest]) -> _T:
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
        if not (ends.used_frames or isinstance(problem, EndUnknownError)):
            raise
        reason = problem
    source.position = start
    unreadable = _EndSearch(source, begin(source)).ends()
    if unreadable is None:
        raise UnknownSerializerError(str(reason)) from reason
    source.position = start
    return read(source, Ends(unreadable))


class Rest(NamedTuple):
    """What follows a position of a header: serializers of a state, states of a list, and lists of states."""

    serializers: int = 0
    states: int = 0
    lists: int = 0
    keys: int = 0
    """1 in front of the snapshot of the key, which does not have a role."""


class _Way(NamedTuple):
    """The next step on a way to the end of the header, and the number of ways."""

    position: int
    rest: Rest
    ways: int


class _EndSearch:
    """Search for the ends of unreadable snapshots in a header.

    The length of a snapshot is not stored, but the end of the header is known. Exactly one way has to lead there. Positions where
    a serializer, a state or a list may start are visited once, from the last to the first: the ways from a position to the end of
    the header do not depend on what precedes it.

    ``source``: the header, at the first snapshot or list of states. ``rest``: what follows.
    """

    def __init__(self, source: DataInput, rest: Rest) -> None:
        self._source = source
        self._root = (source.position, rest)
        starts = _possible_starts(source)
        self._counts = _possible_counts(source, starts)
        self._starts = sorted({*starts, *self._counts})
        self._left = _WORK * source.remaining + _LEAST_WORK
        self._unread: dict[int, str] = {}
        self._sums: dict[Rest, list[_Way]] = {}
        self._known: dict[int, dict[Rest, _Way]] = {source.end: {Rest(): _Way(source.end, Rest(), 1)}}

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

    def _ways(self, position: int) -> dict[Rest, _Way]:
        """Return the ways from a position to the end, by what has to follow."""
        if position not in self._known:
            ways: dict[Rest, _Way] = {}
            for step in (self._after_serializer, self._after_state, self._after_count):
                ways |= step(position)
            self._known[position] = ways
        return self._known[position]

    def _after_key(self, position: int) -> Iterator[tuple[Rest, _Way]]:
        return ((rest._replace(keys=1), way) for rest, way in self._after_proxy(position))

    def _after_serializer(self, position: int) -> Iterator[tuple[Rest, _Way]]:
        proxy = self._proxy_at(position, Rest(serializers=1))
        ways = () if proxy < 0 else self._after_proxy(proxy)
        return ((rest._replace(serializers=rest.serializers + 1), way) for rest, way in ways if rest.serializers < len(_ROLES))

    def _after_state(self, position: int) -> Iterator[tuple[Rest, _Way]]:
        try:
            name, _, _, serializers = self._at(position, read_registration)
        except (StateProcessorError, ValueError):
            return
        if not (name and name.isprintable()):  # a wrong position, a few bytes before the name
            return
        for rest, way in self._ways_from(self._source.position):
            if rest.serializers == serializers:
                yield rest._replace(serializers=0, states=rest.states + 1), way

    def _after_count(self, position: int) -> Iterator[tuple[Rest, _Way]]:
        if position not in self._counts:
            return
        states = self._at(position, DataInput.read_short)
        for rest, way in self._ways_from(position + 2):
            if (rest.serializers, rest.states) == (0, states) and rest.lists < self._root[1].lists:
                yield rest._replace(states=0, lists=rest.lists + 1), way

    def _after_proxy(self, position: int) -> Iterator[tuple[Rest, _Way]]:
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

    def _ways_behind(self, least: int) -> Iterator[tuple[Rest, _Way]]:
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

    def _ways_from(self, position: int) -> Iterator[tuple[Rest, _Way]]:
        """Yield the ways from a position, as steps to it."""
        ways = self._ways(position)
        self._spend(len(ways) + 1)
        return ((rest, _Way(position, rest, way.ways)) for rest, way in ways.items())

    def _proxy_at(self, position: int, rest: Rest) -> int:
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
        self._left -= work
        if self._left < 0:
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
    found: set[int] = set()

    def add(positions: Iterable[int], fits: Callable[[int], bool]) -> list[int]:
        counts = [at for at in positions if at >= source.position and fits(int.from_bytes(source.data[at : at + 2], "big"))]
        found.update(counts)
        return counts

    in_front = add((start - 2 for start in starts), lambda count: 0 < count < 1 << 15)
    last = add([source.end - 2], lambda count: count == 0)
    add((at - 2 for at in (*in_front, *last)), lambda count: count == 0)
    return frozenset(found)


def _is_serializer_or_state(source: DataInput, position: int) -> bool:
    source.position = position
    try:
        name = source.read_utf()
        if name in _ROLES:
            return source.read_int() == _PROXY_VERSION
        is_state = bool(name) and name.isprintable() and 0 <= source.read_int() < len(BACKEND_TYPES)
        return is_state and 0 <= source.read_int() <= _MOST_OPTIONS
    except (StateProcessorError, ValueError):
        return False
