"""Identity of streams: two snapshots share a stream if they record the same place.

Flink never writes a file again under the same name, so that a place and a length identify bytes.
"""

from __future__ import annotations

from collections.abc import Hashable
from hashlib import sha256

from state_processor.backends.files.location import Location
from state_processor.backends.metadata import handles as h


def stream_identity(stream: h.StreamStateHandle, directory: str) -> Hashable:
    """Return a value that equals the identity of a stream in another snapshot if both streams are the same bytes.

    Parameters
    ----------
    stream
        The stream.
    directory
        The directory of the snapshot. Paths of savepoints are relative to it.
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
