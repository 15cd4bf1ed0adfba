"""Check that keys of maps and elements of sets are distinct: Arrow allows duplicates, but Java would lose one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.decode_options import WIDEST
from state_processor.serializers.kernel.columns import ColumnValues
from state_processor.support.arrow_types import holds
from state_processor.support.errors import InvalidRowError
from state_processor.support.late import pc

Rows = Callable[[int], int]
Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Distinct:
    """The comparison of the keys of maps, or of the elements of sets.

    ``type`` is the column of values of which equal ones have equal bits; values that came as another (numbers and times as text,
    ``"5"`` and ``"05"``) are compared by what ``to_bytes`` makes of each.
    """

    type: pa.DataType
    to_bytes: Callable[[Any], bytes]
    of_set: bool = False


def distinct_values(serializer: ColumnValues, *, of_set: bool = False) -> Distinct:
    """Return the comparison of a serializer's values that are keys of maps, or elements of sets."""
    return Distinct(serializer.arrow_type(WIDEST), lambda value: serializer.serialize(serializer.from_column(value)), of_set)


def check_distinct_values(distinct: Distinct, values: pa.Array, lengths: Codes, inside: Mask, path: str, row_of: Rows) -> None:
    """Refuse maps whose keys, or sets whose elements, are the same in Java though their columns differ.

    ``distinct``: the comparison. ``values``: the keys or elements of all maps or sets, in the type that the kernel reads; as
    bytes where they are written in Python. ``lengths``: the size of each map or set. ``inside``: which of the keys or elements
    are reachable. ``path`` and ``row_of``: the column, and the row of each key or element, for the message.
    """
    as_other = values.type != distinct.type
    if lengths.max(initial=0) <= 1 or not (as_other or distinct.of_set):
        return
    compared = values
    if as_other and not pa.types.is_binary(values.type):
        written = [distinct.to_bytes(v) if v is not None and inside[i] else None for i, v in enumerate(values.to_pylist())]
        compared = pa.array(written, pa.binary())
    slot = _repeated(compared, np.repeat(np.arange(len(lengths)), lengths), inside)
    if slot is not None:
        raise _twice(path, row_of(slot), values[slot], "element" if distinct.of_set else "key")


def holds_maps(type_: pa.DataType) -> bool:
    """Return True if values of a type hold maps, at any depth."""
    return holds(type_, pa.types.is_map)


def check_map_keys(array: pa.Array, path: str) -> None:
    """Refuse a column with a map that has a key twice, at any depth."""
    if holds_maps(array.type):
        _check(array, path, np.ones(len(array), dtype=np.bool_), int)


def _check(array: pa.Array, path: str, reachable: Mask, rows: Rows) -> None:
    if not holds_maps(array.type):
        return
    inside = reachable & _present(array)
    if pa.types.is_struct(array.type):
        for i in range(array.type.num_fields):
            _check(array.field(i), f"{path}.{array.type.field(i).name}", inside, rows)
        return
    offsets = array.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(offsets)
    starts, first, last = offsets - offsets[0], int(offsets[0]), int(offsets[-1])
    present = np.repeat(inside, lengths)

    def row_of(slot: int) -> int:
        return rows(int(np.searchsorted(starts, slot, side="right")) - 1)

    elements = array.values.slice(first, last - first)
    if not pa.types.is_map(array.type):
        _check(elements, f"{path}.element", present, row_of)
        return
    keys = elements.field(0)
    if lengths.max(initial=0) > 1:
        slot = _repeated(keys, np.repeat(np.arange(len(lengths)), lengths), present)
        if slot is not None:
            raise _twice(path, row_of(slot), keys[slot])
    _check(keys, f"{path}.key", present, row_of)
    _check(elements.field(1), f"{path}.value", present, row_of)


def _repeated(keys: pa.Array, maps: Codes, present: Mask) -> int | None:
    """Return the first slot with a key that the map has at an earlier one; ``None`` without duplicates."""
    codes = _codes(keys)
    order = np.lexsort((codes, maps))
    same = (np.diff(codes[order]) == 0) & (np.diff(maps[order]) == 0) & present[order][1:]
    return int(order[1:][same].min()) if same.any() else None


def _codes(values: pa.Array) -> Codes:
    """Return a number for each value, the same for values with the same bits."""
    if pa.types.is_floating(values.type):
        bits = values.to_numpy(zero_copy_only=False)
        values = pa.array(bits.view(f"i{bits.itemsize}"))
    if pa.types.is_integer(values.type) and not values.null_count:
        return np.asarray(values.to_numpy()).astype(np.int64)
    if pa.types.is_struct(values.type):
        codes = _present(values).astype(np.int64)
        for i in range(values.type.num_fields):
            pairs = np.stack([codes, _codes(values.field(i))])
            codes = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
        return codes
    if pa.types.is_nested(values.type):
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(repr(v), len(numbers)) for v in values.to_pylist()], dtype=np.int64)
    return np.asarray(pc.dictionary_encode(values).indices.fill_null(-1).to_numpy(zero_copy_only=False)).astype(np.int64)


def _present(array: pa.Array) -> Mask:
    if not array.null_count:
        return np.ones(len(array), dtype=np.bool_)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def _twice(path: str, row: int, value: Any, role: str = "key") -> InvalidRowError:
    text = repr(value.as_py())
    excerpt = text if len(text) <= 120 else text[:117] + "..."
    held = {"key": "a map holds one value for it", "element": "a set holds it once"}[role]
    error = InvalidRowError(f"column {path} of row {row} has the {role} {excerpt} more than once; {held}")
    error.row = row
    return error
