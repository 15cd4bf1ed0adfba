"""Operators that are written: copies of files, files of keyed and of operator state, and their metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from time import time_ns
from typing import Any, Final

import numpy as np

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.read.keyed_splits import plan_splits
from state_processor.backends.read.operator_state import OperatorSplit, raw_elements
from state_processor.backends.read.stored_operator import snapshot_for_tasks, subtask_label
from state_processor.backends.state.column_types import declared_names
from state_processor.backends.state.descriptions import (
    BroadcastDescription,
    OperatorDescription,
    StateDescription,
    key_of,
    operator_header,
    register,
)
from state_processor.backends.write.assembly import check_files
from state_processor.backends.write.carried_files import BaseStore
from state_processor.backends.write.operator_writer import edited_elements, encode_broadcast, updated_broadcast
from state_processor.backends.write.pass_through import CopyPart, CopySubtasks
from state_processor.backends.write.pending_updates import StoredElements
from state_processor.backends.write.staging import Staging
from state_processor.backends.write.state_migration import converted_broadcast
from state_processor.backends.write.tombstones import ChangeCounts
from state_processor.serializers.core.temporal import depends_on_zone, in_time_zone
from state_processor.serializers.core.time_values import java_zone
from state_processor.serializers.kryo.nested_kryo import for_flink, java_types
from state_processor.support.errors import InvalidRowError, UnsupportedFormatError, third_party_errors
from state_processor.support.mappings import map_values, names_of, only_keys, without_keys
from state_processor.write.plan.draft import Deletion, StateRows
from state_processor.write.plan.outcome import OperatorOutcome
from state_processor.write.plan.reports import ADDED, REMOVED, REPLACED, UPDATED, OperatorSummary, StateChanges
from state_processor.write.plan.source_operator import SourceOperator
from state_processor.write.rows.row_protocol import OperatorRows
from state_processor.write.tasks.key_hashing import key_hashing
from state_processor.write.tasks.migration import MigrateElements, MigrateEntries, portable
from state_processor.write.tasks.passes import Engine, PartsPass, RowsPass, StateFiles, Written, WrittenFile
from state_processor.write.tasks.state_tasks import (
    QUEUE_COLUMNS,
    BroadcastBytes,
    EncodeElements,
    EncodeRows,
    KeyedTarget,
    OperatorTarget,
    PassThroughElements,
    PassThroughEntries,
    StateColumns,
    WriteKeyedState,
    WriteOperatorState,
)


def keyed_state_files(outcome: OperatorOutcome, engine: Engine) -> StateFiles | None:
    """Return the keyed state files to write; ``None`` without keyed states."""
    target = keyed_target(outcome, engine)
    if target is None:
        return None
    rows = [first_pass(outcome, target, state_rows) for state_rows in outcome.changes.state_rows]
    rows += [_deletion_pass(outcome, target, deletion) for deletion in outcome.changes.deletions]
    parts = list(_pass_through(outcome, target))
    bases = _bases(outcome)
    write = WriteKeyedState(target, outcome.settings.format, bases)
    copied = sum(base.moved_bytes for base in bases.values()) if bases else None
    return StateFiles(rows, parts, outcome.parallelism, write, copied)


def keyed_target(outcome: OperatorOutcome, engine: Engine) -> KeyedTarget | None:
    """Return the keyed state to write; ``None`` without keyed states.

    The engine checks inferred rules for hash codes with all existing keys.
    """
    changes, header = outcome.changes, outcome.keyed.header
    if header is None:
        return None
    kept_types = {name: types for name, (types, _) in changes.forms.items()}
    return KeyedTarget.of(
        outcome,
        header,
        java_types=kept_types | map_values(java_types, changes.added),
        hashing=key_hashing(outcome, engine, key_of(header)),
        updated=changes.updated,
        with_bytes=frozenset(name for name, (_, with_bytes) in changes.forms.items() if with_bytes),
        raw_timers=outcome.keyed.raw_timers,
        python={name: python for name, python in changes.python.items() if python is not None},
    )


def first_pass(outcome: OperatorOutcome, target: KeyedTarget, state_rows: StateRows) -> RowsPass:
    """Return the pass that encodes some rows."""
    ids = outcome.keyed.ids
    states = []
    for name, columns_of_state in state_rows.columns.items():
        if name in ids:
            names, queue = state_rows.names.get(name, {}), state_rows.queues.get(name)
            states.append(StateColumns(ids[name], dict(columns_of_state), state_rows.replaces, names, queue))
    last_access = time_ns() // 1_000_000
    columns = _columns(*state_rows.columns.values())
    if state_rows.queues:
        columns += [name for name in QUEUE_COLUMNS if name not in columns]
    encode = EncodeRows(target, tuple(states), last_access, tuple(state_rows.queues.values()))
    return RowsPass(state_rows.rows, columns, encode)


def _deletion_pass(outcome: OperatorOutcome, target: KeyedTarget, deletion: Deletion) -> RowsPass:
    ids = outcome.keyed.ids
    names = [deletion.state] if deletion.state is not None else outcome.keyed.kept_states
    columns = dict(deletion.columns)
    states = tuple(StateColumns(ids[name], columns, deletion.scope, deletion.names) for name in names if name in ids)
    return RowsPass(deletion.rows, _columns(deletion.columns), EncodeRows(target, states))


def _columns(*mappings: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(mapping.values() for mapping in mappings)))


def _bases(outcome: OperatorOutcome) -> dict[int, BaseStore]:
    """Return the stores of the source savepoint by subtask, where states stay in their files."""
    source, patched = outcome.source, outcome.keyed.patched
    families = outcome.keyed.in_place | patched
    if source is None or not families:
        return {}
    snapshot = snapshot_for_tasks(source.snapshot)
    shares_files, erases = outcome.settings.format.shares_files, outcome.changes.erases
    timers = patched & source.timers
    bases: dict[int, BaseStore] = {}
    for keyed in source.handles:
        handle = keyed.handle
        if not keyed.raw and isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
            bases[keyed.subtask] = BaseStore(snapshot, handle, families, patched, timers, shares_files, erases)
    return bases


def _pass_through(outcome: OperatorOutcome, target: KeyedTarget) -> Iterator[PartsPass]:
    """Yield the passes over the source savepoint: over states whose bytes stay the same, and over converted ones."""
    source, migration = outcome.source, outcome.migration
    names = outcome.keyed.passed_through
    if not names or source is None or not source.handles:
        return
    parts = plan_splits(source.handles)
    ids, size = {name: outcome.keyed.ids[name] for name in names}, source.operator.max_parallelism
    common = (target, snapshot_for_tasks(source.snapshot))
    same = tuple(without_keys(ids, outcome.converted).items())
    converted = tuple(only_keys(ids, outcome.converted).items())
    if same:
        yield PartsPass(parts, PassThroughEntries(*common, same, size))
    if converted:
        assert migration is not None
        yield PartsPass(parts, MigrateEntries(*common, converted, size, portable(migration.types)))


def operator_state_files(outcome: OperatorOutcome) -> StateFiles | None:
    """Return the operator state files to write; ``None`` without operator state."""
    added = outcome.changes.operator_descriptions
    metas_of_source = dict(outcome.operator_state.kept_states)
    if outcome.migration is not None:
        metas_of_source |= {n: outcome.migration.operator[n].new for n in metas_of_source if n in outcome.migration.operator}
    metas = metas_of_source | map_values(register, added)
    if not metas:
        return None
    header = operator_header(list(metas.values()))
    ids = {meta.name: i for i, meta in enumerate((*header.lists, *header.broadcasts))}
    target = OperatorTarget.of(
        outcome,
        header,
        java_types=map_values(java_types, added),
        names=map_values(declared_names, added),
    )
    passes: list[RowsPass] = []
    parts: list[PartsPass] = []
    broadcasts: list[BroadcastBytes] = []
    for name, (state, rows) in outcome.changes.operator_states.items():
        if isinstance(state, BroadcastDescription):
            state = in_time_zone(for_flink(state, outcome.flink_major), java_zone(outcome.settings.time_zone))
            broadcasts.append(_encode_broadcast(outcome, state, ids[name], rows))
        else:
            (column,) = rows.schema.names
            stored = _stored_elements(outcome, state)
            passes.append(RowsPass(rows, [column], EncodeElements(target, ids[name], column, stored)))
    if outcome.source is not None and metas_of_source:
        splits = _splits(outcome.source)
        is_broadcast = {name: isinstance(outcome.source.operator_states[name], BroadcastDescription) for name in metas_of_source}
        broadcasts += _kept_broadcasts(outcome, outcome.source, splits, {n: ids[n] for n in metas_of_source if is_broadcast[n]})
        if splits:
            parts += _kept_lists(
                outcome, outcome.source, splits, target, {n: ids[n] for n in metas_of_source if not is_broadcast[n]}
            )
    is_rescaled = outcome.source is not None and outcome.source.operator.parallelism != outcome.parallelism
    deals = outcome.parallelism > 1 and (bool(passes) or is_rescaled)
    return StateFiles(passes, parts, outcome.parallelism, WriteOperatorState(target, tuple(broadcasts), deals))


def _types(state: OperatorDescription) -> dict[str, bytes]:
    return {role: type_.snapshot().to_bytes() for role, type_ in state.serializers.items()}


def _stored(outcome: OperatorOutcome, state: OperatorDescription) -> list[bytes]:
    """Return the elements of a state in the source savepoint, if the new state is the same, and Kryo writes parts of it."""
    source = outcome.source
    before = source.operator_states.get(state.name) if source is not None else None
    if source is None or before is None or not java_types(state.value) or _types(before) != _types(state):
        return []
    if source.snapshot.flink_major != outcome.flink_major:  # Kryo's bytes differ
        return []
    splits = _splits(source)
    broadcast = isinstance(state, BroadcastDescription)
    elements: list[bytes] = []
    for split in splits[:1] if broadcast else splits:
        data, bounds = raw_elements(source.snapshot, split, state.name)
        elements += [data[start:end].tobytes() for start, end in pairwise(bounds.tolist())]
    return elements


def _stored_elements(outcome: OperatorOutcome, state: OperatorDescription) -> StoredElements | None:
    elements = _stored(outcome, state)
    return StoredElements.of(for_flink(state.value, outcome.flink_major), elements) if elements else None


def _encode_broadcast(outcome: OperatorOutcome, state: BroadcastDescription, state_id: int, rows: OperatorRows) -> BroadcastBytes:
    """Collect rows, and encode them as broadcast state."""
    label = outcome.label
    table = rows.to_arrow().combine_chunks()
    if not table.num_rows:
        return BroadcastBytes(state_id, 0, b"", is_new=True)
    keys, values = (table.column(i).combine_chunks() for i in (0, 1))
    state_label = f"{label}, state {state.name!r}"
    if keys.null_count:
        row = int(np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))[0])
        raise InvalidRowError(f"{state_label}: column key of row {row} is null; a key can't be null")
    with third_party_errors(state_label, parts=state.serializers.values()):
        stored = _stored(outcome, state)
        encode = encode_broadcast if not stored else partial(updated_broadcast, stored[0])
        encoded = encode(state, keys, values, state_label)
    return BroadcastBytes(state_id, len(keys), encoded.tobytes(), is_new=True)


def _splits(source: SourceOperator) -> tuple[OperatorSplit, ...]:
    """Return the operator state of each subtask that has some."""
    splits = []
    for subtask in source.operator.subtasks:
        handle = subtask.managed_operator
        if handle is not None:
            splits.append(OperatorSplit(handle, subtask.index, subtask_label(source.operator, subtask)))
    return tuple(splits)


def _kept_broadcasts(
    outcome: OperatorOutcome, source: SourceOperator, splits: Sequence[OperatorSplit], ids: Mapping[str, int]
) -> Iterator[BroadcastBytes]:
    """Yield broadcast states of the source savepoint, converted where a migration changes them."""
    for name, state_id in ids.items():
        split = next(split for split in splits if name in names_of(split.handle.states))
        data, _ = raw_elements(source.snapshot, split, name)
        if not len(data):
            continue
        if name in outcome.changes.edits:
            data, _ = edited_elements((data, np.array([0, len(data)])), outcome.changes.edits[name].of_subtask(split.subtask))
        entries = data.tobytes()
        if name in outcome.converted:
            assert outcome.migration is not None
            entries = converted_broadcast(outcome.migration.operator[name], entries)
        yield BroadcastBytes(state_id, int.from_bytes(entries[:4], "big"), entries[4:])


def _kept_lists(
    outcome: OperatorOutcome,
    source: SourceOperator,
    splits: tuple[OperatorSplit, ...],
    target: OperatorTarget,
    ids: Mapping[str, int],
) -> Iterator[PartsPass]:
    """Yield the passes over lists of the source savepoint: over lists whose bytes stay the same, and over converted lists."""
    common = (target, snapshot_for_tasks(source.snapshot))
    in_place = source.operator.parallelism == outcome.parallelism
    same = tuple(without_keys(ids, outcome.converted).items())
    converted = tuple(only_keys(ids, outcome.converted).items())
    edits = outcome.changes.edits
    if same:
        yield PartsPass(splits, PassThroughElements(*common, same, in_place, {n: edits[n] for n, _ in same if n in edits}))
    if converted:
        assert outcome.migration is not None
        yield PartsPass(splits, MigrateElements(*common, converted, in_place, types=portable(outcome.migration.types)))


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
        for subtask in map(partial(_unchanged, outcome), outcome.source.operator.subtasks):
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


def changed_files(outcome: OperatorOutcome, engine: Engine) -> Iterator[tuple[tuple[str, str], StateFiles]]:
    """Yield the files to write of an operator, each with the operator's id and :data:`KEYED` or :data:`OPERATOR`."""
    if not outcome.is_written:
        return
    _check_raw(outcome)
    uid_hash = outcome.identifier.uid_hash
    if outcome.keyed.is_written and (files := keyed_state_files(outcome, engine)) is not None:
        yield (uid_hash, KEYED), files
    if outcome.operator_state.is_written and (files := operator_state_files(outcome)) is not None:
        yield (uid_hash, OPERATOR), files


