"""Tasks that write operator state: encode elements, write the file of a subtask.

Elements of lists are dealt in pass 2, in the order of the rows: each subtask takes a range. The sizes of ranges differ by one at
most. Flink deals ranges, too, when the parallelism changes (``RoundRobinOperatorStateRepartitioner``). The subtask of an element
does not depend on the engine, or on tasks of pass 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.operator_state import OperatorSplit, raw_elements
from state_processor.backends.state.descriptions import describe_operator_state
from state_processor.backends.write.blobs import DEALT, NEW, ORDERED_BLOBS, PASSED_THROUGH, Blob
from state_processor.backends.write.change_counts import ChangeCounts
from state_processor.backends.write.operator_writer import OperatorStateFileWriter, edited_elements
from state_processor.backends.write.pending_updates import StoredElements, with_pending_parts
from state_processor.backends.write.staging import Staging
from state_processor.serializers.core.collections import NOT_NULL
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.support.errors import InvalidRowError, third_party_errors
from state_processor.write.plan.draft import ElementEdits
from state_processor.write.tasks.passes import SPILLED_BLOBS, BatchEncoder, Batches, WrittenFile, fetch_blobs
from state_processor.write.tasks.targets import OperatorTarget

_LENGTH: Final = np.dtype("<i8")


@dataclass(frozen=True)
class EncodeElements:
    """Pass 1 over the rows of a list state. Pass 2 deals them."""

    target: OperatorTarget
    state_id: int
    column: str
    stored: StoredElements | None = None

    def encoder(self) -> BatchEncoder:
        """Return a function that yields the elements of the batches of a task as blobs, see :func:`elements_to_blob`."""
        state, stored = self.target.state(self.state_id), self.stored
        written = state if stored is None else with_pending_parts(state)

        def encode(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            label = f"{self.target.label}, state {state.name!r}"
            check_elements(batch, self.column, label)
            try:
                with third_party_errors(label, parts=[state.value]):
                    encoded = encode_column(written.value, batch.column(self.column))
                    if stored is not None:
                        elements = list(stored.resolved(encoded))
                        yield elements_to_blob(*joined(elements), self.state_id, NEW)
                        return
            except InvalidRowError as problem:
                raise InvalidRowError(f"{label}: {problem}") from None
            starts = np.append(encoded.entries[:, 0], len(encoded.data))
            yield elements_to_blob(encoded.data, starts, self.state_id, NEW)

        return encode


def joined(elements: Sequence[bytes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return elements back to back, and their offsets; the last offset is the end."""
    starts = np.cumsum([0, *map(len, elements)], dtype=np.int64)
    return np.frombuffer(b"".join(elements), dtype=np.uint8), starts


def check_elements(batch: pa.RecordBatch, column: str, label: str) -> None:
    """Refuse nulls among the elements of a list of operator state (Flink: ``PartitionableListState.add``)."""
    elements = batch.column(column)
    if elements.null_count:
        row = int(np.flatnonzero(elements.is_null().to_numpy(zero_copy_only=False))[0])
        raise InvalidRowError(f"{label}: column {column} of row {row} is null: {NOT_NULL.rule}")


