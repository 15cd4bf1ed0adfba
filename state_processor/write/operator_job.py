"""Operators that are written: copies of files, files of keyed and of operator state, and their metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.read.stored_operator import snapshot_for_tasks
from state_processor.backends.state.descriptions import BroadcastDescription, StateDescription
from state_processor.backends.write.assembly import NewOperator, SubtaskHandles
from state_processor.backends.write.change_counts import ChangeCounts
from state_processor.backends.write.pass_through import CopyPart, CopySubtasks
from state_processor.backends.write.staging import Staging
from state_processor.serializers.core.sql_times import depends_on_zone
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.write.engines import Engine, StateFiles, Written
from state_processor.write.keyed_state_job import keyed_state_files
from state_processor.write.operator_state_job import operator_state_files
from state_processor.write.outcome import OperatorOutcome
from state_processor.write.passes import WrittenFile
from state_processor.write.write_summary import ADDED, REMOVED, REPLACED, UPDATED, OperatorSummary, StateChanges

KEYED: Final = "keyed"
OPERATOR: Final = "operator"

Copies = Mapping[tuple[str, int], OperatorSubtaskState]
"""Copied state by operator id in the new savepoint, and subtask."""


def copy_unchanged(engine: Engine, outcomes: Sequence[OperatorOutcome], staging: Staging) -> dict[tuple[str, int], Any]:
    """Copy the files of unchanged state, of all operators of a snapshot in one job; returns :data:`Copies`."""
    parts: dict[int, list[CopyPart]] = {}
    snapshots: dict[int, Snapshot] = {}
    copies: dict[tuple[str, int], Any] = {}
    shares_files = any(outcome.settings.format.shares_files for outcome in outcomes)
    for outcome in outcomes:
        if outcome.source is None or outcome.is_redistributed:
            continue
        snapshot, new_id = outcome.source.snapshot, outcome.identifier.uid_hash
        snapshots[id(snapshot)] = snapshot
        for subtask in (_unchanged(outcome, s) for s in outcome.source.operator.subtasks):
            copies[new_id, subtask.index] = subtask
            if subtask != OperatorSubtaskState(subtask.index):
                parts.setdefault(id(snapshot), []).append(CopyPart(new_id, outcome.label, subtask))
    for number, of_snapshot in parts.items():
        task = CopySubtasks(snapshot_for_tasks(snapshots[number]), staging, shares_files)
        copied = engine.copy_files(of_snapshot, task)
        copies |= {(part.operator_id, state.index): state for part, state in zip(of_snapshot, copied, strict=True)}
    return copies


def _unchanged(outcome: OperatorOutcome, subtask: OperatorSubtaskState) -> OperatorSubtaskState:
    """Return a subtask of the source savepoint without the state that is written."""
    assert outcome.source is not None
    if outcome.keyed.is_written:
        has_timers = any(k.raw and k.subtask == subtask.index for k in outcome.source.handles)
        rewritten = has_timers and not outcome.keyed.timers_in_place
        subtask = replace(subtask, managed_keyed=None, raw_keyed=None if rewritten else subtask.raw_keyed)
    if outcome.operator_state.is_written:
        subtask = replace(subtask, managed_operator=None)
    return subtask


def changed_files(outcome: OperatorOutcome, engine: Engine) -> dict[str, StateFiles]:
    """Return the files to write of an operator, by :data:`KEYED` and :data:`OPERATOR`."""
    if not outcome.is_written:
        return {}
    _check_raw(outcome)
    files = {
        KEYED: keyed_state_files(outcome, engine) if outcome.keyed.is_written else None,
        OPERATOR: operator_state_files(outcome) if outcome.operator_state.is_written else None,
    }
    return {kind: state_files for kind, state_files in files.items() if state_files is not None}


def written_operator(
    outcome: OperatorOutcome, copies: Copies, written: Mapping[str, Written]
) -> tuple[OperatorState, OperatorSummary]:
    """Return the metadata and the summary of an operator, from the copies and the files that were written, by kind."""
    keyed, operator = (written.get(kind, {}) for kind in (KEYED, OPERATOR))
    new = _assembled(outcome, copies, keyed, operator) if outcome.is_written else _copied(outcome, copies)
    files = (*keyed.values(), *operator.values())
    before, identifier, source = outcome.before, outcome.identifier, outcome.source
    if source is not None and source.is_copied:
        before = source.identifier
    summary = OperatorSummary(
        new.uid,
        new.operator_id,
        new.parallelism,
        new.max_parallelism,
        outcome.states,
        sum(file.entries for file in files),
        new.state_size,
        carried=not outcome.is_written,
        rewritten=outcome.keyed.reasons_to_rewrite if outcome.is_written else (),
        changes=state_changes(outcome, files) if outcome.is_written else (),
        has_unread_keyed=not outcome.is_written and any(s.managed_keyed is not None for s in new.subtasks),
        renamed_from=(before.uid or before.uid_hash) if identifier.uid_hash != before.uid_hash else None,
        copied_from=source.snapshot.directory if source is not None and source.is_copied else None,
    )
    return new, summary


def _assembled(outcome: OperatorOutcome, copies: Copies, keyed: Written, operator: Written) -> OperatorState:
    subtasks = {}
    for index in range(outcome.parallelism):
        copy = copies.get((outcome.identifier.uid_hash, index), OperatorSubtaskState(index))
        new_keyed = keyed[index].handle if index in keyed else SubtaskHandles(copy.managed_keyed)
        subtasks[index] = SubtaskHandles(
            keyed=new_keyed.keyed,
            operator=operator[index].handle if index in operator else copy.managed_operator,
            raw_keyed=new_keyed.raw_keyed or copy.raw_keyed,
            raw_operator=copy.raw_operator,
        )
    return NewOperator(
        outcome.identifier.uid_hash,
        outcome.parallelism,
        outcome.max_parallelism,
        subtasks,
        _coordinator_state(outcome),
        outcome.identifier.uid,
        outcome.source.operator.name if outcome.source is not None else None,
    ).to_state()


def _copied(outcome: OperatorOutcome, copies: Copies) -> OperatorState:
    assert outcome.source is not None
    old = outcome.source.operator
    subtasks = tuple(copies[(outcome.identifier.uid_hash, s.index)] for s in old.subtasks)
    return replace(old, subtasks=subtasks, operator_id=outcome.identifier.uid_hash, uid=outcome.identifier.uid)


def _coordinator_state(outcome: OperatorOutcome) -> h.ByteStreamStateHandle | None:
    if outcome.changes.coordinator is not None:
        return h.ByteStreamStateHandle(f"coordinator-{outcome.identifier.uid_hash}", outcome.changes.coordinator)
    return outcome.source.operator.coordinator_state if outcome.source is not None else None


def _check_raw(outcome: OperatorOutcome) -> None:
    """Refuse to distribute raw state over other subtasks or key groups: only the operator knows its format."""
    if outcome.source is None or not outcome.is_redistributed:
        return
    timers = {k.subtask for k in outcome.source.handles if k.raw}
    for subtask in outcome.source.operator.subtasks:
        raw_keyed = subtask.raw_keyed is not None and subtask.index not in timers
        if raw_keyed or subtask.raw_operator is not None:
            raise UnsupportedFormatError(
                f"{outcome.label}, subtask {subtask.index} has raw state, and only its own code can redistribute it; "
                "keep the operator's parallelism and max parallelism"
            )


def state_changes(outcome: OperatorOutcome, files: Iterable[WrittenFile]) -> tuple[StateChanges, ...]:
    """Return the changes to the states of an operator, from the counts of its files: one attempt of each task counts."""
    changes = outcome.changes
    counted: dict[str, ChangeCounts] = {}
    for file in files:
        for name, counts in file.changes.items():
            counted[name] = counted.get(name, ChangeCounts()) + counts
    state_changes_ = []
    for name in dict.fromkeys((*_source_states(outcome), *changes.added, *changes.operator_states)):
        counts = counted.get(name, ChangeCounts())
        if name in changes.added or name in changes.operator_states:
            state_changes_.append(_new(outcome, name, counts))
        elif name in changes.removed:
            state_changes_.append(StateChanges(name, REMOVED, ChangeCounts(deleted=_elements(outcome, name))))
        elif name in changes.edits:
            state_changes_.append(StateChanges(name, UPDATED, changes.edits[name].counts))
        elif name in outcome.keyed.kept and changes.changes_entries(name):
            state_changes_.append(StateChanges(name, UPDATED, counts))
    return tuple(state_changes_)


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
    return outcome.source.keyed_states.get(name) or outcome.source.operator_states[name]


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
