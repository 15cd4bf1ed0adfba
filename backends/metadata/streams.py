"""The streams of a snapshot at any depth of ``_metadata``: their bytes (inline, a file, a slice of a file) and their identity.

Two snapshots share a stream if they record the same place. Flink never writes a file again under the same name, so that a place
and a length identify bytes.

Flink records shared files of checkpoints by absolute path, and files in the directory of ``_metadata`` by name. All files of a
native savepoint are recorded by name. If a job claims the savepoint, its checkpoints record these names unchanged, and Flink up
to 2.3 looks for the files in the directory of the checkpoint (FLINK-39964).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass, replace
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import StoredFile
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.handles import StoredPart
from state_processor.backends.metadata.properties import SAVEPOINT
from state_processor.backends.metadata.snapshot_metadata import CheckpointMetadata, check_not_replaced
from state_processor.support.errors import CorruptSnapshotError, MissingFileError
from state_processor.support.mappings import attributes, names_of
from state_processor.support.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Callable

    from state_processor.backends.files.recorded_paths import Relocation
    from state_processor.backends.files.storage import Storage


StreamInFile: TypeAlias = h.FileStateHandle | h.RelativeFileStateHandle | h.SegmentFileStateHandle

_IN_FILES: Final = (h.FileStateHandle, h.RelativeFileStateHandle, h.SegmentFileStateHandle)
_T = TypeVar("_T")


def streams_in_files(value: Any) -> Iterator[StreamInFile]:
    """Yield the streams stored in files that a handle, a subtask, an operator or a tuple of them contains."""
    return streams_of(value, *_IN_FILES)


def streams_of(value: Any, *kinds: type[_T]) -> Iterator[_T]:
    """Yield the streams of some classes that a handle, a subtask, an operator or a tuple of them contains."""
    if isinstance(value, kinds):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from streams_of(part, *kinds)
    elif is_dataclass(value):
        for field in fields(value):
            yield from streams_of(getattr(value, field.name), *kinds)


def recorded_files(metadata: CheckpointMetadata) -> frozenset[str]:
    """Return the files that a snapshot records by absolute paths, so that other snapshots may share them."""
    streams = streams_in_files(metadata.operators)
    return frozenset(stream.path for stream in streams if not isinstance(stream, h.RelativeFileStateHandle))


def with_streams(value: _T, change: Callable[[StreamInFile], h.StreamStateHandle]) -> _T:
    """Return a value with its file streams replaced; the value itself if no stream changes."""
    return _changed(value, change)  # type: ignore[no-any-return]


def _changed(value: Any, change: Callable[[StreamInFile], h.StreamStateHandle]) -> Any:
    if isinstance(value, _IN_FILES):
        return change(value)
    if isinstance(value, tuple):
        parts = tuple([_changed(part, change) for part in value])
        return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
    if is_dataclass(value) and not isinstance(value, type):
        now = attributes(value, names_of(fields(value)))
        changes = {name: new for name, old in now.items() if (new := _changed(old, change)) is not old}
        return replace(value, **changes) if changes else value
    return value


def reused_files(metadata: CheckpointMetadata) -> frozenset[str]:
    """Return the names of reused files that a checkpoint records by a bare name.

    A savepoint has only files of its own. Before version 4, ``_metadata`` does not distinguish savepoints from checkpoints.
    """
    if metadata.properties is not None and metadata.properties.kind == SAVEPOINT:
        return frozenset()
    subtasks = chain.from_iterable(operator.subtasks for operator in metadata.operators)
    streams = chain.from_iterable(_reusable(subtask.managed_keyed) for subtask in subtasks)
    return frozenset(stream.path for stream in streams if isinstance(stream, h.RelativeFileStateHandle))


def _reusable(handle: h.KeyedStateHandle | None) -> Iterator[h.StreamStateHandle]:
    """Yield the streams that later checkpoints may reuse: shared files, and the materialized state of a changelog."""
    if isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
        yield from (file.stream for file in handle.shared)
    elif isinstance(handle, h.ChangelogStateBackendHandle):
        for part in handle.materialized:
            if isinstance(part, h.KeyGroupsStateHandle):
                yield part.stream
            elif isinstance(part, h.IncrementalRemoteKeyedStateHandle):
                yield part.meta
                yield from part.streams


def stream_identity(stream: h.StreamStateHandle, directory: str) -> Hashable:
    """Return a value that equals the identity of a stream in another snapshot if both streams are the same bytes.

    ``directory``: the directory of the snapshot. Paths of savepoints are relative to it.
    """
    match stream:
        case h.FileStateHandle():
            return _place(stream.path), 0, stream.size
        case h.RelativeFileStateHandle():
            return _place(str(Location.parse(directory).joined(stream.path))), 0, stream.size
        case h.SegmentFileStateHandle():
            return _place(stream.path), stream.start, stream.size
        case h.ByteStreamStateHandle():
            return sha256(stream.data[:]).digest(), 0, len(stream.data)
        case h.KeyGroupsStateHandle():
            return stream_identity(stream.stream, directory)
        case h.EmptySegmentFileStateHandle():
            return "", 0, 0


def _place(path: str) -> str:
    return str(Location.parse(path))


_KEPT_READS: Final = 4
_LARGEST_KEPT: Final = 4 << 20


class _Source(Protocol):
    def read(self, offset: int, length: int) -> memoryview: ...


class _Inline:
    def __init__(self, data: bytes | memoryview | StoredPart) -> None:
        self._data = memoryview(data) if isinstance(data, bytes) else data

    def __reduce__(self) -> tuple[type[_Inline], tuple[bytes]]:
        return _Inline, (bytes(self._data),)

    def read(self, offset: int, length: int) -> memoryview:
        return self._data[offset : offset + length]


class StateStream:
    """The content of one state handle. It can be pickled; a file is opened at the first read.

    ``size``: recorded length in bytes. ``path``: the file; ``None`` for inline state. ``snapshot``: the directory of the snapshot
    and the digest of its ``_metadata``, to tell a missing file from a replaced snapshot.
    """

    def __init__(self, source: _Source, start: int, size: int, description: str, path: str | None) -> None:
        self._source = source
        self._start = start
        self._description = description
        self.size = size
        self.path = path
        self.snapshot: tuple[str, str] | None = None

    @property
    def is_remote(self) -> bool:
        """Whether reads send requests to remote storage."""
        return self.path is not None and not Location.parse(self.path).is_local

    @property
    def start(self) -> int:
        """Offset in the file in bytes; greater than 0 for segments of merged files."""
        return self._start

    @property
    def whole_file(self) -> StoredFile | None:
        """The file, if it contains only this stream. The length of the file is requested from the storage."""
        file = self._source
        return file if isinstance(file, StoredFile) and self._start == 0 and file.size == self.size else None

    @property
    def file_size(self) -> int | None:
        """Actual length of the file that it is in; ``None`` for inline state."""
        return self._source.size if isinstance(self._source, StoredFile) else None

    @property
    def is_current(self) -> bool:
        """False if its file is open, and the path has another file now."""
        return not isinstance(self._source, StoredFile) or self._source.is_current

    def read(self, offset: int = 0, length: int | None = None) -> memoryview:
        """Return ``length`` bytes from ``offset``, by default to the end; numpy views them without a copy."""
        count = self.size - offset if length is None else length
        if offset < 0 or count < 0 or offset + count > self.size:
            raise CorruptSnapshotError(
                f"{self.describe()}: bytes {offset} to {offset + count} are needed; it has {self.size} bytes"
            )
        try:
            return self._source.read(self._start + offset, count)
        except MissingFileError:
            if isinstance(self._source, StoredFile) and self.snapshot is not None:
                check_not_replaced(self._source.storage, *self.snapshot)
            raise

    def describe(self) -> str:
        """Return the name for messages: the file's path, or ``inline state NAME``."""
        return self._description

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"StateStream({redacted(self._description)!r}, {self.size} bytes)"


