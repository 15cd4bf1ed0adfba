"""What a write has changed in the states of an operator: counts of tasks, and what the draft alone knows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from state_processor.backends.state.descriptions import BroadcastDescription, StateDescription
from state_processor.backends.write.change_counts import ChangeCounts
from state_processor.serializers.core.sql_times import depends_on_zone
from state_processor.write.draft import OperatorDraft
from state_processor.write.subtask_files import WrittenFile
from state_processor.write.write_summary import ADDED, REMOVED, REPLACED, UPDATED, StateChanges


def state_changes(draft: OperatorDraft, files: Iterable[WrittenFile]) -> tuple[StateChanges, ...]:
    """Return the changes to the states of an operator, from the counts of its files: one attempt of each task counts."""
    counted: dict[str, ChangeCounts] = {}
    for file in files:
        for name, counts in file.changes.items():
            counted[name] = counted.get(name, ChangeCounts()) + counts
    changes = []
    for name in dict.fromkeys((*draft.source_states, *draft.added, *draft.operator_states)):
        counts = counted.get(name, ChangeCounts())
        if name in draft.added or name in draft.operator_states:
            changes.append(_new(draft, name, counts))
        elif name in draft.removed:
            changes.append(StateChanges(name, REMOVED, ChangeCounts(deleted=_elements(draft, name))))
        elif name in draft.source_keyed and draft.has_changes(name):
            changes.append(StateChanges(name, UPDATED, counts))
    return tuple(changes)


def has_dates_of_zone(draft: OperatorDraft, changes: Iterable[StateChanges]) -> bool:
    """Check if a state that was written has dates or times that depend on the time zone of the job."""
    written = (change.state for change in changes if change.change != REMOVED)
    return any(depends_on_zone(_description(draft, name)) for name in written)


def _description(draft: OperatorDraft, name: str) -> StateDescription:
    return draft.operator_states[name][0] if name in draft.operator_states else draft.added.get(name) or draft.keyed(name)


def _new(draft: OperatorDraft, name: str, counts: ChangeCounts) -> StateChanges:
    """Return the changes of a state that is written from rows only."""
    if name not in draft.source_states:
        return StateChanges(name, ADDED, counts)
    deleted = _elements(draft, name)
    inserted, updated = (counts.inserted, 0) if deleted is not None else (None, None)  # elements of lists have no keys
    return StateChanges(name, REPLACED, replace(counts, inserted=inserted, updated=updated, deleted=deleted))


def _elements(draft: OperatorDraft, name: str) -> int | None:
    """Return the number of elements of a list or union state in the source savepoint; of other states it takes reading them."""
    source = draft.source
    if source is None or name not in source.operator_metas:
        return None
    if isinstance(source.operator_states[name], BroadcastDescription):
        return None
    handles = (subtask.managed_operator for subtask in source.operator.subtasks)
    states = (state for handle in handles if handle is not None for state in handle.states)
    return sum(len(state.offsets) for state in states if state.name == name)
