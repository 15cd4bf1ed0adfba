"""State handles: the locations of state bytes in ``_metadata``.

Each handle class of Flink has one frozen class, with the fields in Flink's order. If a layout has several revisions, the handle
keeps the ``code`` from reading, so that writing gives the same bytes. ``state_size`` of a handle equals Flink's
``StateObject.getStateSize``.

The codes are the constants of Flink's ``MetadataV2V3SerializerBase``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from state_processor.support.redaction import redacted_repr


class MetadataFile(Protocol):
    """File that is read in parts."""

    @property
    def size(self) -> int:
        """Length in bytes."""

    def read(self, offset: int, length: int) -> memoryview:
        """Return exactly ``length`` bytes from ``offset``."""


class StoredPart:
    """A part of a file that behaves like its bytes: it has a length and slices, and ``bytes(part)`` reads all of it.

    ``offset`` and ``size``: position of the part in the file.
    """

    __slots__ = ("_file", "_offset", "_size")

    __hash__ = None  # type: ignore[assignment]  # like a view of an array

    def __init__(self, file: MetadataFile, offset: int, size: int) -> None:
        self._file, self._offset, self._size = file, offset, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> memoryview:
        start, stop, _ = part.indices(self._size)
        return self._file.read(self._offset + start, max(0, stop - start))

    def __bytes__(self) -> bytes:
        return bytes(self[:])

    def __eq__(self, other: object) -> bool:
        return self[:] == (other[:] if isinstance(other, StoredPart) else other)


NULL: Final = 0
BYTE_STREAM: Final = 1
FILE: Final = 2
KEY_GROUPS: Final = 3
OPERATOR: Final = 4
INCREMENTAL: Final = 5
RELATIVE_FILE: Final = 6
SAVEPOINT_KEY_GROUPS: Final = 7
CHANGELOG: Final = 8
CHANGELOG_BYTES: Final = 9
CHANGELOG_FILE: Final = 10
INCREMENTAL_V2: Final = 11
KEY_GROUPS_V2: Final = 12
CHANGELOG_FILE_V2: Final = 13
CHANGELOG_V2: Final = 14
SEGMENT: Final = 15
EMPTY_SEGMENT: Final = 16
FILE_MERGING_OPERATOR: Final = 17

MAX_KEY_GROUPS: Final = 1 << 15
"""Flink's upper bound of the max parallelism (``KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM``)."""

SPLIT_DISTRIBUTE: Final = 0
UNION: Final = 1
BROADCAST: Final = 2
MODE_NAMES: Final = ("SPLIT_DISTRIBUTE", "UNION", "BROADCAST")
"""Names of Flink's ``OperatorStateHandle.Mode`` by ordinal."""


class Offsets(Sequence[int]):
    """Stream offsets in their stored form, big-endian longs.

    A list state has one offset per element, so there may be millions. They are unpacked on demand: ``numpy.asarray(offsets)``
    returns native ``int64``.
    """

    __slots__ = ("raw",)

    raw: bytes | memoryview

    def __init__(self, raw: bytes | memoryview = b"") -> None:
        self.raw = raw

    @classmethod
    def of(cls, offsets: Iterable[int]) -> Offsets:
        """Return offsets from integers."""
        values = tuple(offsets)
        return cls(struct.pack(f">{len(values)}q", *values))

    def to_numpy(self) -> npt.NDArray[np.int64]:
        """Return all offsets as a native ``int64`` array (a copy)."""
        return np.frombuffer(self.raw, dtype=">i8").astype(np.int64)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[np.generic]:
        return self.to_numpy().astype(dtype or np.int64, copy=False)

    def __len__(self) -> int:
        return len(self.raw) // 8

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Offsets: ...
    def __getitem__(self, index: int | slice) -> int | Offsets:
        if isinstance(index, slice):
            return Offsets.of(tuple(self)[index])
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"offset {index} of {len(self)}")
        return int.from_bytes(self.raw[8 * at : 8 * at + 8], "big", signed=True)

    def __iter__(self) -> Iterator[int]:
        return iter(struct.unpack(f">{len(self)}q", self.raw))

    def __eq__(self, other: object) -> bool:
        return self.raw == other.raw if isinstance(other, Offsets) else NotImplemented

    def __hash__(self) -> int:
        return hash((len(self.raw), bytes(self.raw[-8:])))  # a view of an array is not hashable

    def __reduce__(self) -> tuple[type[Offsets], tuple[bytes]]:
        return Offsets, (bytes(self.raw),)

    def __repr__(self) -> str:
        numbers = ", ".join(map(str, self[:6])) + (", …" if len(self) > 6 else "")
        return f"Offsets({numbers})"


class _Record:
    """A dataclass that is pickled as a tuple of its fields. This takes a third of the time of ``__getstate__`` of dataclasses."""

    __slots__: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple([getattr(self, name) for name in self.__slots__])


