"""Changes to operator state (list, union and broadcast), and to the splits of sources: each adds its rows to a draft."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.connectors.sink_state import ListOfBytes, sink_state
from state_processor.backends.connectors.sink_writer import written_sink
from state_processor.backends.connectors.source_splits import READER_STATE, source_state, written_source
from state_processor.backends.read.operator_state import OperatorStateReader
from state_processor.backends.state.descriptions import (
    BROADCAST,
    OPERATOR_LIST,
    BroadcastDescription,
    OperatorDescription,
    OperatorListDescription,
)
from state_processor.backends.state.python_states import PythonType, is_python_state, shown_name, with_python_type
from state_processor.backends.write.entry_encoder import KEY, VALUE
from state_processor.backends.write.operator_writer import encode_columns
from state_processor.backends.write.tombstones import ChangeCounts
from state_processor.read.rows import read_type
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.kernel.encode.conversion import bind
from state_processor.serializers.kryo.nested_kryo import for_flink
from state_processor.serializers.shared_types import PortableType
from state_processor.serializers.table.python_state import PYTHON_PREFIX, ByteArrayWrapperSerializer
from state_processor.support.doors import spelled
from state_processor.support.errors import InvalidRowError, NotFoundError, OptionError
from state_processor.support.mappings import map_values, only_keys, without_none
from state_processor.types.identifier import OperatorIdentifier
from state_processor.write.build import SavepointBuild, Uid
from state_processor.write.plan.draft import ElementEdits, OperatorDraft
from state_processor.write.rows.row_columns import (
    check_byte_arrays,
    check_columns,
    field_type,
    has_byte_arrays,
    has_values,
    naming,
)
from state_processor.write.rows.row_protocol import OperatorRows

_WRAPPED: Final = ByteArrayWrapperSerializer()


def add_list_state(draft: OperatorDraft, name: str, rows: OperatorRows, type_: TypeSerializer | None, kind: str) -> None:
    """Write a list or union state; see :meth:`~state_processor.SavepointWriter.with_list_state`."""
    with naming(f"state {name!r}"):
        names = rows.schema.names
        column = names[0] if len(names) == 1 else VALUE
        schema = check_columns(rows, [column])
        value = type_ or _type_of(schema.field(column), _stored_state(draft, name, kind), "value", f"column {column!r}")
        bind(value, schema.field(column).type, column)
        draft.add_operator_state(OperatorListDescription(name, kind, value), rows.select({VALUE: column}))


def add_broadcast_state(
    draft: OperatorDraft,
    name: str,
    rows: OperatorRows,
    key_type: TypeSerializer | None,
    value_type: TypeSerializer | None,
    *,
    python: bool | None = None,
) -> None:
    """Write a broadcast state; see :meth:`~state_processor.SavepointWriter.with_broadcast_state`."""
    with naming(f"state {name!r}"):
        schema = check_columns(rows, [KEY, VALUE])
        if python or (python is None and _is_of_python(draft, name, schema)):
            state = _python_broadcast(name, schema, key_type, value_type)
        else:
            stored = _stored_state(draft, name, BROADCAST)
            key = key_type or _type_of(schema.field(KEY), stored, "key", "column 'key'")
            value = value_type or _type_of(schema.field(VALUE), stored, "value", "column 'value'")
            state = BroadcastDescription(name, BROADCAST, value, key)
        for serializer, column in ((state.key, KEY), (state.value, VALUE)):
            bind(serializer, schema.field(column).type, column)
        draft.add_operator_state(state, rows.select({KEY: KEY, VALUE: VALUE}))


def _stored_state(draft: OperatorDraft, name: str, kind: str) -> OperatorDescription | None:
    """Return a state of the source savepoint, if it has one of this name and kind."""
    stored = draft.source.operator_states.get(draft.stored(name)) if draft.source is not None else None
    return stored if stored is not None and stored.kind == kind else None


def _type_of(column: pa.Field, stored: OperatorDescription | None, role: str, label: str) -> TypeSerializer:
    """Return the type that a column was read with, or that fits it in the source savepoint, or else that it suggests."""
    if stored is not None and read_type(column) is None:
        with suppress(InvalidRowError):
            bind(stored.serializers[role], column.type, column.name)
            return stored.serializers[role]
    return field_type(column, label)


def _is_of_python(draft: OperatorDraft, name: str, schema: pa.Schema) -> bool:
    reads = [read_type(schema.field(column)) for column in (KEY, VALUE)]
    return is_python_state(draft.stored(name)) or any(read is not None and is_python_state(read.state) for read in reads)


def _python_broadcast(
    name: str, schema: pa.Schema, key_type: TypeSerializer | None, value_type: TypeSerializer | None
) -> BroadcastDescription:
    """Return a broadcast state of PyFlink: of values of the job or, for rows that were read without types, of byte arrays."""
    types = {KEY: key_type, VALUE: value_type}
    fields = {column: schema.field(column) for column in types}
    stored = map_values(has_byte_arrays, fields)
    typing = f"{spelled('key_type')} and {spelled('value_type')}"
    for column, type_ in types.items():
        check_byte_arrays(fields[column], typed=type_ is not None or has_values(fields[column]), typing=typing)
    state = BroadcastDescription(PYTHON_PREFIX + shown_name(name), BROADCAST, BytesSerializer(), _WRAPPED)
    if all(stored.values()):
        return state
    key, value = (type_ or field_type(fields[column], f"column {column!r}") for column, type_ in types.items())
    if any(stored.values()):
        raise OptionError(
            f"one of the columns {KEY!r} and {VALUE!r} has byte arrays of PyFlink as they are stored, and the other one has "
            f"values: read the rows with {spelled('python_type', 'MAP<…>')}"
        )
    return with_python_type(state, PythonType("MAP", PortableType.of(value), PortableType.of(key)))


def edit_elements(
    draft: OperatorDraft,
    state: OperatorDescription,
    reader: OperatorStateReader,
    elements: Mapping[tuple[int, int], Mapping[str, Any] | None],
) -> None:
    """Replace or leave out elements of an operator state; only the new elements are encoded.

    ``draft``: the operator, whose source savepoint has the state. ``state`` and ``reader``: the state, and the reader of the rows
    that are edited. ``elements``: new rows by subtask and position in the subtask; ``None`` leaves an element out.
    """
    with naming(f"state {state.name!r}"):
        new = _encoded(draft, state, reader.schema, without_none(elements.values()))
        edits = {place: None if row is None else next(new) for place, row in elements.items()}
        replaced = sum(data is not None for data in edits.values())
        counts = ChangeCounts(replaced, updated=replaced, deleted=len(edits) - replaced)
        if isinstance(state, BroadcastDescription):
            edits = _edited_broadcast(reader, edits)
        draft.changes.edits[state.name] = ElementEdits(edits, counts)


def _encoded(
    draft: OperatorDraft, state: OperatorDescription, schema: pa.Schema, rows: Sequence[Mapping[str, Any]]
) -> Iterator[bytes]:
    state = for_flink(state, draft.flink_major)
    values = [only_keys(row, state.serializers) for row in rows]
    table = pa.Table.from_pylist(values, schema).combine_chunks()
    columns = {name: table.column(name).combine_chunks() for name in state.serializers}
    return iter(list(encode_columns(state.serializers, columns, draft.label))) if rows else iter(())


def _edited_broadcast(
    reader: OperatorStateReader, edits: Mapping[tuple[int, int], bytes | None]
) -> dict[tuple[int, int], bytes | None]:
    """Return the edit of a whole broadcast state from the edits of its entries: count, keys and values back to back."""
    (split,) = reader.splits()
    entries = [edits.get((split.subtask, at), entry) for at, entry in enumerate(reader.broadcast_entries(split))]
    stay = without_none(entries)
    return {(split.subtask, 0): len(stay).to_bytes(4, "big") + b"".join(stay)}


def set_source_splits(draft: OperatorDraft, rows: OperatorRows, connector: str | None) -> None:
    """Write the splits of a source; see :meth:`~state_processor.SavepointWriter.with_source_splits`."""
    old = source_state(draft.source.snapshot, draft.source.operator) if draft.source is not None else None
    splits = rows.to_arrow().to_pylist()
    with naming(f"state {READER_STATE!r}"):
        written = written_source(splits, old, connector)
    draft.changes.coordinator = written.coordinator
    state = OperatorListDescription(READER_STATE, OPERATOR_LIST, BytesSerializer())
    draft.add_operator_state(state, rows.of_values(pa.array(written.elements, pa.binary())))


def set_sink_state(build: SavepointBuild, uid: Uid, rows: OperatorRows, connector: str | None, committer: Uid | None) -> None:
    """Write the state of a sink; see :meth:`~state_processor.SavepointWriter.with_sink_state`."""
    draft = build.existing(uid)
    if draft.source is None:
        raise NotFoundError(f"{draft.label} is not in the source savepoint, so there is no state of its sink to change")
    committers = OperatorIdentifier.of(committer).uid_hash if committer is not None else None
    old = sink_state(draft.source.snapshot, draft.source.operator, draft.identifier.uid, committers)
    with naming(draft.label):
        written = written_sink(rows.to_arrow().to_pylist(), old, connector)
    for state, elements in ((old.writer, written.writer), (old.committer, written.committer)):
        if state is not None and elements is not None:
            _replace(build, state, rows.of_values(_values(state, elements)))


def _values(state: ListOfBytes, elements: Sequence[bytes]) -> pa.Array:
    """Return the column of the elements of a list."""
    if state.state is None:
        return pa.array(elements, pa.binary())
    options, element = DecodeOptions(), state.state.value
    values = [element.to_column(element.deserialize(data), options) for data in elements]
    return pa.array(values, element.arrow_type(options))


def _replace(build: SavepointBuild, state: ListOfBytes, rows: OperatorRows) -> None:
    with build.change(OperatorIdentifier(state.operator.uid, state.operator.operator_id), existing=True) as draft:
        usual = OperatorListDescription(state.name, OPERATOR_LIST, BytesSerializer())
        draft.add_operator_state(usual if state.state is None else state.state, rows)
