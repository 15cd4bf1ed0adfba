"""Search in columns of Arrow, including nested values, without a Python object for each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.analysis.needles import Needle
from state_processor.serializers.late import pc
from state_processor.serializers.paths import ELEMENT, KEY, VALUE, join

_Rows = npt.NDArray[np.int64]
Found = tuple[Needle, str, _Rows]
"""A needle, the path of a field, and positions of rows in the batch. A row is repeated for each hit in its field."""


def search_batch(batch: pa.RecordBatch, needles: Sequence[Needle], skipped: Iterable[str] = ()) -> Iterator[Found]:
    """Yield the fields and rows of a batch that contain needles.

    Parameters
    ----------
    batch
        The rows.
    needles
        The texts and numbers to search for.
    skipped
        Columns that are not searched.
    """
    left_out = frozenset(skipped)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name not in left_out:
            yield from _search(name, column, None, needles)


def _search(path: str, array: pa.Array, parents: _Parents | None, needles: Sequence[Needle]) -> Iterator[Found]:
    """Search an array; ``parents`` maps its values to rows of the batch."""
    type_ = array.type
    if pa.types.is_struct(type_):
        for field, child in zip(type_, array.flatten(), strict=True):
            yield from _search(join(path, field.name), child, parents, needles)
    elif pa.types.is_map(type_):
        inner = _Parents(array.cast(pa.list_(pa.struct([("key", type_.key_type), ("value", type_.item_type)]))), parents)
        entries = inner.values
        yield from _search(join(path, KEY), entries.field(0), inner, needles)
        yield from _search(join(path, VALUE), entries.field(1), inner, needles)
    elif pa.types.is_list(type_):
        inner = _Parents(array, parents)
        yield from _search(join(path, ELEMENT), inner.values, inner, needles)
    else:
        for needle in needles:
            rows = needle.rows(array)
            if rows is not None:
                yield needle, path, rows if parents is None else parents.rows_of(rows)


class _Parents:
    """Maps the elements of lists to the rows of the lists."""

    def __init__(self, lists: pa.ListArray, parents: _Parents | None) -> None:
        self.values = lists.flatten()
        self._lists = lists
        self._parents = parents

    def rows_of(self, elements: _Rows) -> _Rows:
        """Return the row of each element."""
        rows: _Rows = pc.list_parent_indices(self._lists).to_numpy()[elements]
        return rows if self._parents is None else self._parents.rows_of(rows)
