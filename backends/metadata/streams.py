"""The streams of a snapshot at any depth of ``_metadata``: streams in files, streams that later checkpoints reuse, and identity.

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
from typing import Any, Final, TypeAlias, TypeVar

from state_processor.backends.files.location import Location
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.properties import SAVEPOINT
from state_processor.backends.metadata.snapshot_metadata import CheckpointMetadata

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
        now = {field.name: getattr(value, field.name) for field in fields(value)}
        changes = {name: new for name, old in now.items() if (new := _changed(old, change)) is not old}
        return replace(value, **changes) if changes else value
    return value


def reused_files(metadata: CheckpointMetadata) -> frozenset[str]:
    """Return the names of reused files that a checkpoint records by a bare name.

    A savepoint has only files of its own. Before version 4, ``_metadata`` does not distinguish savepoints from checkpoints.
    """
    if metadata.properties is not None and metadata.properties.kind == SAVEPOINT:
        return frozenset()
    handles = (subtask.managed_keyed for operator in metadata.operators for subtask in operator.subtasks)
    streams = (stream for handle in handles for stream in _reusable(handle))
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
                yield from (file.stream for file in part.files)


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
