"""Tables about a snapshot: its operators, their states, and every stored piece.

``operators`` and ``handles`` need ``_metadata`` alone; ``states`` reads the headers of state files too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.queries import kind_of_operator, operator_of_query
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import CheckpointMetadata, OperatorState, OperatorSubtaskState
from state_processor.backends.read.raw_state import RAW_KEYED, RAW_OPERATOR
from state_processor.backends.read.schemas import HANDLES_SCHEMA, OPERATORS_SCHEMA, STATES_SCHEMA, schema_text
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import (
    StoredOperator,
    leaf_keyed_handles,
    of_one_subtask,
    own_raw_keyed,
    surveys,
)
from state_processor.backends.state.descriptions import StateDescription, first_variants
from state_processor.backends.state.python_states import is_python_state, shown_name
from state_processor.backends.state.state_headers import KEPT, Same
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.unread import UnreadSerializer
from state_processor.serializers.kryo.classes import calls, log_undescribed, undescribed_classes
from state_processor.support.errors import StateProcessorError, UnsupportedFormatError, foreign_errors
from state_processor.support.mappings import names_of, without_none

_FLINK_NAMES: Final = {
    h.KEY_GROUPS: "KeyGroupsStateHandle",
    h.KEY_GROUPS_V2: "KeyGroupsStateHandle",
    h.SAVEPOINT_KEY_GROUPS: "KeyGroupsSavepointStateHandle",
    h.INCREMENTAL: "IncrementalRemoteKeyedStateHandle",
    h.INCREMENTAL_V2: "IncrementalRemoteKeyedStateHandle",
    h.CHANGELOG: "ChangelogStateBackendHandleImpl",
    h.CHANGELOG_V2: "ChangelogStateBackendHandleImpl",
    h.CHANGELOG_FILE: "ChangelogStateHandleStreamImpl",
    h.CHANGELOG_FILE_V2: "ChangelogStateHandleStreamImpl",
}
"""Flink's class by the code that handles carry; other handles are named as Flink's class is."""

Row: TypeAlias = dict[str, Any]
_KnownCells: TypeAlias = dict[Same, tuple[Row, dict[str, None]]]
_MOST_KNOWN: Final = 8 * KEPT


def operators(snapshot: Snapshot) -> pa.Table:
    """Return one row per operator: the columns of Flink's ``savepoint_metadata`` function, with underscores.

    Operators of a snapshot that was opened with a plan are called as the plan has them: ``group-aggregate[5]``.
    ``operator_kind`` is the kind of an operator of Flink SQL: from the plan, or from the name that Flink 2 records.
    """
    rows = [_operator_row(snapshot.metadata, o) | _planned_name(snapshot, o) for o in snapshot.metadata.operators]
    return _table(rows, OPERATORS_SCHEMA, snapshot)


def operator_kinds(snapshot: Snapshot) -> dict[str, str]:
    """Return the kinds of operators by their ids: from their names, or from one file of an operator without name and uid."""
    kinds: dict[str, str] = {}
    for operator in snapshot.metadata.operators:
        planned = operator_of_query(snapshot, operator)
        kind = kind_of_operator((), operator.name) if planned is None else planned.transformation
        if kind is None and not (operator.uid or operator.name) and operator.state_size:
            kind = _kind_by_states(snapshot, operator)
        if kind is not None:
            kinds[operator.operator_id] = kind
    return kinds


def _kind_by_states(snapshot: Snapshot, operator: OperatorState) -> str | None:
    """Return the kind of an operator from the states of its first subtask with state; ``None`` if they can't be read."""
    try:
        ((variants, _),) = surveys(snapshot, [of_one_subtask(operator)])
    except StateProcessorError:
        return None
    return kind_of_operator(first_variants(variants).values())


def _planned_name(snapshot: Snapshot, operator: OperatorState) -> Row:
    planned = operator_of_query(snapshot, operator)
    if planned is None:
        return {"operator_kind": kind_of_operator((), operator.name)}
    return {"operator_name": planned.label, "operator_kind": planned.transformation}


