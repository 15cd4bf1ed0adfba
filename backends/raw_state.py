"""Raw state that operators write themselves, as bytes.

Flink: ``KeyedStateCheckpointOutputStream``, ``OperatorStateCheckpointOutputStream``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from state_processor.backends import handles as h
from state_processor.backends.metadata import OperatorState
from state_processor.backends.raw_timers import raw_blocks
from state_processor.backends.snapshot_dir import Snapshot
from state_processor.backends.states import raw_timers_header, subtask_label
from state_processor.serializers.errors import CorruptSnapshotError


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
    """An operator's own raw keyed state, by key group. Flink's timers, which may lie there too, are left out."""
    for subtask in operator.subtasks:
        context = subtask_label(operator, subtask)
        handle = subtask.raw_keyed
        if not isinstance(handle, h.KeyGroupsStateHandle) or raw_timers_header(snapshot, handle, context) is not None:
            continue
        stream = snapshot.open(handle.stream, context)
        for block in raw_blocks(stream, handle, context):
            yield RawPiece(subtask.index, block.key_group, bytes(stream.read(block.offset, block.end - block.offset)))


def raw_operator_state(snapshot: Snapshot, operator: OperatorState) -> Iterator[RawPiece]:
    """An operator's own raw operator state, by partition.

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
            where = f"{context}, {stream.describe()}"
            raise CorruptSnapshotError(f"{where}: a partition starts at {bounds[-1]} of {stream.size} bytes")
        ends = dict(zip(bounds, [*bounds[1:], stream.size], strict=True))
        for i, offset in enumerate(offsets):
            yield RawPiece(subtask.index, i, bytes(stream.read(offset, ends[offset] - offset)))
