"""Writes what was read: every state of a snapshot, from Arrow columns, as a new savepoint with our writer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from state_processor.backends.canonical_writer import KeyedStateFileWriter
from state_processor.backends.carry import KeyedCarrier, copy_stream
from state_processor.backends.entry_encoder import BLOB_SCHEMA, KeyedStateEncoder, write_blobs
from state_processor.backends.handles import OperatorStreamStateHandle
from state_processor.backends.key_groups import range_of_subtask
from state_processor.backends.meta_info import KEYED_VERSION, KeyedHeader
from state_processor.backends.metadata import OperatorState
from state_processor.backends.operator_writer import OperatorStateFileWriter
from state_processor.backends.read_options import ReadOptions
from state_processor.backends.registration import keyed_header, register
from state_processor.backends.savepoint_writer import NewOperator, SubtaskHandles, commit_savepoint
from state_processor.backends.snapshot_dir import Snapshot, open_snapshot
from state_processor.backends.sources import keyed_handles
from state_processor.backends.staging import Staging
from state_processor.backends.state_access import open_state
from state_processor.backends.states import BROADCAST, StateDescription, operator_states


def write_keyed(
    staging: Staging,
    operator_id: str,
    states: Sequence[tuple[StateDescription, Sequence[pa.RecordBatch]]],
    parallelism: int,
    max_parallelism: int,
    last_access: int = 0,
) -> dict[int, Any]:
    """Keyed state of one operator, both passes; the handle of each subtask."""
    key = states[0][0].key
    assert key is not None
    header = keyed_header(key, [register(state) for state, _ in states])
    blobs = [
        blob
        for state_id, (state, batches) in enumerate(states)
        if batches
        for encoder in [
            KeyedStateEncoder(
                state,
                state_id,
                batches[0].schema,
                max_parallelism=max_parallelism,
                parallelism=parallelism,
                last_access=last_access,
            )
        ]
        for batch in batches
        for blob in encoder.encode(batch)
    ]
    return _files(staging, operator_id, header, blobs, parallelism, max_parallelism)


def _files(
    staging: Staging, operator_id: str, header: KeyedHeader, blobs: list[pa.RecordBatch], parallelism: int, max_parallelism: int
) -> dict[int, Any]:
    order = [("subtask", "ascending"), ("key_group", "ascending"), ("state", "ascending")]
    table = pa.Table.from_batches(blobs, BLOB_SCHEMA).sort_by(order)
    handles = {}
    for subtask in range(parallelism):
        sink = staging.open(staging.file_name(operator_id, "keyed", subtask))
        writer = KeyedStateFileWriter(sink, header, range_of_subtask(subtask, parallelism, max_parallelism), max_parallelism)
        handles[subtask] = write_blobs(writer, table.filter(pc.equal(table["subtask"], subtask)).to_batches())
    return handles


def carry(source: Path, target: Path, parallelism: int, max_parallelism: int, version: int) -> None:
    """The keyed state of a snapshot taken over as bytes, operator state by copying its files; the rest is left out."""
    snapshot = open_snapshot(source)
    staging = Staging(str(target), "carried")
    staging.prepare()
    operators = []
    for operator in snapshot.metadata.operators:
        keyed = _carry_keyed(snapshot, operator, staging, parallelism, max_parallelism)
        others = {} if keyed else _copy_operator_state(snapshot, operator, staging)
        size = parallelism if keyed else operator.parallelism
        subtasks = {i: SubtaskHandles(keyed.get(i), others.get(i)) for i in range(size)}
        operators.append(NewOperator(operator.operator_id, size, max_parallelism, subtasks, uid=operator.uid))
    commit_savepoint(staging, operators, version=version)


def _carry_keyed(
    snapshot: Snapshot, operator: OperatorState, staging: Staging, parallelism: int, max_parallelism: int
) -> dict[int, Any]:
    handles = list(keyed_handles(operator))
    if not handles:
        return {}
    sources = [handle.open(snapshot) for handle in handles]
    metas = {meta.name: meta for source in sources for meta in source.header.states}
    header = KeyedHeader(KEYED_VERSION, False, sources[0].header.key, tuple(metas.values()))
    carrier = KeyedCarrier(parallelism, max_parallelism, operator.max_parallelism)
    blobs = [
        blob
        for source, handle in zip(sources, handles, strict=True)
        for state_id, name in enumerate(metas)
        for blob in carrier.blobs(source, name, state_id, handle.key_groups)
    ]
    return _files(staging, operator.operator_id, header, blobs, parallelism, max_parallelism)


def _copy_operator_state(snapshot: Snapshot, operator: OperatorState, staging: Staging) -> dict[int, Any]:
    copies = {}
    for subtask in operator.subtasks:
        if subtask.managed_operator is not None:
            sink = staging.open(staging.file_name(operator.operator_id, "operator", subtask.index))
            stream = copy_stream(snapshot.open(subtask.managed_operator.stream), sink)
            copies[subtask.index] = OperatorStreamStateHandle(subtask.managed_operator.states, stream)
    return copies


def rewrite(source: Path, target: Path, parallelism: int, version: int) -> None:
    """The snapshot as a savepoint of another parallelism, each value decoded into columns and encoded again."""
    snapshot = open_snapshot(source)
    staging = Staging(str(target), "rewritten")
    staging.prepare()
    operators = [_rewrite_operator(snapshot, operator, staging, parallelism) for operator in snapshot.metadata.operators]
    commit_savepoint(staging, operators, version=version)


def _rewrite_operator(snapshot: Snapshot, operator: OperatorState, staging: Staging, parallelism: int) -> NewOperator:
    states = operator_states(snapshot, operator).values()
    keyed = [s for s in states if s.is_keyed]
    others = [s for s in states if not s.is_keyed]
    keyed_handles: dict[int, Any] = {}
    if keyed:
        rows = [(s, list(_rows(snapshot, operator, s))) for s in keyed]
        keyed_handles = write_keyed(staging, operator.operator_id, rows, parallelism, operator.max_parallelism)
    subtasks = {}
    for subtask in range(parallelism):
        handle = _operator_file(snapshot, operator, others, staging, subtask, parallelism) if others else None
        subtasks[subtask] = SubtaskHandles(keyed_handles.get(subtask), handle)
    return NewOperator(operator.operator_id, parallelism, operator.max_parallelism, subtasks, uid=operator.uid)


def _rows(snapshot: Snapshot, operator: OperatorState, state: StateDescription) -> Iterator[pa.RecordBatch]:
    options = ReadOptions(flatten=False, metadata=state.has_ttl, nanos="string", row_kind=True)
    reader = open_state(snapshot, operator, state.name, options=options)
    for split in reader.splits():
        yield from reader.read(split)


def _operator_file(
    snapshot: Snapshot,
    operator: OperatorState,
    states: Sequence[StateDescription],
    staging: Staging,
    subtask: int,
    parallelism: int,
) -> Any:
    writer = OperatorStateFileWriter(staging.open(staging.file_name(operator.operator_id, "operator", subtask)), states)
    for state in states:
        for number, batch in enumerate(_rows(snapshot, operator, state)):
            if state.kind == BROADCAST:
                writer.add_broadcast(state.name, batch.column("key"), batch.column("value"))
            elif number % parallelism == subtask:
                writer.add_list(state.name, batch.column("value"))
    return writer.close()