def _table(content: list[Row] | dict[str, list[Any]], schema: pa.Schema, snapshot: Snapshot) -> pa.Table:
    """Make a table of rows or columns, whose names and sizes are as the snapshot has them."""
    make = pa.Table.from_pylist if isinstance(content, list) else pa.Table.from_pydict
    with foreign_errors(f"{snapshot.directory}: a name or a size in _metadata is not possible"):
        return make(content, schema)


def _operator_row(metadata: CheckpointMetadata, operator: OperatorState) -> Row:
    coordinator = operator.coordinator_state
    return {
        "checkpoint_id": metadata.checkpoint_id,
        "operator_name": operator.name,
        "operator_uid": operator.uid,
        "operator_uid_hash": operator.operator_id,
        "operator_parallelism": operator.parallelism,
        "operator_max_parallelism": operator.max_parallelism,
        "operator_subtask_state_count": len(operator.subtasks),
        "operator_coordinator_state_size_in_bytes": coordinator.state_size if coordinator else 0,
        "operator_total_size_in_bytes": operator.state_size,
        "reference_checkpoint_id": min(operator.reference_checkpoints, default=None),
    }


def states(snapshot: Snapshot, operator: OperatorState | None = None, *, advise: bool = False) -> pa.Table:
    """Return one row per state of every operator, or of one, the union over all subtasks.

    ``size_in_bytes`` is the size of the state in the snapshot. It is null if several states share a file, and only a scan of the
    file would show it. ``spark_schema`` is the schema of reading by default. ``description`` is the content of a state of Flink
    SQL, if the snapshot was opened with the plan of its query. ``operator_kind`` is the kind of an operator of Flink SQL, such as
    ``join``: from the plan, from the name of the operator, or from the names and types of its states. Raw state does not have a
    name. A state that can't be read has a row whose ``value_type`` gives class and reason; its name is null if its header can't
    be read. Types with undescribed classes of Kryo show the call that describes them; with ``advise``, so does one warning.
    """
    operators = snapshot.metadata.operators if operator is None else (operator,)
    undescribed: dict[str, None] = {}
    cells_by_state: _KnownCells = {}
    stored = map(partial(StoredOperator, snapshot), operators, surveys(snapshot, operators))
    rows = chain.from_iterable(_state_rows(described, cells_by_state, undescribed) for described in stored)
    table = _table(_columns(rows, STATES_SCHEMA), STATES_SCHEMA, snapshot)
    if advise:
        log_undescribed(undescribed)
    return table


def _columns(rows: Iterable[Row], schema: pa.Schema) -> dict[str, list[Any]]:
    """Return rows by column: dictionaries of hundreds of thousands of rows would take more memory than their values."""
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for row in rows:
        for name, column in columns.items():
            column.append(row.get(name))
    return columns


def _state_rows(stored: StoredOperator, cells_by_state: _KnownCells, undescribed: dict[str, None]) -> Iterator[Row]:
    snapshot, operator = stored.snapshot, stored.operator
    variants, unread = stored.surveyed
    described = first_variants(variants)
    keyed = sum(state.is_keyed for state in described.values())
    planned = operator_of_query(snapshot, operator)
    kind = kind_of_operator(described.values(), operator.name) if planned is None else planned.transformation
    identity = {"operator_uid": operator.uid, "operator_uid_hash": operator.operator_id, "operator_kind": kind}
    for name, state in described.items():
        cells, without_fields = _cells(stored, variants[name], cells_by_state)
        undescribed |= without_fields
        size = _keyed_size(operator) if state.is_keyed and keyed == 1 else _operator_state_size(operator, state)
        yield identity | cells | {"size_in_bytes": size, "description": None if planned is None else planned.description(state)}
    for unread_state in unread:
        name_of_state = unread_state.name and shown_name(unread_state.name)
        cells = {
            "state_name": name_of_state,
            "state_kind": unread_state.kind,
            "python": name_of_state != unread_state.name,
            "backend": unread_state.backend or None,
        }
        yield identity | cells | {"value_type": f"not readable: {unread_state.error}"}
    for kind, size in _raw_sizes(snapshot, operator):
        yield identity | {"state_kind": kind, "python": False, "ttl": False, "backend": "raw", "size_in_bytes": size}


