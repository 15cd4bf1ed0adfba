"""Writes every read state of a snapshot, from Arrow columns, as a new savepoint with our writer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from state_processor.applications.flink_sql.descriptions import with_query
from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.backends.files.changes import FileSink
from state_processor.backends.formats.key_group_file import CanonicalSource
from state_processor.backends.formats.row_layout import KEY_GROUP_COLUMN
from state_processor.backends.metadata.handles import OperatorStreamStateHandle
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.field_names import state_names
from state_processor.backends.read.keyed_reader import KeyedStateReader
from state_processor.backends.read.keyed_splits import keyed_handles
from state_processor.backends.read.operator_state import raw_elements
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator, Survey, operator_header, survey
from state_processor.backends.state.column_types import with_names
from state_processor.backends.state.descriptions import BROADCAST, StateDescription, keyed_header, register
from state_processor.backends.state.hash_inference import learn_hash_rule
from state_processor.backends.state.key_groups import range_of_subtask
from state_processor.backends.state.state_headers import KEYED_VERSION, KeyedHeader, StateMetaInfo
from state_processor.backends.write.assembly import commit_savepoint
from state_processor.backends.write.carried_files import copy_stream
from state_processor.backends.write.entry_encoder import ORDERED_BLOBS, BlobAddress, KeyedStateEncoder, KeyHash
from state_processor.backends.write.keyed_formats import CANONICAL_FORMAT, KeyedFormat
from state_processor.backends.write.keyed_writer import KeyedSubtask
from state_processor.backends.write.pass_through import KeyedPassThrough
from state_processor.backends.write.staging import Staging
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.io import DataInput
from state_processor.write.tasks.state_tasks import header_bytes
from tests.backends.operator_files import OperatorColumnsWriter, SubtaskHandles, new_operator
from tests.backends.write.blob_files import write_blobs


def write_keyed(
    staging: Staging,
    operator_id: str,
    states: Sequence[tuple[StateDescription, Sequence[pa.RecordBatch]]],
    parallelism: int,
    max_parallelism: int,
    last_access: int = 0,
    key_hash: KeyHash | None = None,
    format: KeyedFormat = CANONICAL_FORMAT,
    flink_major: int | None = None,
) -> dict[int, Any]:
    """Keyed state of one operator, both passes; the handle of each subtask.

    ``flink_major`` decides the version of Kryo of files that are made from decoded entries.
    """
    key = states[0][0].key
    assert key is not None
    header = keyed_header(key, [register(state) for state, _ in states])
    if flink_major is not None:
        header = KeyedHeader.read(DataInput(header_bytes(header), "header", flink_major=flink_major))
    blobs = [
        blob
        for state_id, (state, batches) in enumerate(states)
        for blob in encode(state, state_id, batches, parallelism, max_parallelism, key_hash, last_access)
    ]
    return _files(staging, operator_id, header, blobs, parallelism, max_parallelism, format)


def encode(
    state: StateDescription,
    state_id: int,
    batches: Sequence[pa.RecordBatch],
    parallelism: int,
    max_parallelism: int,
    key_hash: KeyHash | None = None,
    last_access: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Rows of one keyed state as blobs."""
    for number, batch in enumerate(batches):
        if not number:
            encoder = KeyedStateEncoder(
                state,
                BlobAddress(state_id, parallelism, max_parallelism),
                batch.schema,
                key_hash=key_hash,
                last_access=last_access,
            )
        yield from encoder.encode(batch)


def _files(
    staging: Staging,
    operator_id: str,
    header: KeyedHeader,
    blobs: list[pa.RecordBatch],
    parallelism: int,
    max_parallelism: int,
    format: KeyedFormat = CANONICAL_FORMAT,
) -> dict[int, Any]:
    order = [("subtask", "ascending"), ("key_group", "ascending"), ("state", "ascending")]
    table = pa.Table.from_batches(blobs, ORDERED_BLOBS).sort_by(order)
    handles = {}
    for subtask in range(parallelism):
        key_groups = range_of_subtask(subtask, parallelism, max_parallelism)
        with format.open_writer(
            _sinks(staging, operator_id, subtask), KeyedSubtask(header, key_groups, max_parallelism)
        ) as writer:
            handles[subtask] = write_blobs(writer, table.filter(pc.equal(table["subtask"], subtask)).to_batches())
    return handles