def written_operator(
    outcome: OperatorOutcome, copies: Copies, written: Mapping[tuple[str, str], Written]
) -> tuple[OperatorState, OperatorSummary]:
    """Return the metadata and the summary of an operator, from the copies and the files that were written."""
    uid_hash = outcome.identifier.uid_hash
    keyed, operator = written.get((uid_hash, KEYED), {}), written.get((uid_hash, OPERATOR), {})
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
    identifier, subtasks = outcome.identifier, []
    for index in range(outcome.parallelism):
        copy = copies.get((identifier.uid_hash, index), OperatorSubtaskState(index))
        managed_keyed, timers = keyed[index].handle if index in keyed else (copy.managed_keyed, None)
        managed_operator = operator[index].handle if index in operator else copy.managed_operator
        subtasks.append(OperatorSubtaskState(index, managed_operator, copy.raw_operator, managed_keyed, timers or copy.raw_keyed))
    name = outcome.source.operator.name if outcome.source is not None else None
    sizes = (outcome.parallelism, outcome.max_parallelism)
    state = OperatorState(identifier.uid_hash, *sizes, tuple(subtasks), _coordinator_state(outcome), name, identifier.uid)
    check_files(state)
    return state


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
        elif name in outcome.keyed.kept_states and changes.changes_entries(name):
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
    return sum(len(meta.offsets) for meta in source.operator.operator_metas if meta.name == name)
