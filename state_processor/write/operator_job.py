"""Operators that are written: copies of files, files of keyed and of operator state, and their metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.read.task_snapshot import snapshot_for_tasks
from state_processor.backends.write.assembly import NewOperator, SubtaskHandles
from state_processor.backends.write.staging import Staging
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.records import dataclass
from state_processor.write.copied_files import CopyPart, CopySubtasks
from state_processor.write.engines import Engine, StateFiles, Written
from state_processor.write.job_context import JobContext
from state_processor.write.keyed_state_job import keyed_state_files
from state_processor.write.operator_state_job import operator_state_files
from state_processor.write.outcome import OperatorOutcome
from state_processor.write.state_changes import state_changes
from state_processor.write.write_summary import StateChanges

KEYED: Final = "keyed"
OPERATOR: Final = "operator"

Copies = Mapping[tuple[str, int], OperatorSubtaskState]
"""Copied state by operator id and subtask."""


@dataclass(frozen=True)
class WrittenOperator:
    """An operator of the new savepoint.

    Attributes
    ----------
    operator
        Its metadata.
    entries
        Number of entries that were written one by one.
    states
        Names of its states.
    carried
        Whether all of its files are copies.
    rewritten
        Why all entries were written, though the format has files of the source savepoint; empty if they were not.
    changes
        Changes to its states.
    """

    operator: OperatorState
    entries: int
    states: tuple[str, ...]
    carried: bool
    rewritten: tuple[str, ...] = ()
    changes: tuple[StateChanges, ...] = ()


def copy_unchanged(engine: Engine, outcomes: Sequence[OperatorOutcome], staging: Staging) -> dict[tuple[str, int], Any]:
    """Copy the files of unchanged state, of all operators in one job; returns :data:`Copies`."""
    parts: list[CopyPart] = []
    left: dict[tuple[str, int], Any] = {}
    snapshot = None
    shares_files = False
    for outcome in outcomes:
        if outcome.source is None or outcome.is_redistributed:
            continue
        snapshot, shares_files = outcome.source.snapshot, outcome.format.shares_files
        old = outcome.source.operator
        for subtask in (_unchanged(outcome, s) for s in old.subtasks):
            left[old.operator_id, subtask.index] = subtask
            if subtask != OperatorSubtaskState(subtask.index):
                parts.append(CopyPart(old.operator_id, outcome.label, subtask))
    if snapshot is None or not parts:
        return left
    copied = engine.copy_files(parts, CopySubtasks(snapshot_for_tasks(snapshot), staging, shares_files))
    return left | {(part.operator_id, state.index): state for part, state in zip(parts, copied, strict=True)}


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


def changed_files(job: JobContext) -> dict[str, StateFiles]:
    """Return the files to write of an operator, by :data:`KEYED` and :data:`OPERATOR`."""
    outcome = job.outcome
    if not outcome.is_written:
        return {}
    _check_raw(outcome)
    files = {
        KEYED: keyed_state_files(job) if outcome.keyed.is_written else None,
        OPERATOR: operator_state_files(job) if outcome.operator_state.is_written else None,
    }
    return {kind: given for kind, given in files.items() if given is not None}


def written_operator(outcome: OperatorOutcome, copies: Copies, written: Mapping[str, Written]) -> WrittenOperator:
    """Combine the files that were written of an operator, by kind, with the copies."""
    if not outcome.is_written:
        return _copied(outcome, copies)
    keyed, operator = (written.get(kind, {}) for kind in (KEYED, OPERATOR))
    subtasks = {}
    for index in range(outcome.parallelism):
        copy = copies.get((outcome.before.uid_hash, index), OperatorSubtaskState(index))
        new_keyed = keyed[index].handle if index in keyed else SubtaskHandles(copy.managed_keyed)
        subtasks[index] = SubtaskHandles(
            keyed=new_keyed.keyed,
            operator=operator[index].handle if index in operator else copy.managed_operator,
            raw_keyed=new_keyed.raw_keyed or copy.raw_keyed,
            raw_operator=copy.raw_operator,
        )
    new = NewOperator(
        outcome.identifier.uid_hash,
        outcome.parallelism,
        outcome.max_parallelism,
        subtasks,
        _coordinator_state(outcome),
        outcome.identifier.uid,
        outcome.source.operator.name if outcome.source is not None else None,
    )
    files = (*keyed.values(), *operator.values())
    entries, changes = sum(file.entries for file in files), state_changes(outcome, files)
    return WrittenOperator(new.to_state(), entries, outcome.states, False, outcome.keyed.reasons_to_rewrite, changes)


def _copied(outcome: OperatorOutcome, copies: Copies) -> WrittenOperator:
    assert outcome.source is not None
    old = outcome.source.operator
    subtasks = tuple(copies[(old.operator_id, s.index)] for s in old.subtasks)
    identifier = outcome.identifier
    new = replace(old, subtasks=subtasks, operator_id=identifier.uid_hash, uid=identifier.uid)
    return WrittenOperator(new, 0, outcome.states, carried=True)


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
