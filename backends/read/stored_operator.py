"""An operator of an open snapshot, whose state is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.read.state_listing import (
    Survey,
    find_operator,
    naming_state,
    operator_label,
    readable_states,
    survey,
)
from state_processor.backends.state.descriptions import StateDescription
from state_processor.serializers.locks import cached_property


@dataclass(frozen=True)
class StoredOperator:
    """An operator, the snapshot that has it, and its states.

    It can be pickled, for tasks that read splits: a split has the handles that a task needs. All other handles are left out;
    a snapshot may have hundreds of thousands of them. A task gets the serializers from the header of the file that it opens.
    """

    snapshot: Snapshot
    operator: OperatorState
    known: Survey | None = None  # the operator's states, if their headers were read before

    @classmethod
    def find(cls, snapshot: Snapshot, uid: str | None = None, uid_hash: str | None = None) -> StoredOperator:
        """Find an operator; see :func:`~state_processor.backends.read.state_listing.find_operator`."""
        return cls(snapshot, find_operator(snapshot, uid, uid_hash))

    def __getstate__(self) -> dict[str, Any]:
        operator = replace(self.operator, subtasks=(), coordinator_state=None)
        return {"snapshot": snapshot_for_tasks(self.snapshot), "operator": operator, "known": None}

    @property
    def label(self) -> str:
        """The operator's name in messages."""
        return operator_label(self.operator)

    @property
    def mixed_times(self) -> str:
        """Name the earlier checkpoints that subtasks of failed regions have their state from; empty if there are none.

        See ``MetadataV7Serializer``. Flink restores such a checkpoint: its values are of several times.
        """
        metadata, earlier = self.snapshot.metadata, sorted(self.operator.reference_checkpoints)
        if not earlier:
            return ""
        numbers = " and ".join(map(str, earlier))
        subtasks = sum(subtask.reference_checkpoint_id is not None for subtask in self.operator.subtasks)
        return (
            f"checkpoint {metadata.checkpoint_id} in {self.snapshot.directory} mixes several times: {subtasks} of "
            f"{len(self.operator.subtasks)} subtasks of {self.label} have the state of checkpoint {numbers}, since their region "
            "failed"
        )

    @cached_property
    def _surveyed(self) -> Survey:
        return survey(self.snapshot, self.operator) if self.known is None else self.known

    def survey(self, state: str | None = None) -> Survey:
        """Return the operator's states, and the states that can't be read. Their headers are read once.

        ``state``: the state that they are read for, which errors name.
        """
        with naming_state(state, self.operator):
            return self._surveyed

    def states(self) -> dict[str, list[StateDescription]]:
        """Return the operator's states by name, as its subtasks register them. All of them have to be readable."""
        return readable_states(self._surveyed)

    def of_subtasks(self, subtasks: Iterable[OperatorSubtaskState]) -> StoredOperator:
        """Return the operator with some of its subtasks."""
        return StoredOperator(self.snapshot, replace(self.operator, subtasks=tuple(subtasks)))


def snapshot_for_tasks(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with access to its files, without operators and plan."""
    return replace(
        snapshot, query_plan=None, metadata=replace(snapshot.metadata, operators=(), master_states=(), properties=None)
    )
