"""The bytes of a stream handle: inline, a file, or a slice of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import StoredFile
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.metadata_digest import check_not_replaced
from state_processor.backends.metadata.stored_part import StoredPart
from state_processor.serializers.errors import CorruptSnapshotError, MissingFileError
from state_processor.serializers.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Callable

    from state_processor.backends.files.relocation import Relocation
    from state_processor.backends.files.storage import Storage


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
        self._kept: dict[tuple[int, int], memoryview] = {}

    def read(self, offset: int, length: int) -> memoryview:
        """See :meth:`StateStream.read`."""
        place = (offset, length)
        data = self._kept.pop(place, None)
        if data is None:
            data = self._stream.read(offset, length)
        if length <= _LARGEST_KEPT:
            self._kept[place] = data
            if len(self._kept) > _KEPT_READS:
                del self._kept[next(iter(self._kept))]
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
