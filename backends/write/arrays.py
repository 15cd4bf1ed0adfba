"""Arrow arrays of the memory of numpy arrays and of bytes, and of plain values of Python.

``pyarrow.array``, ``pyarrow.scalar`` and ``to_numpy`` always import pandas. Its import takes a fifth of a second in each process
that writes. ``numpy.from_dlpack`` makes numpy arrays without pandas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_MAX_OFFSET: Final = np.iinfo(np.int32).max


def numbers(values: npt.NDArray[Any]) -> pa.Array:
    """Return numbers as an array of the same type, without a copy if they are contiguous."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def flags(values: npt.NDArray[np.bool_]) -> pa.Array:
    """Return booleans as an array."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))])


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


def of_values(values: Sequence[Any]) -> pa.Array:
    """Return values of Python as an array, as ``pyarrow.array`` does; plain values without pandas.

    Plain values are ``int``, ``float``, ``bool``, ``str``, ``bytes``, and lists and dictionaries of them, all of one type.

    Raises
    ------
    pyarrow.ArrowException, OverflowError
        The errors of ``pyarrow.array``.
    """
    made = _plain(values)
    return pa.array(values) if made is None else made


def _plain(values: Sequence[Any]) -> pa.Array | None:
    """Return plain values as an array; ``None`` for others."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.nulls(len(values))
    (kind, *others), present = kinds, [value is not None for value in values]
    if others or kind not in _MAKERS:
        return None
    validity = None if all(present) else pa.py_buffer(np.packbits(present, bitorder="little"))
    try:
        return _MAKERS[kind](values, validity)
    except (OverflowError, UnicodeEncodeError):  # pyarrow describes it
        return None


def _fixed(type_: pa.DataType, dtype: str) -> Callable[[Sequence[Any], Any], pa.Array]:
    def make(values: Sequence[Any], validity: Any) -> pa.Array:
        found = np.array([0 if value is None else value for value in values], dtype)
        data = np.packbits(found, bitorder="little") if dtype == "bool" else found
        return pa.Array.from_buffers(type_, len(values), [validity, pa.py_buffer(data)])

    return make


def _sized(type_: pa.DataType, encode: Callable[[Any], bytes]) -> Callable[[Sequence[Any], Any], pa.Array | None]:
    def make(values: Sequence[Any], validity: Any) -> pa.Array | None:
        parts = [b"" if value is None else encode(value) for value in values]
        offsets = _offsets(parts)
        return offsets and pa.Array.from_buffers(type_, len(values), [validity, offsets, pa.py_buffer(b"".join(parts))])

    return make


def _lists(values: Sequence[Any], validity: Any) -> pa.Array | None:
    offsets = _offsets([value or () for value in values])
    elements = _plain(list(chain.from_iterable(value or () for value in values)))
    if offsets is None or elements is None:
        return None
    return pa.Array.from_buffers(pa.list_(elements.type), len(values), [validity, offsets], children=[elements])


def _structs(values: Sequence[Any], validity: Any) -> pa.Array | None:
    names = list(dict.fromkeys(chain.from_iterable(value or () for value in values)))
    made = [_plain([None if value is None else value.get(name) for value in values]) for name in names]
    fields = [field for field in made if field is not None]
    if len(fields) < len(names) or not all(type(name) is str for name in names):
        return None
    type_ = pa.struct([(name, field.type) for name, field in zip(names, fields, strict=True)])
    return pa.Array.from_buffers(type_, len(values), [validity], children=fields)


def _offsets(parts: Sequence[Any]) -> Any:
    """Return the offsets of variable-size parts; ``None`` if they don't fit 32 bits."""
    ends = list(accumulate(map(len, parts), initial=0))
    return None if ends[-1] > _MAX_OFFSET else pa.py_buffer(np.array(ends, np.int32))


_MAKERS: Final[dict[type, Callable[[Sequence[Any], Any], pa.Array | None]]] = {
    bool: _fixed(pa.bool_(), "bool"),
    int: _fixed(pa.int64(), "int64"),
    float: _fixed(pa.float64(), "float64"),
    str: _sized(pa.string(), str.encode),
    bytes: _sized(pa.binary(), bytes),
    list: _lists,
    dict: _structs,
}
