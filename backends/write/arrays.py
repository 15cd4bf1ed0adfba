"""Arrow arrays of the memory of numpy arrays and of bytes.

``pyarrow.array`` and ``pyarrow.scalar`` import pandas, whatever they are given, and so does ``to_numpy``: a fifth of a second in
each process that writes. ``numpy.from_dlpack`` is the way back.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_MAX_OFFSET: Final = np.iinfo(np.int32).max


def numbers(values: npt.NDArray[Any]) -> pa.Array:
    """Return numbers as an array of the same type, without a copy if they are contiguous."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def repeated(value: bytes, count: int, type_: pa.DataType) -> pa.Array:
    """Return an array of binary data or text that consists of the same value.

    Raises
    ------
    pyarrow.ArrowCapacityError
        If it has more bytes than offsets of 32 bits can address.
    """
    if count * len(value) > _MAX_OFFSET:
        raise pa.ArrowCapacityError(f"expected at most {_MAX_OFFSET} bytes, found {count} values of {len(value)} bytes")
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(value))
    return pa.Array.from_buffers(type_, count, [None, pa.py_buffer(offsets), pa.py_buffer(value * count)])


def one_list(values: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
    """Return an array whose only value is a list of numbers."""
    offsets = pa.py_buffer(np.array([0, len(values)], dtype=np.int32))
    return pa.Array.from_buffers(type_, 1, [None, offsets], children=[numbers(values)])
