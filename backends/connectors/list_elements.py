"""Elements of list state that connectors write: bytes with the version of their format.

Flink: ``SimpleVersionedListState``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from state_processor.backends.connectors.connector import Versioned
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.operator_state import OperatorStateReader, raw_elements
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.read_plan import ReadPlan
from state_processor.backends.read.state_listing import operator_label
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.serializers.io import DataInput


def _reader(snapshot: Snapshot, operator: OperatorState, name: str) -> OperatorStateReader:
    stored = StoredOperator(snapshot, operator)
    return OperatorStateReader(stored, stored.states()[name], ReadPlan.of(ReadOptions()))


def list_elements(snapshot: Snapshot, operator: OperatorState, name: str) -> Iterator[tuple[int, Any]]:
    """Yield the elements of an operator's list state, each with its subtask."""
    reader = _reader(snapshot, operator, name)
    for split in reader.splits():
        for batch in reader.read(split):
            for element in batch.column("value").to_pylist():
                yield split.subtask, element


def undecoded_elements(snapshot: Snapshot, operator: OperatorState, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of the elements of an operator's list state, each with its subtask."""
    reader = _reader(snapshot, operator, name)
    for split in reader.splits():
        data, bounds = raw_elements(snapshot, split, name)
        for start, end in pairwise(bounds.tolist()):
            yield split.subtask, data[start:end].tobytes()


def versioned_elements(snapshot: Snapshot, operator: OperatorState, name: str) -> Iterator[tuple[int, Versioned]]:
    """Yield the elements of a list of bytes, each with its subtask.

    Raises
    ------
    CorruptSnapshotError
        An element is not such bytes.
    """
    for subtask, element in list_elements(snapshot, operator, name):
        context = f"{operator_label(operator)}, subtask {subtask}, state {name!r}"
        if not isinstance(element, bytes):
            raise DataInput(b"", context).corrupt(f"holds {type(element).__name__}, no bytes")
        source = DataInput(element, context)
        written = Versioned.read(source)
        if not source.at_end():
            raise source.corrupt(f"{source.remaining} bytes are left over behind an element")
        yield subtask, written
