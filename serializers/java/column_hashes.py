"""Java's ``hashCode`` of whole columns, from a matrix of the values' bytes with a row for each value."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.int32]
EncodedValues = npt.NDArray[np.uint8]
"""The bytes of values of one length, a row for each value."""


def fold_long(bits: npt.NDArray[np.int64]) -> Hashes:
    """Return ``Long.hashCode``: both halves, exclusive or."""
    folded: Hashes = (bits ^ (bits >> 32)).astype(np.int32)
    return folded


def signed(values: EncodedValues, begin: int, end: int) -> npt.NDArray[np.int64]:
    """Return the signed big-endian number in a range of bytes of each value."""
    columns = np.ascontiguousarray(values[:, begin:end])
    return columns.view(f">i{end - begin}").ravel().astype(np.int64)
