"""The interface of tables in a lake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from state_processor.applications.lake.row_identity import identity, without
from state_processor.read.checkpoint_series import Checkpoint
from state_processor.read.row_shape import RowShape, shape_of_text, shape_text
from state_processor.support.errors import WriteError
from state_processor.support.late import pc

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
