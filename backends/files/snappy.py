"""Snappy's framing format, which compresses Flink's snapshots (``SnappyStreamCompressionDecorator``)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from state_processor.support.errors import CorruptSnapshotError
from state_processor.support.late import cramjam

_COMPRESSED: Final = 0x00
_UNCOMPRESSED: Final = 0x01
_CHECKSUM: Final = 4


def decompress(data: memoryview | bytes, context: str) -> npt.NDArray[np.uint8]:
    """Decompress one framed stream, or several concatenated streams."""
    if not len(data):
        return np.zeros(0, dtype=np.uint8)
    try:
        output: npt.NDArray[np.uint8] = np.frombuffer(memoryview(cramjam.snappy.decompress(data)), dtype=np.uint8)
    except (cramjam.DecompressionError, OSError) as e:
        raise CorruptSnapshotError(f"{context}: not a snappy stream: {e}") from None
    output.flags.writeable = False
    return output


def chunk_positions(data: memoryview | bytes, context: str) -> dict[int, int]:
    """Map each chunk's offset in a framed stream to the offset of its content in the decompressed data."""
    view = memoryview(data)
    positions: dict[int, int] = {}
    offset = plain = 0
    while offset < len(view):
        positions[offset] = plain
        if offset + 4 > len(view):
            raise CorruptSnapshotError(f"{context}, offset {offset}: a snappy chunk is cut off")
        kind, size = view[offset], int.from_bytes(view[offset + 1 : offset + 4], "little")
        body = view[offset + 4 : offset + 4 + size]
        if len(body) < size:
            raise CorruptSnapshotError(f"{context}, offset {offset}: a snappy chunk of {size} bytes is cut off")
        if kind == _COMPRESSED:
            plain += _plain_length(body[_CHECKSUM:])
        elif kind == _UNCOMPRESSED:
            plain += size - _CHECKSUM
        offset += 4 + size
    return positions


def _plain_length(block: memoryview) -> int:
    """Return the decompressed length from the start of a raw snappy block."""
    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return length
