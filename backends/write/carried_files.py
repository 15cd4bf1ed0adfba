"""Files of the source savepoint that the new one keeps: copies, or references."""

from __future__ import annotations

from typing import Final

from state_processor.backends.files.changes import FileSink
from state_processor.backends.files.location import Location
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.state_stream import StateStream

COPIES: Final = 8
"""So many files are copied at a time."""
_COPIED_AT_ONCE: Final = 4 << 20


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