def _sinks(staging: Staging, operator_id: str, subtask: int) -> Any:
    """What opens the files of a subtask, each with a number."""
    numbers = count()

    @contextmanager
    def open_sink(what: str) -> Iterator[FileSink]:
        with staging.open(staging.file_name(operator_id, what, subtask, next(numbers))) as sink:
            yield sink

    return open_sink


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
        like = replace(operator, coordinator_state=None, name=None)
        operators.append(new_operator("", size, max_parallelism, subtasks, like))
    commit_savepoint(staging, operators, version=version)


def _carry_keyed(
    snapshot: Snapshot, operator: OperatorState, staging: Staging, parallelism: int, max_parallelism: int
) -> dict[int, Any]:
    opened = [(handle, handle.open(snapshot)) for handle in keyed_handles(operator, snapshot)]
    if not opened:
        return {}
    metas = {meta.name: meta for _, source in opened for meta in source.header.states}
    header = KeyedHeader(KEYED_VERSION, False, opened[0][1].header.key, tuple(metas.values()))
    carrier = KeyedPassThrough(parallelism, max_parallelism, operator.max_parallelism)
    blobs = [
        blob
        for handle, source in opened
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


def entry_bytes(directory: Path) -> dict[tuple[str, str], list[tuple[bytes, bytes]]]:
    """Stored keys and values of all keyed states of a canonical savepoint."""
    snapshot = open_snapshot(directory)
    found: dict[tuple[str, str], list[tuple[bytes, bytes]]] = defaultdict(list)
    for operator in snapshot.metadata.operators:
        for handle in keyed_handles(operator, snapshot):
            source = handle.open(snapshot)
            assert isinstance(source, CanonicalSource)
            for meta in source.header.states:
                for buffer, _, entries in source.blocks(meta.name, handle.key_groups):
                    spans = entries[:, :4].tolist()
                    found[operator.operator_id, meta.name] += [(bytes(buffer[a:b]), bytes(buffer[c:d])) for a, b, c, d in spans]
    return {state: sorted(entries) for state, entries in found.items()}


Carried = Callable[[StateDescription], bool]
_WHOLE = ReadOptions.of(flatten=False, metadata=True, nanos="string", row_kind=True)


def nothing(_: StateDescription) -> bool:
    """Every state is rewritten."""
    return False


Change = Callable[[str, pa.RecordBatch], pa.RecordBatch]


def unchanged(_: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of a state are written unchanged."""
    return rows


def rewrite(
    source: Path | str,
    target: Path,
    parallelism: int,
    version: int,
    carried: Carried = nothing,
    format: KeyedFormat = CANONICAL_FORMAT,
    plan: CompiledPlan | None = None,
    change: Change = unchanged,
) -> None:
    """The snapshot as a savepoint of another parallelism, each value decoded into columns and encoded again.

    Operators whose max parallelism is less get that. The entries of states that are to be ``carried`` are taken over as bytes.
    The fields of rows have the names of a plan. Rows of keyed state may be changed, by the name of their state.
    """
    snapshot = open_snapshot(source) if plan is None else with_query(open_snapshot(source), plan)
    staging = Staging(str(target), "rewritten")
    staging.prepare()
    operators = [
        _rewrite_operator(snapshot, o, staging, parallelism, carried, format, change) for o in snapshot.metadata.operators
    ]
    commit_savepoint(staging, operators, version=version, format=format.savepoint_format)


def _rewrite_operator(
    snapshot: Snapshot,
    operator: OperatorState,
    staging: Staging,
    parallelism: int,
    carried: Carried,
    format: KeyedFormat,
    change: Change,
) -> OperatorState:
    surveyed = survey(snapshot, operator)
    for unread in surveyed[1]:
        raise unread.error
    states = [variants[0] for variants in surveyed[0].values()]
    if snapshot.query_plan is not None:
        names = dict(state_names(snapshot, operator, states, {}))
        states = [with_names(state, names.get(state.name, {})) for state in states]
    if not states and any(subtask.finished for subtask in operator.subtasks):
        return operator
    parallelism = min(parallelism, operator.max_parallelism)
    keyed = [s for s in states if s.is_keyed]
    others = [s for s in states if not s.is_keyed]
    keyed_files = (
        _keyed_files(snapshot, operator, surveyed, keyed, staging, parallelism, carried, format, change) if keyed else {}
    )
    subtasks = {}
    for subtask in range(parallelism):
        handle = _operator_file(snapshot, operator, surveyed, others, staging, subtask, parallelism, carried) if others else None
        subtasks[subtask] = SubtaskHandles(keyed_files.get(subtask), handle)
    return new_operator("", parallelism, operator.max_parallelism, subtasks, operator)


def _keyed_files(
    snapshot: Snapshot,
    operator: OperatorState,
    surveyed: Survey,
    states: Sequence[StateDescription],
    staging: Staging,
    parallelism: int,
    carried: Carried,
    format: KeyedFormat,
    change: Change,
) -> dict[int, Any]:
    size = operator.max_parallelism
    opened = [(handle, handle.open(snapshot)) for handle in keyed_handles(operator, snapshot)]
    old = {meta.name: meta for _, source in opened for meta in source.header.states}
    new = [old[state.name] if carried(state) else register(state) for state in states]
    rows: dict[str, list[pa.RecordBatch]] = {}
    for state in states:
        if not carried(state):
            reader = open_state(StoredOperator(snapshot, operator, surveyed), state.name, options=_WHOLE)
            assert isinstance(reader, KeyedStateReader)
            parts = (reader.read_source(source, handle.key_groups, None, handle.subtask) for handle, source in opened)
            rows[state.name] = [change(state.name, batch) for batch in chain.from_iterable(parts)]
    key_hash = _key_hash(states[0], [batch for batches in rows.values() for batch in batches], size)
    carrier = KeyedPassThrough(parallelism, size, size)
    blobs: list[pa.RecordBatch] = []
    for state_id, state in enumerate(states):
        if carried(state):
            for handle, source in opened:
                blobs += carrier.blobs(source, state.name, state_id, handle.key_groups)
        else:
            blobs += encode(state, state_id, rows[state.name], parallelism, size, key_hash)
    assert states[0].key is not None
    return _files(staging, operator.operator_id, keyed_header(states[0].key, new), blobs, parallelism, size, format)


def _key_hash(state: StateDescription, batches: Sequence[pa.RecordBatch], max_parallelism: int) -> KeyHash | None:
    """How a POJO key computes its hashCode, learned from where its keys lie."""
    if not isinstance(state.key, PojoSerializer) or not batches:
        return None
    keys = pa.Table.from_batches([batch.select(["key", KEY_GROUP_COLUMN]) for batch in batches]).combine_chunks()
    groups = keys[KEY_GROUP_COLUMN].to_numpy()
    return learn_hash_rule(state.key, keys["key"].combine_chunks(), groups, max_parallelism)


def _rows(snapshot: Snapshot, operator: OperatorState, state: StateDescription, surveyed: Survey) -> Iterator[pa.RecordBatch]:
    reader = open_state(StoredOperator(snapshot, operator, surveyed), state.name, options=_WHOLE)
    for split in reader.splits():
        yield from reader.read(split)


def _operator_file(
    snapshot: Snapshot,
    operator: OperatorState,
    surveyed: Survey,
    states: Sequence[StateDescription],
    staging: Staging,
    subtask: int,
    parallelism: int,
    carried: Carried,
) -> Any:
    sink = staging.open(staging.file_name(operator.operator_id, "operator", subtask))
    old = _registered(snapshot, operator)
    writer = OperatorColumnsWriter(sink, states, [old[s.name] if carried(s) else register(s) for s in states])
    for state in states:
        if carried(state):
            _carry_elements(StoredOperator(snapshot, operator, surveyed), state, writer, subtask, parallelism)
            continue
        for number, batch in enumerate(_rows(snapshot, operator, state, surveyed)):
            if state.kind == BROADCAST:
                writer.add_broadcast(state.name, batch.column("key"), batch.column("value"))
            elif number % parallelism == subtask:
                writer.add_list(state.name, batch.column("value"))
    return writer.close()


def _registered(snapshot: Snapshot, operator: OperatorState) -> dict[str, StateMetaInfo]:
    """Operator states as some subtask registers them."""
    headers = [operator_header(snapshot, s.managed_operator, "") for s in operator.subtasks if s.managed_operator is not None]
    return {meta.name: meta for header in headers for meta in (*header.lists, *header.broadcasts)}


def _carry_elements(
    stored: StoredOperator, state: StateDescription, writer: OperatorColumnsWriter, subtask: int, parallelism: int
) -> None:
    """Elements as bytes, distributed round robin from old to new subtasks; broadcast state is copied."""
    for number, split in enumerate(open_state(stored, state.name).splits()):
        data, bounds = raw_elements(stored.snapshot, split, state.name)
        if state.kind == BROADCAST:
            writer.add_broadcast_bytes(state.name, int.from_bytes(data[:4].tobytes(), "big"), data[4:])
        elif number % parallelism == subtask:
            writer.add_elements(state.name, data, bounds[:-1])
