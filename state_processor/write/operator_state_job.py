"""The passes that write the operator state of one operator. Broadcast state is encoded on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from state_processor.backends.read.operator_state import OperatorSplit, raw_elements
from state_processor.backends.read.state_listing import subtask_label
from state_processor.backends.read.stored_operator import snapshot_for_tasks
from state_processor.backends.state.column_types import declared_names
from state_processor.backends.state.descriptions import BroadcastDescription, OperatorDescription
from state_processor.backends.state.state_registration import operator_header, register
from state_processor.backends.write.operator_writer import edited_elements, encode_broadcast, updated_broadcast
from state_processor.backends.write.pending_updates import StoredElements
from state_processor.backends.write.state_migration import converted_broadcast
from state_processor.serializers.core.calendars import java_zone
from state_processor.serializers.core.sql_times import in_time_zone
from state_processor.serializers.errors import InvalidRowError
from state_processor.serializers.foreign_errors import third_party_errors
from state_processor.serializers.kryo.nested_kryo import for_flink, java_types
from state_processor.write.engines import PartsPass, RowsPass, StateFiles
from state_processor.write.migration_tasks import MigrateElements, portable
from state_processor.write.operator_state_tasks import (
    BroadcastBytes,
    EncodeElements,
    PassThroughElements,
    WriteOperatorState,
)
from state_processor.write.outcome import OperatorOutcome
from state_processor.write.row_protocol import OperatorRows
from state_processor.write.source_operator import SourceOperator
from state_processor.write.targets import OperatorTarget


def operator_state_files(outcome: OperatorOutcome) -> StateFiles | None:
    """Return the operator state files to write; ``None`` without operator state."""
    added = outcome.changes.operator_states
    metas_of_source = dict(outcome.operator_state.kept)
    if outcome.migration is not None:
        metas_of_source |= {n: outcome.migration.operator[n].new for n in metas_of_source if n in outcome.migration.operator}
    metas = metas_of_source | {name: register(state) for name, (state, _) in added.items()}
    if not metas:
        return None
    header = operator_header(list(metas.values()))
    ids = {meta.name: i for i, meta in enumerate((*header.lists, *header.broadcasts))}
    target = OperatorTarget.of(
        outcome,
        header,
        java_types={name: java_types(state) for name, (state, _) in added.items()},
        names={name: declared_names(state) for name, (state, _) in added.items()},
    )
    passes: list[RowsPass] = []
    parts: list[PartsPass] = []
    broadcasts: list[BroadcastBytes] = []
    for name, (state, rows) in added.items():
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
    elements = [raw_elements(source.snapshot, split, state.name) for split in (splits[:1] if broadcast else splits)]
    return [data[a:b].tobytes() for data, bounds in elements for a, b in pairwise(bounds.tolist())]


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
    return tuple(
        OperatorSplit(s.managed_operator, s.index, subtask_label(source.operator, s))
        for s in source.operator.subtasks
        if s.managed_operator is not None
    )


def _kept_broadcasts(
    outcome: OperatorOutcome, source: SourceOperator, splits: Sequence[OperatorSplit], ids: Mapping[str, int]
) -> Iterator[BroadcastBytes]:
    """Yield broadcast states of the source savepoint, converted where a migration changes them."""
    for name, state_id in ids.items():
        split = next(s for s in splits if any(m.name == name for m in s.handle.states))
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
    same = tuple((name, i) for name, i in ids.items() if name not in outcome.converted)
    converted = tuple((name, i) for name, i in ids.items() if name in outcome.converted)
    edits = outcome.changes.edits
    if same:
        yield PartsPass(splits, PassThroughElements(*common, same, in_place, {n: edits[n] for n, _ in same if n in edits}))
    if converted:
        assert outcome.migration is not None
        yield PartsPass(splits, MigrateElements(*common, converted, in_place, types=portable(outcome.migration.types)))