class RecentReads:
    """Reads of a stream with a small cache: lookups read the same key groups for one state after the other."""

    def __init__(self, stream: StateStream) -> None:
        self._stream = stream
        self._recent_reads: dict[tuple[int, int], memoryview] = {}

    def read(self, offset: int, length: int) -> memoryview:
        """See :meth:`StateStream.read`."""
        place = (offset, length)
        data = self._recent_reads.pop(place, None)
        if data is None:
            data = self._stream.read(offset, length)
        if length <= _LARGEST_KEPT:
            self._recent_reads[place] = data
            if len(self._recent_reads) > _KEPT_READS:
                del self._recent_reads[next(iter(self._recent_reads))]
        return data


def open_stream(handle: h.StreamStateHandle, storage: Storage, relocation: Relocation, context: str = "") -> StateStream:
    """Open the stream of a handle.

    ``handle``: any stream handle. ``storage`` and ``relocation``: access to the files, and their current locations. ``context``:
    owner of the stream (operator, state), for error messages.
    """
    return _OPENERS[type(handle)](handle, storage, relocation, context)


def _inline(handle: h.ByteStreamStateHandle, *_: object) -> StateStream:
    return StateStream(_Inline(handle.data), 0, len(handle.data), f"inline state {handle.name}", None)


def _file(handle: h.FileStateHandle, storage: Storage, relocation: Relocation, context: str) -> StateStream:
    path = relocation.locate(handle.path, handle.size, context)
    return StateStream(storage.open(path, context, handle.size), 0, handle.size, path, path)


def _relative(handle: h.RelativeFileStateHandle, storage: Storage, relocation: Relocation, context: str) -> StateStream:
    path = relocation.relative(handle.path, handle.size, context)
    return StateStream(storage.open(path, context, handle.size), 0, handle.size, path, path)


def _segment(handle: h.SegmentFileStateHandle, storage: Storage, relocation: Relocation, context: str) -> StateStream:
    end = handle.start + handle.size
    path = relocation.locate(handle.path, end, context)
    file: StoredFile = storage.open(path, context, end)
    return StateStream(file, handle.start, handle.size, f"{path} [{handle.start}:{end}]", path)


def _empty(*_: object) -> StateStream:
    return StateStream(_Inline(b""), 0, 0, "empty segment", None)


def _key_groups(handle: h.KeyGroupsStateHandle, storage: Storage, relocation: Relocation, context: str) -> StateStream:
    return open_stream(handle.stream, storage, relocation, context)


_OPENERS: Final[dict[type, Callable[..., StateStream]]] = {
    h.ByteStreamStateHandle: _inline,
    h.FileStateHandle: _file,
    h.RelativeFileStateHandle: _relative,
    h.SegmentFileStateHandle: _segment,
    h.EmptySegmentFileStateHandle: _empty,
    h.KeyGroupsStateHandle: _key_groups,
}
