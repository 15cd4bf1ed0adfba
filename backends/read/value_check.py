"""Check of the values of a snapshot: each can be decoded to its last byte, and each key is in its key group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from state_processor.backends.formats.entry_layouts import KEY
from state_processor.backends.formats.row_layout import KEY_GROUP_COLUMN
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.read.structure_check import SnapshotCheck
from state_processor.backends.state.descriptions import KeyedDescription, StateDescription
from state_processor.backends.state.key_groups import key_group
from state_processor.serializers.errors import StateProcessorError, UnsupportedFormatError
from state_processor.serializers.keys.hash_codes import hash_codes
from state_processor.serializers.records import dataclass

_OPTIONS = ReadOptions(nanos="string", row_kind=True, metadata=True)


@dataclass
class ValueCheck(SnapshotCheck):
    """Outcome of a check of values, with the number of decoded rows. Problems are states that can't be decoded, or are wrong.

    ``unknown`` has states whose keys have a ``hashCode`` of the job's classes, so that their key groups can't be checked.
    """

    rows: int = 0

    def _check_operator(self, snapshot: Snapshot, operator: OperatorState) -> None:
        stored = StoredOperator(snapshot, operator)
        try:
            states, unread = stored.survey()
        except StateProcessorError as problem:
            self.problems.append(str(problem))
            return
        self.problems += [str(state.error) for state in unread]
        for variants in states.values():
            try:
                self._check_state(stored, variants[0])
            except StateProcessorError as problem:
                self.problems.append(str(problem))

    def _check_state(self, stored: StoredOperator, state: StateDescription) -> None:
        reader = open_state(stored, state.name, options=_OPTIONS)
        label = f"{stored.label}, state {state.name!r}"
        hashed = isinstance(state, KeyedDescription)
        for split in reader.splits():
            for batch in reader.read(split):
                self.rows += batch.num_rows
                if hashed and isinstance(state, KeyedDescription):
                    try:
                        self._check_keys(batch, state, stored.operator.max_parallelism, label)
                    except UnsupportedFormatError:
                        self.unknown.append(label)
                        hashed = False

    def _check_keys(self, batch: pa.RecordBatch, state: KeyedDescription, max_parallelism: int, label: str) -> None:
        keys = batch.column(batch.schema.get_field_index(KEY))
        expected = key_group(hash_codes(state.key, keys), max_parallelism)
        found = batch.column(batch.schema.get_field_index(KEY_GROUP_COLUMN)).to_numpy()
        wrong = np.flatnonzero(expected != found)
        if len(wrong):
            row = int(wrong[0])
            self.problems.append(
                f"{label}: {len(wrong)} entries are in the wrong key group, such as key {keys[row].as_py()!r} in {found[row]}: "
                f"its hash belongs to {expected[row]}, where Flink looks for it"
            )
