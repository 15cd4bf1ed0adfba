"""The interface of tables in a lake.

Changes remove the rows that they replace or delete. Rows are compared by their identifying columns, as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from state_processor.applications.changes.checkpoint_changes import Checkpoint
from state_processor.applications.changes.row_shape import RowShape, shape_of_text, shape_text
from state_processor.command_line import json_text
from state_processor.errors import WriteError
from state_processor.support import pc

_PREFIX: Final = "state-processor."
CHECKPOINT_ID: Final = f"{_PREFIX}checkpoint-id"
_NAMES: Final = ("path", "time", "digest")
_OPERATOR: Final = f"{_PREFIX}operator"
_STATE: Final = f"{_PREFIX}state"
_COLUMNS: Final = f"{_PREFIX}columns"
_SHAPE: Final = f"{_PREFIX}rows"


@dataclass(frozen=True, slots=True)
class Position:
    """A state at a checkpoint."""

    checkpoint: Checkpoint
    operator: str  # the hash of the operator's uid
    state: str
    columns: str  # the columns and their types. A table with other columns is rewritten.
    shape: RowShape  # what shaped the rows: options, registrations and version. A table of another shape is rewritten.

    def properties(self) -> dict[str, str]:
        """Return the position as properties of a commit."""
        of_checkpoint = {f"{_PREFIX}checkpoint-{n}": str(getattr(self.checkpoint, n)) for n in _NAMES}
        of_position = {CHECKPOINT_ID: str(self.checkpoint.checkpoint_id), _OPERATOR: self.operator, _STATE: self.state}
        return of_position | of_checkpoint | {_COLUMNS: self.columns, _SHAPE: shape_text(self.shape)}

    @classmethod
    def of_properties(cls, properties: Mapping[str, str]) -> Position | None:
        """Return the position in the properties of a commit; ``None`` if another program made the commit."""
        if CHECKPOINT_ID not in properties:
            return None
        path, time, digest = (properties[f"{_PREFIX}checkpoint-{n}"] for n in _NAMES)
        checkpoint = Checkpoint(path, int(properties[CHECKPOINT_ID]), int(time), digest)
        return cls(
            checkpoint, properties[_OPERATOR], properties[_STATE], properties[_COLUMNS], shape_of_text(properties.get(_SHAPE))
        )


class ConflictError(WriteError):
    """Another commit came first, such as a compaction: read the table again."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes to the rows of a table."""

    rows: pa.Table  # all identifying columns and values of the rows to insert, to replace or to delete; each row once
    is_delete: pa.ChunkedArray  # a boolean per row: true for rows to delete
    keys: Sequence[str]  # the identifying columns

    @property
    def upserts(self) -> pa.Table:
        """The rows that the table has after the changes."""
        return self.rows.filter(pc.invert(self.is_delete))

    def applied_to(self, stored: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table after the changes: its other rows, and then the rows to insert and to replace."""
        changed = identity(self.rows, self.keys)
        for batch in stored:
            yield without(batch.cast(self.rows.schema), self.keys, changed)
        yield from self.upserts.to_batches()


class LakeTable(Protocol):
    """A table in a lake. Each of its commits is atomic, and records a position."""

    def position(self) -> Position | None:
        """Return the position of the last commit; ``None`` if the table does not exist."""

    def schema(self) -> pa.Schema:
        """Return the columns of the table that :meth:`position` has found."""

    def replace(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], position: Position) -> None:
        """Make the table, or replace all of its rows, in one commit."""

    def apply(self, changes: Changes, position: Position) -> None:
        """Insert, replace and delete rows in one commit."""


_NULL: Final = b"-"
_END: Final = b":"


def is_plain(type_: pa.DataType) -> bool:
    """Return whether a column has one value without parts, whose equality is the same everywhere."""
    return bool(pa.types.is_integer(type_) or pa.types.is_string(type_) or pa.types.is_boolean(type_) or pa.types.is_date(type_))


def identity(rows: pa.RecordBatch | pa.Table, names: Sequence[str]) -> pa.Array | pa.ChunkedArray:
    """Return the bytes that identify each row: the values of some columns, each behind its length."""
    leaves: list[pa.Array | pa.ChunkedArray] = []
    for name in names:
        leaves += _leaves(rows.column(name))
    if not leaves:
        return pa.nulls(rows.num_rows, pa.binary()).fill_null(b"")
    return pc.binary_join_element_wise(*map(_framed, leaves), b"")


def without(rows: pa.RecordBatch, names: Sequence[str], gone: pa.Array | pa.ChunkedArray) -> pa.RecordBatch:
    """Return a batch without the rows whose :func:`identity` is in ``gone``."""
    return rows.filter(pc.invert(pc.is_in(identity(rows, names), value_set=gone)))


def _leaves(column: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array | pa.ChunkedArray]:
    """Return the columns that a column consists of. A struct also has a column of its validity."""
    if not pa.types.is_struct(column.type):
        yield column
        return
    yield pc.is_valid(column)
    for i in range(column.type.num_fields):
        yield from _leaves(pc.struct_field(column, [i]))


def _framed(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    data = _bytes(column)
    length = pc.cast(pc.cast(pc.binary_length(data), pa.string()), pa.binary())
    return pc.fill_null(pc.binary_join_element_wise(length, data, _END), _NULL)


def _bytes(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_binary(column.type):
        return column
    if pa.types.is_nested(column.type):
        texts = [None if value is None else json_text({"": value}) for value in column.to_pylist()]
        return pa.array(texts, pa.string()).cast(pa.binary())
    if pa.types.is_floating(column.type):  # as bits: 0.0 is not -0.0, and NaN is NaN
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.type.bit_width]
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        column = pa.chunked_array([chunk.view(bits) for chunk in chunks], bits)
    return pc.cast(pc.cast(column, pa.string()), pa.binary())