@dataclass(frozen=True)
class PassThroughElements:
    """Pass 1 over one subtask of the source savepoint: unchanged elements of lists.

    With ``in_place``, they stay in this subtask. ``edits`` replace or leave out some of them, by state.
    """

    target: OperatorTarget
    snapshot: Snapshot
    states: tuple[tuple[str, int], ...]
    in_place: bool
    edits: Mapping[str, ElementEdits] = field(default_factory=dict)

    def __call__(self, part: OperatorSplit) -> Iterator[pa.RecordBatch]:
        """Yield the elements of a subtask."""
        self.target.serializers.enter()
        for name, state_id in self.states:
            data, starts = self.elements(part, name)
            yield elements_to_blob(data, starts, state_id, PASSED_THROUGH, part.subtask if self.in_place else None)

    def elements(self, part: OperatorSplit, name: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Return the elements of a list in one subtask back to back, and their offsets; the last offset is the end."""
        stored = raw_elements(self.snapshot, part, name)
        return edited_elements(stored, self.edits[name].of_subtask(part.subtask)) if name in self.edits else stored


def elements_to_blob(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], state_id: int, phase: int, subtask: int | None = None
) -> pa.RecordBatch:
    """Return elements that are stored back to back as one blob: their offsets, then the elements.

    Without a subtask, pass 2 deals them.
    """
    count = len(starts) - 1
    blob = starts[:-1].astype(_LENGTH).tobytes() + data.tobytes()
    group = DEALT if subtask is None else 0
    row = {"subtask": subtask or 0, "key_group": group, "state": state_id, "phase": phase, "blob": blob, "count": count}
    return pa.RecordBatch.from_pylist([row], schema=ORDERED_BLOBS)


@dataclass(frozen=True)
class BroadcastBytes:
    """Broadcast state, which every subtask has a copy of: number of entries, and their keys and values back to back."""

    state_id: int
    count: int
    data: bytes
    is_new: bool = False


@dataclass(frozen=True)
class WriteOperatorState:
    """Pass 2: a task that writes the operator state file of one subtask from its blobs."""

    target: OperatorTarget
    broadcasts: tuple[BroadcastBytes, ...] = ()
    deals: bool = False

    def __call__(self, subtask: int, blobs: Batches, staging: Staging) -> WrittenFile:
        """Write the file."""
        metas = self.target.metas()
        states = list(map(describe_operator_state, metas))
        elements = 0
        changes: dict[str, ChangeCounts] = {}
        with staging.new_file(self.target.operator_id, "operator", subtask) as sink:
            writer = OperatorStateFileWriter(sink, states, metas, f"{self.target.label}, subtask {subtask}")
            for b, begin, end in self._shares(subtask, blobs, staging):
                head = b.entries * _LENGTH.itemsize
                starts = np.append(b.data[:head].view(_LENGTH), len(b.data) - head).astype(np.int64)[begin : end + 1]
                name = metas[b.state].name
                writer.add_elements(name, b.data[head + starts[0] : head + starts[-1]], starts[:-1] - starts[0])
                elements += end - begin
                if b.phase == NEW:
                    changes[name] = changes.get(name, ChangeCounts()) + ChangeCounts(end - begin, inserted=end - begin)
            for copy in self.broadcasts:
                writer.add_broadcast_bytes(metas[copy.state_id].name, copy.count, np.frombuffer(copy.data, np.uint8))
                elements += copy.count
                if copy.is_new and not subtask:  # the other subtasks have copies
                    changes[metas[copy.state_id].name] = ChangeCounts(copy.count, inserted=copy.count)
            handle = writer.close()
        return WrittenFile(handle, elements, changes)

    def _shares(self, subtask: int, blobs: Batches, staging: Staging) -> Iterator[tuple[Blob, int, int]]:
        """Yield the blobs of a subtask, with begin and end of the elements that it takes; other blobs are not read."""
        table = pa.Table.from_batches(list(blobs), SPILLED_BLOBS)
        states, groups, ends = (np.asarray(table.column(name), np.int64).copy() for name in ("state", "key_group", "count"))
        begins = np.zeros_like(ends)
        for state in np.unique(states[groups == DEALT]):
            dealt = np.flatnonzero((groups == DEALT) & (states == state))
            counts = ends[dealt]
            firsts = np.cumsum(counts) - counts
            total = int(counts.sum())
            hands = min(total, self.target.parallelism)
            low, high = (total * i // hands if i < hands else total for i in (subtask, subtask + 1))
            begins[dealt], ends[dealt] = (np.clip(bound - firsts, 0, counts) for bound in (low, high))
        positions = np.flatnonzero(ends > begins)
        fetched = fetch_blobs(table.take(positions).to_batches(), staging)
        yield from zip(fetched, begins[positions].tolist(), ends[positions].tolist(), strict=True)