def _cells(stored: StoredOperator, variants: list[StateDescription], cells_by_state: _KnownCells) -> tuple[Row, dict[str, None]]:
    """Return the columns that follow from the descriptions of a state, and the undescribed classes in it.

    Operators with the same header have the same descriptions. The result is cached for them. A plan names the fields of each
    operator.
    """
    key = Same(*variants)
    if key in cells_by_state:
        return cells_by_state[key]
    state, serializers = variants[0], variants[0].serializers
    row = {
        "state_name": shown_name(state.name),
        "state_kind": state.kind,
        "python": is_python_state(state.name),
        "key_type": _type_name(serializers.get("key")),
        "namespace_type": _type_name(serializers.get("namespace")),
        "value_type": None if state.is_timer else _value_type(state),
        "map_key_type": _type_name(serializers.get("map_key")),
        "ttl": state.has_ttl,
        "backend": state.backend,
        "spark_schema": _spark_schema(stored, state.name),
    }
    cells = row, dict.fromkeys(undescribed_classes(tuple(serializers.values())))
    if stored.snapshot.query_plan is None:
        if len(cells_by_state) >= _MOST_KNOWN:
            cells_by_state.clear()
        cells_by_state[key] = cells
    return cells


def _type_name(serializer: TypeSerializer | None) -> str | None:
    if serializer is None:
        return None
    undescribed = undescribed_classes(serializer)
    return f"{serializer}, undescribed: {calls(undescribed)}" if undescribed else str(serializer)


def _value_type(state: StateDescription) -> str | None:
    name = _type_name(state.value)
    return f"{name}, read as bytes: {state.value.reason}" if isinstance(state.value, UnreadSerializer) else name


def _spark_schema(stored: StoredOperator, state: str) -> str | None:
    try:
        return schema_text(open_state(stored, state).schema)
    except UnsupportedFormatError:
        return None


def _keyed_size(operator: OperatorState) -> int:
    return h.total_size(chain.from_iterable(leaf_keyed_handles(subtask.managed_keyed) for subtask in operator.subtasks))


def _operator_state_size(operator: OperatorState, state: StateDescription) -> int | None:
    """Return the bytes between this state's offsets and the offsets that follow; ``None`` for keyed state."""
    if state.is_keyed:
        return None
    total = 0
    for subtask in operator.subtasks:
        handle = subtask.managed_operator
        if handle is None:
            continue
        offsets_of_state = [s.offsets.to_numpy() for s in handle.states if s.name == state.name]
        if not offsets_of_state:
            continue
        bounds = np.unique(np.concatenate([s.offsets.to_numpy() for s in handle.states] + [np.array([handle.state_size])]))
        starts = np.concatenate(offsets_of_state)
        ends = bounds[np.minimum(np.searchsorted(bounds, starts, side="right"), len(bounds) - 1)]
        total += int((ends - starts).sum())
    return total


def _raw_sizes(snapshot: Snapshot, operator: OperatorState) -> Iterator[tuple[str, int]]:
    """Yield kind and size of raw state. Timers in raw keyed state are listed as states instead."""
    keyed: list[h.KeyedStateHandle] = without_none(own_raw_keyed(snapshot, operator, s) for s in operator.subtasks)
    if keyed:
        yield RAW_KEYED, h.total_size(keyed)
    written: list[h.OperatorStateHandle] = without_none(s.raw_operator for s in operator.subtasks)
    if written:
        yield RAW_OPERATOR, h.total_size(written)


def handles(snapshot: Snapshot) -> pa.Table:
    """Return one row per stored piece: a file, a part of one, or bytes kept inside ``_metadata``; sizes add up to the snapshot's.

    ``slot`` says what of a subtask it belongs to, ``handle_type`` the class of Flink's handle, ``part`` its role in a handle of
    several pieces (``metadata``, ``shared``, ``private``, ``materialized``, ``change``), ``path`` where ``_metadata`` says it is.
    """
    return _table(_columns(_handle_rows(snapshot.metadata), HANDLES_SCHEMA), HANDLES_SCHEMA, snapshot)