@dataclass(frozen=True, slots=True, order=True)
class KeyGroupRange(_Record):
    """Key groups ``start`` to ``end_inclusive``; a smaller end is the empty range (Flink's ``KeyGroupRange``)."""

    start: int
    end_inclusive: int

    def __len__(self) -> int:
        return max(0, self.end_inclusive - self.start + 1)

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.end_inclusive + 1))

    def __contains__(self, key_group: object) -> bool:
        return isinstance(key_group, (int, np.integer)) and bool(self.start <= key_group <= self.end_inclusive)

    def intersect(self, other: KeyGroupRange) -> KeyGroupRange:
        """Return the key groups in both ranges; this may be the empty range."""
        start, end = max(self.start, other.start), min(self.end_inclusive, other.end_inclusive)
        return KeyGroupRange(start, end) if start <= end else EMPTY_RANGE


EMPTY_RANGE: Final = KeyGroupRange(0, -1)


# Streams


@dataclass(frozen=True, slots=True)
class ByteStreamStateHandle:
    """A small stream within ``_metadata`` (code 1).

    ``data`` may be a view or a part of the file. It is pickled as bytes.
    """

    name: str
    data: bytes | memoryview | StoredPart = field(repr=False)

    def __hash__(self) -> int:
        return hash((self.name, len(self.data)))  # a view of an array is not hashable

    def __reduce__(self) -> tuple[type[ByteStreamStateHandle], tuple[str, bytes]]:
        return ByteStreamStateHandle, (self.name, bytes(self.data))

    @property
    def state_size(self) -> int:
        """Length of the data."""
        return len(self.data)


@dataclass(frozen=True, slots=True)
class FileStateHandle(_Record):
    """A file with an absolute path or URL (code 2)."""

    size: int
    path: str

    __repr__ = redacted_repr

    @property
    def state_size(self) -> int:
        """Recorded length of the file."""
        return self.size


@dataclass(frozen=True, slots=True)
class RelativeFileStateHandle(_Record):
    """A file in the directory of ``_metadata`` (code 6)."""

    path: str
    size: int

    @property
    def state_size(self) -> int:
        """Recorded length of the file."""
        return self.size


@dataclass(frozen=True, slots=True)
class SegmentFileStateHandle(_Record):
    """A slice of a file that several states share (code 15, file merging).

    ``scope`` is the ordinal of Flink's ``CheckpointedStateScope``: 0 EXCLUSIVE, 1 SHARED.
    """

    start: int
    size: int
    scope: int
    path: str
    logical_file_id: str

    __repr__ = redacted_repr

    @property
    def state_size(self) -> int:
        """Length of the slice."""
        return self.size


@dataclass(frozen=True, slots=True)
class EmptySegmentFileStateHandle:
    """A segment without bytes or file (code 16)."""

    @property
    def state_size(self) -> int:
        """Always 0."""
        return 0


# Keyed state


@dataclass(frozen=True, slots=True)
class KeyGroupsStateHandle:
    """A stream with a range of key groups, and the offset of each key group.

    ``code`` is 3 (no id), 7 (savepoint, canonical body) or 12 (with ``handle_id``). Codes 3 and 12 do not distinguish a heap body
    from a canonical body. Only code 3 occurs as a stream inside another handle.
    """

    code: int
    key_groups: KeyGroupRange
    offsets: Offsets
    stream: StreamStateHandle
    handle_id: str | None = None

    @property
    def is_savepoint(self) -> bool:
        """True if this is Flink's ``KeyGroupsSavepointStateHandle``."""
        return self.code == SAVEPOINT_KEY_GROUPS

    @property
    def state_size(self) -> int:
        """Length of the stream."""
        return self.stream.state_size


class Sized(Protocol):
    """What has a size in a snapshot: a handle, a subtask, an operator."""

    @property
    def state_size(self) -> int: ...


def total_size(parts: Iterable[Sized]) -> int:
    """Return the size of handles, subtasks or operators together."""
    return sum(part.state_size for part in parts)


@dataclass(frozen=True, slots=True)
class LocalFile(_Record):
    """A file of an embedded store and its name in the store (Flink's ``HandleAndLocalPath``)."""

    local_name: str
    stream: StreamStateHandle


@dataclass(frozen=True, slots=True)
class IncrementalRemoteKeyedStateHandle(_Record):
    """The files of a RocksDB or ForSt store: code 5, or 11 with ``checkpointed_size`` and ``handle_id``."""

    code: int
    checkpoint_id: int
    backend_id: str
    key_groups: KeyGroupRange
    meta: StreamStateHandle
    shared: tuple[LocalFile, ...]
    private: tuple[LocalFile, ...]
    checkpointed_size: int | None = None
    handle_id: str | None = None

    @property
    def files(self) -> tuple[LocalFile, ...]:
        """Shared files, then private ones."""
        return self.shared + self.private

    @property
    def streams(self) -> list[StreamStateHandle]:
        """The streams of the files, in their order."""
        return [file.stream for file in self.files]

    @property
    def streams_by_name(self) -> dict[str, StreamStateHandle]:
        """The streams of the files by the names in the store."""
        return {file.local_name: file.stream for file in self.files}

    @property
    def state_size(self) -> int:
        """Length of all files, including metadata of the store."""
        return total_size((self.meta, *self.streams))


