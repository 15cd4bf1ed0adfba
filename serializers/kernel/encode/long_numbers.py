"""Long texts of digits for the encode kernel: as two's complement, which Python makes of them in less than quadratic time."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from state_processor.serializers.big_numbers import to_java_bytes, to_unscaled_and_scale
from state_processor.serializers.text_grammar import to_number, to_whole_number

LONG_TEXT: Final = 2048
"""Most bytes of a text whose digits the kernel multiplies itself, which takes quadratic time."""
LONG_MARK: Final = 0xFF
"""First byte of a number that is not text. No text in UTF-8 starts with it; the scale in eight bytes and the number follow."""

_SCALE: Final = struct.Struct("<q")
Offsets = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]


def without_long_numbers(offsets: Offsets, text: Bytes, *, whole: bool) -> tuple[Offsets, Bytes]:
    """Return the offsets and bytes of a column of digits with its long numbers in the form that :data:`LONG_MARK` begins.

    A text that is not a number, or too large for the type, does not change; the kernel refuses it.

    ``offsets`` and ``text``: where the texts begin and end, and their bytes.
    """
    if not (np.diff(offsets) > LONG_TEXT).any():
        return offsets, text
    pieces = [text[begin:end].tobytes() for begin, end in pairwise(offsets)]
    pieces = [_converted(piece, whole) if len(piece) > LONG_TEXT else piece for piece in pieces]
    sizes = np.cumsum([0, *map(len, pieces)], dtype=np.int32)
    return sizes, np.frombuffer(b"".join(pieces), dtype=np.uint8)


def _converted(text: bytes, whole: bool) -> bytes:
    try:
        digits = text.decode("ascii")
        unscaled, scale = (to_whole_number(digits), 0) if whole else to_unscaled_and_scale(to_number(digits))
    except ValueError:
        return text
    return bytes([LONG_MARK]) + _SCALE.pack(scale) + to_java_bytes(unscaled)
