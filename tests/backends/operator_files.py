"""Operators of a new savepoint, and their operator state as columns."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.state.descriptions import BroadcastDescription
from state_processor.backends.write.assembly import NewOperator, SubtaskHandles
from state_processor.backends.write.operator_writer import OperatorStateFileWriter, encode_broadcast, encode_columns


def new_operator(uid: str, parallelism: int, max_parallelism: int, subtasks: Mapping[int, SubtaskHandles]) -> NewOperator:
    """Return the operator with a uid."""
    return NewOperator(operator_id(uid), parallelism, max_parallelism, subtasks, uid=uid)


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