def _handle_rows(metadata: CheckpointMetadata) -> Iterator[Row]:
    for master in metadata.master_states:
        piece = {"handle_type": "MasterState", "handle_id": master.name, "inline": True, "size_in_bytes": len(master.data)}
        yield {"slot": "master state"} | piece
    for operator in metadata.operators:
        identity = {"operator_name": operator.name, "operator_uid": operator.uid, "operator_uid_hash": operator.operator_id}
        if operator.coordinator_state is not None:
            handle_type = {"slot": "coordinator", "handle_type": "ByteStreamStateHandle"}
            yield identity | handle_type | _stream(operator.coordinator_state)
        for subtask in operator.subtasks:
            for row in _subtask_rows(subtask):
                reference = {"reference_checkpoint_id": subtask.reference_checkpoint_id}
                yield identity | {"subtask": subtask.index} | reference | row


def _subtask_rows(subtask: OperatorSubtaskState) -> Iterator[Row]:
    for slot, keyed in (("managed keyed", subtask.managed_keyed), ("raw keyed", subtask.raw_keyed)):
        if keyed is not None:
            yield from ({"slot": slot} | row for row in _keyed(keyed))
    for slot, operator in (("managed operator", subtask.managed_operator), ("raw operator", subtask.raw_operator)):
        if operator is not None:
            names = {"state_names": names_of(operator.states)}
            yield {"slot": slot, "handle_type": _flink_name(operator)} | names | _stream(operator.stream)
    for slot, channels in (("input channel", subtask.input_channels), ("result subpartition", subtask.result_subpartitions)):
        for channel in channels:
            cells = {"slot": slot, "handle_type": _flink_name(channel), "size_in_bytes": channel.state_size}
            yield _stream(channel.stream) | cells


def _keyed(handle: h.KeyedStateHandle) -> Iterator[Row]:
    common: Row = {
        "handle_type": _flink_name(handle),
        "key_group_start": handle.key_groups.start,
        "key_group_end": handle.key_groups.end_inclusive,
        "handle_id": handle.handle_id,
    }
    if isinstance(handle, h.KeyGroupsStateHandle):
        yield common | _stream(handle.stream)
    elif isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
        common |= {"checkpoint_id": handle.checkpoint_id, "backend_id": handle.backend_id}
        yield common | {"part": "metadata"} | _stream(handle.meta)
        for part, files in (("shared", handle.shared), ("private", handle.private)):
            for file in files:
                yield common | {"part": part, "local_name": file.local_name} | _stream(file.stream)
    elif isinstance(handle, h.ChangelogStateBackendHandle):
        for materialized in handle.materialized:
            yield from ({"part": "materialized"} | row for row in _keyed(materialized))
        for change in handle.changes:
            yield from ({"part": "change"} | row for row in _keyed(change))
    elif isinstance(handle, h.InMemoryChangelogStateHandle):
        yield common | {"inline": True, "size_in_bytes": handle.state_size}
    else:
        for offset, stream in handle.streams:
            yield common | _stream(stream) | {"offset": offset}


def _flink_name(handle: h.StateHandle) -> str:
    return _FLINK_NAMES.get(getattr(handle, "code", h.NULL), type(handle).__name__)


def _stream(stream: h.StreamStateHandle) -> Row:
    if isinstance(stream, h.KeyGroupsStateHandle):  # a stream inside a stream
        return _stream(stream.stream)
    row: Row = {"stream_type": type(stream).__name__, "inline": False, "size_in_bytes": stream.state_size}
    if isinstance(stream, h.ByteStreamStateHandle):
        return row | {"inline": True}
    if isinstance(stream, h.SegmentFileStateHandle):
        return row | {"path": stream.path, "offset": stream.start}
    return row | {"path": getattr(stream, "path", None)}


TABLES: Final[dict[str, Callable[[Snapshot], pa.Table]]] = {
    "operators": operators,
    "states": partial(states, advise=True),
    "handles": handles,
}
"""The tables about a snapshot by name."""
