"""From a keyed state handle to the source that reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from state_processor.backends import handles as h
from state_processor.backends.keyed import KeyedStateSource, open_key_groups
from state_processor.backends.metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.snapshot_dir import Snapshot
from state_processor.backends.states import keyed_header, leaf_keyed_handles, subtask_label
from state_processor.serializers.errors import UnsupportedFormatError


@dataclass(frozen=True, slots=True)
class KeyedHandle:
    """A keyed handle of an operator and where it comes from. It can be pickled.

    ``context`` names operator and subtask in messages.
    """

    handle: h.KeyedStateHandle
    subtask: int
    max_parallelism: int
    context: str

    @property
    def key_groups(self) -> h.KeyGroupRange:
        """The key groups that the handle covers."""
        return self.handle.key_groups

    def open(self, snapshot: Snapshot) -> KeyedStateSource:
        """The source of this handle.

        Raises
        ------
        UnsupportedFormatError
            If the handle is of a kind that is not read.
        """
        if isinstance(self.handle, h.KeyGroupsStateHandle):
            stream = snapshot.open(self.handle.stream, self.context)
            header = keyed_header(snapshot, self.handle, self.context)
            return open_key_groups(stream, self.handle, header, self.context, self.max_parallelism)
        raise UnsupportedFormatError(f"{self.context}: {type(self.handle).__name__} is not read; take a canonical savepoint")


def keyed_handles(operator: OperatorState) -> Iterator[KeyedHandle]:
    """All handles of an operator's managed keyed state."""
    for subtask in operator.subtasks:
        yield from _subtask_handles(operator, subtask)


def _subtask_handles(operator: OperatorState, subtask: OperatorSubtaskState) -> Iterator[KeyedHandle]:
    for handle in leaf_keyed_handles(subtask.managed_keyed):
        yield KeyedHandle(handle, subtask.index, operator.max_parallelism, subtask_label(operator, subtask))
