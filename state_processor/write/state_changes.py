"""Changes that a write made to the states of an operator, for its summary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from state_processor.backends.state.descriptions import BroadcastDescription, StateDescription
from state_processor.backends.write.change_counts import ChangeCounts
from state_processor.serializers.core.sql_times import depends_on_zone
from state_processor.write.outcome import OperatorOutcome
from state_processor.write.second_pass import WrittenFile
from state_processor.write.write_summary import ADDED, REMOVED, REPLACED, UPDATED, StateChanges


def state_changes(outcome: OperatorOutcome, files: Iterable[WrittenFile]) -> tuple[StateChanges, ...]:
    """Return the changes to the states of an operator, from the counts of its files: one attempt of each task counts."""
    changes = outcome.changes
    counted: dict[str, ChangeCounts] = {}
    for file in files:
        for name, counts in file.changes.items():
            counted[name] = counted.get(name, ChangeCounts()) + counts
    found = []
    for name in dict.fromkeys((*_source_states(outcome), *changes.added, *changes.operator_states)):
        counts = counted.get(name, ChangeCounts())
        if name in changes.added or name in changes.operator_states:
            found.append(_new(outcome, name, counts))
        elif name in changes.removed:
            found.append(StateChanges(name, REMOVED, ChangeCounts(deleted=_elements(outcome, name))))
        elif name in outcome.keyed.kept and changes.changes_entries(name):
            found.append(StateChanges(name, UPDATED, counts))
    return tuple(found)


def has_dates_of_zone(outcome: OperatorOutcome, changes: Iterable[StateChanges]) -> bool:
    """Check if a state that was written has dates or times that depend on the time zone of the job."""
    written = (change.state for change in changes if change.change != REMOVED)
    return any(depends_on_zone(_description(outcome, name)) for name in written)


def _source_states(outcome: OperatorOutcome) -> tuple[str, ...]:
    return outcome.source.states if outcome.source is not None else ()


def _description(outcome: OperatorOutcome, name: str) -> StateDescription:
    """Return the description in the new savepoint of a state that was written."""
    changes, migration = outcome.changes, outcome.migration
    if name in changes.operator_states:
        return changes.operator_states[name][0]
    if name in changes.added:
        return changes.added[name]
    if name in outcome.converted and migration is not None and migration.keyed is not None:
        return migration.keyed.roles(name)[1]
    assert outcome.source is not None  # rows change a state of it
    return outcome.source.keyed_states[name]


def _new(outcome: OperatorOutcome, name: str, counts: ChangeCounts) -> StateChanges:
    """Return the changes of a state that is written from rows only."""
    if name not in _source_states(outcome):
        return StateChanges(name, ADDED, counts)
    deleted = _elements(outcome, name)
    inserted, updated = (counts.inserted, 0) if deleted is not None else (None, None)  # elements of lists lack keys
    return StateChanges(name, REPLACED, replace(counts, inserted=inserted, updated=updated, deleted=deleted))


def _elements(outcome: OperatorOutcome, name: str) -> int | None:
    """Return the number of elements of a list or union state in the source savepoint; ``None`` for states that are not read."""
    source = outcome.source
    if source is None or name not in source.operator_metas:
        return None
    if isinstance(source.operator_states[name], BroadcastDescription):
        return None
    handles = (subtask.managed_operator for subtask in source.operator.subtasks)
    states = (state for handle in handles if handle is not None for state in handle.states)
    return sum(len(state.offsets) for state in states if state.name == name)
