"""Operators of a new savepoint, and their operator state as columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.state.descriptions import BroadcastDescription
from state_processor.backends.write.assembly import check_files
from state_processor.backends.write.operator_writer import OperatorStateFileWriter, encode_broadcast, encode_columns


class SubtaskHandles(NamedTuple):
    """The state of one subtask."""

    keyed: h.KeyedStateHandle | None = None
    operator: h.OperatorStateHandle | None = None


def new_operator(
    uid: str, parallelism: int, max_parallelism: int, subtasks: Mapping[int, SubtaskHandles], like: OperatorState | None = None
) -> OperatorState:
    """Return the operator with a uid, or with the identity and the coordinator of another one."""
    states = []
    for index in range(parallelism):
        handles = subtasks.get(index, SubtaskHandles())
        states.append(OperatorSubtaskState(index, managed_operator=handles.operator, managed_keyed=handles.keyed))
    identity = (None, None, uid) if like is None else (like.coordinator_state, like.name, like.uid)
    new_id = operator_id(uid) if like is None else like.operator_id
    operator = OperatorState(new_id, parallelism, max_parallelism, tuple(states), *identity)
    check_files(operator)
    return operator


class OperatorColumnsWriter(OperatorStateFileWriter):
    """Writer of columns: the operator state of one subtask."""

    def add_list(self, name: str, values: pa.Array) -> None:
        """Append the elements of a split or union list."""
        encoded = encode_columns({"value": self._state(name).value}, {"value": values}, f"state {name!r}")
        self.add_elements(name, encoded.data, encoded.entries[:, 0])

    def add_broadcast(self, name: str, keys: pa.Array, values: pa.Array) -> None:
        """Write a broadcast state as a whole."""
        state = self._state(name)
        assert isinstance(state, BroadcastDescription)
        self.add_broadcast_bytes(name, len(keys), encode_broadcast(state, keys, values, f"state {name!r}"))
