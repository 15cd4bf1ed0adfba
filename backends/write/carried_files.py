"""Files of the source savepoint that the new one keeps: copies, or references."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final, Protocol

from state_processor.backends.files.changes import FileSink
from state_processor.backends.files.location import Location
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.state_stream import StateStream

COPIES: Final = 8
"""So many files are copied at a time."""
_COPIED_AT_ONCE: Final = 4 << 20


class OpenSink(Protocol):
    """Opener of a new file of the savepoint. The purpose is part of its name: letters and hyphens."""

    def __call__(self, role: str) -> AbstractContextManager[FileSink]:
        """Return the file; it is removed on failure."""


def carried_stream(
    snapshot: Snapshot, stream: h.StreamStateHandle, open_sink: OpenSink, context: str, *, shares_files: bool
) -> h.StreamStateHandle:
    """Return the handle that the new savepoint has for a file of a store of the source savepoint.

    Parameters
    ----------
    snapshot, stream
        The source savepoint, and the file. Bytes in ``_metadata`` stay there.
    open_sink
        Opens the copy.
    context
        Operator and subtask, for error messages.
    shares_files
        Whether the handle refers to the file where it is, if possible.
    """
    if isinstance(stream, h.ByteStreamStateHandle):
        return stream
    opened = snapshot.open(stream, context)
    shared = shared_file(opened) if shares_files else None
    if shared is not None:
        return shared
    with open_sink("store") as sink:
        return copy_stream(opened, sink)


def copy_stream(stream: StateStream, sink: FileSink) -> h.RelativeFileStateHandle:
    """Copy a stream, whatever is in it, into a new file; offsets in it stay the same.

    A whole file is copied by its storage, where that can do it.
    """
    file = stream.whole_file
    if file is None or not sink.copy(file):
        for offset in range(0, stream.size, _COPIED_AT_ONCE):
            sink.write(stream.read(offset, min(_COPIED_AT_ONCE, stream.size - offset)))
    sink.close()
    return h.RelativeFileStateHandle(sink.name, sink.size)


def shared_file(stream: StateStream) -> h.FileStateHandle | None:
    """Return a handle of a stream's file where it is; ``None`` if the file has other content."""
    file = stream.whole_file
    if file is None:
        return None
    location = Location.parse(file.path)
    return h.FileStateHandle(stream.size, f"file:{location.path}" if location.is_local else file.path.partition("?")[0])
