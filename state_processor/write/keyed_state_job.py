"""The passes that write the keyed state of one operator: over rows, deletions, and entries of the source savepoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import time_ns

from state_processor.backends.metadata import handles as h
from state_processor.backends.read.keyed_splits import plan_splits
from state_processor.backends.read.stored_operator import snapshot_for_tasks
from state_processor.backends.state.descriptions import key_of
from state_processor.backends.write.carried_files import BaseStore
from state_processor.serializers.kryo.nested_kryo import java_types
from state_processor.write.changes import Deletion, StateRows
from state_processor.write.engines import Engine, PartsPass, RowsPass, StateFiles
from state_processor.write.key_hashing import key_hashing
from state_processor.write.keyed_tasks import (
    QUEUE_COLUMNS,
    EncodeRows,
    PassThroughEntries,
    StateColumns,
    WriteKeyedState,
)
from state_processor.write.migration_tasks import MigrateEntries, portable
from state_processor.write.outcome import OperatorOutcome
from state_processor.write.targets import KeyedTarget


def keyed_state_files(outcome: OperatorOutcome, engine: Engine) -> StateFiles | None:
    """Return the keyed state files to write; ``None`` without keyed states."""
    target = keyed_target(outcome, engine)
    if target is None:
        return None
    rows = [first_pass(target, state_rows) for state_rows in outcome.changes.state_rows]
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
        java_types=kept_types | {name: java_types(state) for name, state in changes.added.items()},
        hashing=key_hashing(outcome, engine, key_of(header)),
        updated=changes.updated,
        with_bytes=frozenset(name for name, (_, with_bytes) in changes.forms.items() if with_bytes),
        raw_timers=outcome.keyed.raw_timers,
        python={name: python for name, python in changes.python.items() if python is not None},
    )


def first_pass(target: KeyedTarget, state_rows: StateRows) -> RowsPass:
    """Return the pass that encodes some rows."""
    ids = target.ids
    states = tuple(
        StateColumns(ids[name], dict(columns), state_rows.replaces, state_rows.names.get(name, {}), state_rows.queues.get(name))
        for name, columns in state_rows.columns.items()
        if name in ids
    )
    last_access = time_ns() // 1_000_000
    columns = _columns(*state_rows.columns.values(), *({name: name for name in QUEUE_COLUMNS} for _ in state_rows.queues))
    return RowsPass(state_rows.rows, columns, EncodeRows(target, states, last_access, tuple(state_rows.queues.values())))


def _deletion_pass(outcome: OperatorOutcome, target: KeyedTarget, deletion: Deletion) -> RowsPass:
    ids = target.ids
    names = [deletion.state] if deletion.state is not None else outcome.keyed.kept
    states = tuple(
        StateColumns(ids[name], dict(deletion.columns), deletion.scope, deletion.names) for name in names if name in ids
    )
    return RowsPass(deletion.rows, _columns(deletion.columns), EncodeRows(target, states))


def _columns(*mappings: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(column for mapping in mappings for column in mapping.values()))


def _bases(outcome: OperatorOutcome) -> dict[int, BaseStore]:
    """Return the stores of the source savepoint by subtask, where states stay in their files."""
    source, patched = outcome.source, outcome.keyed.patched
    families = outcome.keyed.in_place | patched
    if source is None or not families:
        return {}
    snapshot = snapshot_for_tasks(source.snapshot)
    handles = {k.subtask: k.handle for k in source.handles if not k.raw}
    return {
        i: BaseStore(
            snapshot,
            handle,
            families,
            patched,
            patched & source.timers,
            outcome.settings.format.shares_files,
            outcome.changes.erases,
        )
        for i, handle in handles.items()
        if isinstance(handle, h.IncrementalRemoteKeyedStateHandle)
    }


def _pass_through(outcome: OperatorOutcome, target: KeyedTarget) -> Iterator[PartsPass]:
    """Yield the passes over the source savepoint: over states whose bytes stay the same, and over converted ones."""
    source, migration = outcome.source, outcome.migration
    names = outcome.keyed.passed_through
    if not names or source is None or not source.handles:
        return
    parts = plan_splits(source.handles)
    ids, size = target.ids, source.operator.max_parallelism
    common = (target, snapshot_for_tasks(source.snapshot))
    same = tuple((name, ids[name]) for name in names if name not in outcome.converted)
    converted = tuple((name, ids[name]) for name in names if name in outcome.converted)
    if same:
        yield PartsPass(parts, PassThroughEntries(*common, same, size))
    if converted:
        assert migration is not None
        yield PartsPass(parts, MigrateEntries(*common, converted, size, portable(migration.types)))