@dataclass(frozen=True, slots=True)
class ChangelogStateBackendHandle:
    """Materialized state and later changes: code 8, or 14 with ``checkpoint_id``."""

    code: int
    key_groups: KeyGroupRange
    checkpointed_size: int
    materialized: tuple[KeyedStateHandle, ...]
    changes: tuple[ChangelogStateHandle, ...]
    materialization_id: int
    checkpoint_id: int | None
    handle_id: str

    @property
    def state_size(self) -> int:
        """Sum over both parts."""
        return total_size(self.materialized) + total_size(self.changes)


@dataclass(frozen=True, slots=True)
class StateChange:
    """Changes of one key group, or of the metadata if ``key_group`` is -1 (Flink's ``StateChange``)."""

    key_group: int
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class InMemoryChangelogStateHandle:
    """Changes within ``_metadata`` (code 9)."""

    key_groups: KeyGroupRange
    from_sequence: int
    to_sequence: int
    changes: tuple[StateChange, ...]
    handle_id: str

    @property
    def state_size(self) -> int:
        """Sum of the lengths of the changes."""
        return sum(len(c.data) for c in self.changes)


@dataclass(frozen=True, slots=True)
class ChangelogFileStateHandle:
    """Changes in files (``ChangelogStateHandleStreamImpl``): code 10, or 13 with ``storage_identifier``.

    ``streams`` pairs each file with the offset of its change set, in the order of the changes.
    """

    code: int
    key_groups: KeyGroupRange
    streams: tuple[tuple[int, StreamStateHandle], ...]
    size: int
    checkpointed_size: int
    handle_id: str
    storage_identifier: str | None = None

    @property
    def state_size(self) -> int:
        """Size of the changes, as recorded by Flink."""
        return self.size


# Operator state


@dataclass(frozen=True, slots=True)
class OperatorStateMeta:
    """Mode and offsets of one operator state: ``SPLIT_DISTRIBUTE``, ``UNION`` or ``BROADCAST``."""

    name: str
    mode: int
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class OperatorStreamStateHandle:
    """The operator states of a subtask in one stream (code 4)."""

    states: tuple[OperatorStateMeta, ...]
    stream: StreamStateHandle

    @property
    def state_size(self) -> int:
        """Length of the stream."""
        return self.stream.state_size


@dataclass(frozen=True, slots=True)
class FileMergingOperatorStreamStateHandle:
    """The operator states of a subtask under file merging, empty or not (code 17)."""

    states: tuple[OperatorStateMeta, ...]
    task_owned_dir: str
    shared_dir: str
    is_empty: bool
    stream: StreamStateHandle

    @property
    def state_size(self) -> int:
        """Length of the stream."""
        return self.stream.state_size


# In-flight data of unaligned checkpoints


@dataclass(frozen=True, slots=True)
class ChannelStateHandle:
    """Buffers of one channel in a stream; ``group`` is a gate or partition, ``channel`` a channel or subpartition."""

    subtask_index: int
    group: int
    channel: int
    offsets: Offsets
    size: int
    stream: StreamStateHandle

    @property
    def state_size(self) -> int:
        """Size as recorded by Flink (the stream may be shared)."""
        return self.size


@dataclass(frozen=True, slots=True)
class InputChannelStateHandle(ChannelStateHandle):
    """Buffers that waited at an input channel."""


@dataclass(frozen=True, slots=True)
class ResultSubpartitionStateHandle(ChannelStateHandle):
    """Buffers that waited at a result subpartition."""


@dataclass(frozen=True, slots=True)
class MergedChannelStateHandle:
    """Buffers of all channels of a subtask in one stream (since metadata version 6)."""

    subtask_index: int
    size: int
    stream: StreamStateHandle
    serialized_offsets: bytes = field(repr=False)

    @property
    def state_size(self) -> int:
        """Size as Flink recorded it."""
        return self.size


@dataclass(frozen=True, slots=True)
class MergedInputChannelStateHandle(MergedChannelStateHandle):
    """Buffers that waited at the input channels."""


@dataclass(frozen=True, slots=True)
class MergedResultSubpartitionStateHandle(MergedChannelStateHandle):
    """Buffers that waited at the result subpartitions."""


StreamStateHandle: TypeAlias = (
    ByteStreamStateHandle
    | FileStateHandle
    | RelativeFileStateHandle
    | KeyGroupsStateHandle
    | SegmentFileStateHandle
    | EmptySegmentFileStateHandle
)
ChangelogStateHandle: TypeAlias = InMemoryChangelogStateHandle | ChangelogFileStateHandle
KeyedStateHandle: TypeAlias = (
    KeyGroupsStateHandle | IncrementalRemoteKeyedStateHandle | ChangelogStateBackendHandle | ChangelogStateHandle
)
OperatorStateHandle: TypeAlias = OperatorStreamStateHandle | FileMergingOperatorStreamStateHandle
InputStateHandle: TypeAlias = InputChannelStateHandle | MergedInputChannelStateHandle
OutputStateHandle: TypeAlias = ResultSubpartitionStateHandle | MergedResultSubpartitionStateHandle
StateHandle: TypeAlias = StreamStateHandle | KeyedStateHandle | OperatorStateHandle | InputStateHandle | OutputStateHandle
