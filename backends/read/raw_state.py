"""Raw state that operators write themselves, as bytes.

Flink: ``KeyedStateCheckpointOutputStream``, ``OperatorStateCheckpointOutputStream``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from state_processor.backends.formats.opening import open_raw_timers
from state_processor.backends.formats.raw_timers import raw_blocks
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.read.planned_reader import PlannedReader
from state_processor.backends.read.read_plan import ReadPlan
from state_processor.backends.read.state_listing import subtask_label
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.serializers.errors import CorruptSnapshotError, NotFoundError

RAW_KEYED: Final = "RAW_KEYED"
RAW_OPERATOR: Final = "RAW_OPERATOR"
_BATCH_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class RawPiece:
    """Bytes that an operator wrote.

    Parameters
    ----------
    subtask
        The subtask's index.
    index
        The key group of raw keyed state, the number of the partition of raw operator state.
    data
        The bytes.
    """

    subtask: int
    index: int
    data: bytes


def raw_keyed_state(snapshot: Snapshot, operator: OperatorState) -> Iterator[RawPiece]:
    """Yield an operator's own raw keyed state, by key group. Flink's timers in raw keyed state are left out."""
    for subtask in operator.subtasks:
        context = subtask_label(operator, subtask)
        handle = subtask.raw_keyed
        if not isinstance(handle, h.KeyGroupsStateHandle) or open_raw_timers(snapshot, handle, context) is not None:
            continue
        stream = snapshot.open(handle.stream, context)
        for block in raw_blocks(stream, handle, context):
            yield RawPiece(subtask.index, block.key_group, bytes(stream.read(block.offset, block.end - block.offset)))


def raw_operator_state(snapshot: Snapshot, operator: OperatorState) -> Iterator[RawPiece]:
    """Yield an operator's own raw operator state, by partition.

    Raises
    ------
    CorruptSnapshotError
        If an offset is behind the end.
    """
    for subtask in operator.subtasks:
        if subtask.raw_operator is None:
            continue
        context = subtask_label(operator, subtask)
        stream = snapshot.open(subtask.raw_operator.stream, context)
        offsets = [offset for state in subtask.raw_operator.states for offset in state.offsets]
        bounds = sorted({*offsets, stream.size})
        if bounds[0] < 0 or bounds[-1] > stream.size:
            location = f"{context}, {stream.describe()}"
            raise CorruptSnapshotError(f"{location}: a partition starts at {bounds[-1]} of {stream.size} bytes")
        ends = dict(zip(bounds, [*bounds[1:], stream.size], strict=True))
        for i, offset in enumerate(offsets):
            yield RawPiece(subtask.index, i, bytes(stream.read(offset, ends[offset] - offset)))


@dataclass(frozen=True, slots=True)
class RawSplit:
    """The raw state of one subtask: what one task reads. It can be pickled."""

    subtask: OperatorSubtaskState
    size: int


class RawStateReader(PlannedReader):
    """Reads raw state, as rows of ``subtask``, ``key_group`` or ``partition``, and ``value`` (the bytes).

    Parameters
    ----------
    stored
        The operator that has the state.
    kind
        ``RAW_KEYED`` or ``RAW_OPERATOR``.
    plan
        What the read gives: raw state has columns, and its values are bytes.

    Raises
    ------
    NotFoundError
        If the operator does not have such state.
    """

    def __init__(self, stored: StoredOperator, kind: str, plan: ReadPlan) -> None:
        super().__init__(stored, plan)
        self._kind = kind
        if not self.splits():
            raise NotFoundError(f"{stored.label} has no {kind} state")

    def _whole_schema(self) -> pa.Schema:
        return pa.schema([("subtask", pa.int32()), (_INDEX[self._kind], pa.int32()), ("value", pa.binary())])

    def splits(self, split_bytes: int = 0) -> list[RawSplit]:
        """Plan a split per subtask."""
        return [split for s in self._stored.operator.subtasks if (split := self._split(s)) is not None]

    def _split(self, subtask: OperatorSubtaskState) -> RawSplit | None:
        handle = subtask.raw_keyed if self._kind == RAW_KEYED else subtask.raw_operator
        if handle is None:
            return None
        if self._kind == RAW_KEYED:
            if (
                open_raw_timers(self._stored.snapshot, subtask.raw_keyed, subtask_label(self._stored.operator, subtask))
                is not None
            ):
                return None
            return RawSplit(OperatorSubtaskState(index=subtask.index, raw_keyed=subtask.raw_keyed), handle.state_size)
        return RawSplit(OperatorSubtaskState(index=subtask.index, raw_operator=subtask.raw_operator), handle.state_size)

    def _rows(self, split: RawSplit) -> Iterator[pa.RecordBatch]:
        pieces: list[RawPiece] = []
        size = 0
        for piece in _READ[self._kind](self._stored.snapshot, replace(self._stored.operator, subtasks=(split.subtask,))):
            pieces.append(piece)
            size += len(piece.data)
            if size >= _BATCH_BYTES:
                yield self._batch(pieces)
                pieces, size = [], 0
        if pieces:
            yield self._batch(pieces)

    def _batch(self, pieces: list[RawPiece]) -> pa.RecordBatch:
        values = {"subtask": [p.subtask for p in pieces], "value": [p.data for p in pieces]}
        values[_INDEX[self._kind]] = [p.index for p in pieces]
        arrays = [pa.array(values[field.name], field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


_INDEX: Final = {RAW_KEYED: "key_group", RAW_OPERATOR: "partition"}
_READ: Final[dict[str, Callable[[Snapshot, OperatorState], Iterator[RawPiece]]]] = {
    RAW_KEYED: raw_keyed_state,
    RAW_OPERATOR: raw_operator_state,
}
