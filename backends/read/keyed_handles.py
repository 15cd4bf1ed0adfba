"""The keyed state handles of an operator, which tasks open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from state_processor.backends.formats.opening import open_raw_timers, open_source
from state_processor.backends.formats.source import KeyedStateSource
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.read.state_listing import operator_label, subtask_label
from state_processor.serializers.errors import CorruptSnapshotError, UnsupportedFormatError


@dataclass(frozen=True, slots=True)
class KeyedHandle:
    """A keyed handle of an operator and where it comes from. It can be pickled.

    ``context`` names operator and subtask in messages. ``raw`` marks timers in raw keyed state.
    """

    handle: h.KeyedStateHandle
    subtask: int
    max_parallelism: int
    context: str
    raw: bool = False

    @property
    def key_groups(self) -> h.KeyGroupRange:
        """The key groups that the handle covers."""
        return self.handle.key_groups

    def size_of(self, key_groups: h.KeyGroupRange) -> int:
        """Estimate the bytes of some key groups."""
        return self.handle.state_size * len(self.key_groups.intersect(key_groups)) // max(1, len(self.key_groups))

    def open(self, snapshot: Snapshot) -> KeyedStateSource:
        """Open the source of this handle.

        Raises
        ------
        UnsupportedFormatError
            If the handle is of a kind that is not read.
        """
        if not self.raw:
            return open_source(snapshot, self.handle, self.context, self.max_parallelism)
        timers = open_raw_timers(snapshot, self.handle, self.context)
        if timers is None:
            raise UnsupportedFormatError(f"{self.context}: raw keyed state holds bytes of the operator, not timers")
        return timers


def managed_handles(operator: OperatorState) -> Iterator[KeyedHandle]:
    """Yield the handles of an operator's managed keyed state; timers in raw keyed state are left out.

    Raises
    ------
    CorruptSnapshotError
        If two subtasks have the same key group.
    """
    check_key_groups(operator)
    for subtask in operator.subtasks:
        if subtask.managed_keyed is not None:
            yield _handle(operator, subtask, subtask.managed_keyed)


def keyed_handles(operator: OperatorState, snapshot: Snapshot) -> Iterator[KeyedHandle]:
    """Yield the handles of an operator's keyed state, by subtask. Of raw keyed state these are the handles that have timers.

    Raises
    ------
    CorruptSnapshotError
        If two subtasks have the same key group.
    """
    check_key_groups(operator)
    for subtask in operator.subtasks:
        if subtask.managed_keyed is not None:
            yield _handle(operator, subtask, subtask.managed_keyed)
        if subtask.raw_keyed is not None and open_raw_timers(snapshot, subtask.raw_keyed, subtask_label(operator, subtask)):
            yield _handle(operator, subtask, subtask.raw_keyed, raw=True)


def check_key_groups(operator: OperatorState) -> None:
    """Refuse an operator whose subtasks have the same key group: its keys would be read twice.

    Raises
    ------
    CorruptSnapshotError
        If there are two such subtasks.
    """
    for slot in ("managed_keyed", "raw_keyed"):
        handles = ((subtask, getattr(subtask, slot)) for subtask in operator.subtasks)
        ranges = sorted(
            (handle.key_groups.start, handle.key_groups.end_inclusive, subtask.index)
            for subtask, handle in handles
            if handle is not None and handle.key_groups
        )
        for (_, end, subtask), (start, _, following) in pairwise(ranges):
            if start <= end:
                raise CorruptSnapshotError(
                    f"{operator_label(operator)}: subtasks {subtask} and {following} both have key group {start}: _metadata is "
                    "damaged; restore another snapshot"
                )


def _handle(
    operator: OperatorState, subtask: OperatorSubtaskState, handle: h.KeyedStateHandle, *, raw: bool = False
) -> KeyedHandle:
    return KeyedHandle(handle, subtask.index, operator.max_parallelism, subtask_label(operator, subtask), raw)
