"""Changes to the keyed state of an operator: each checks its rows, and adds them to the draft of the operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from state_processor.backends.files.ordered_threads import read_all
from state_processor.backends.formats.row_layout import KEY_GROUP_COLUMN, NAMESPACE
from state_processor.backends.formats.row_shapes import FIRES_AT, LAST_ACCESS, SUBTASK, WINDOW
from state_processor.backends.read.keyed_reader import DOMAIN, SERVICE
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.column_types import DeclaredNames, declared, declared_names, named_by, names_in, with_names
from state_processor.backends.state.descriptions import LIST, KeyedDescription
from state_processor.backends.state.hash_inference import HashRule, UserHash
from state_processor.backends.state.python_states import PythonType, in_byte_arrays, is_python_state, shown_name, with_python_type
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, NAMESPACES, TIMESTAMP, KeyHash, compile_entries
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.hash_codes import has_known_hash, require_hash_code
from state_processor.serializers.kernel.encode.program import EncodeOptions
from state_processor.serializers.kryo.nested_kryo import for_flink
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.serializers.table.python_state import PYTHON_PREFIX
from state_processor.serializers.table.row_names import row_names
from state_processor.support.doors import changing, spelled
from state_processor.support.errors import InvalidRowError, NotFoundError, OptionError, third_party_errors
from state_processor.support.late import pc
from state_processor.support.mappings import names_of, only_keys
from state_processor.types.declared_types import (
    DeclaredTypes,
    PythonTypeArgument,
    asking_for_python_type,
    asking_for_types,
    java_types_by_path,
    python_type_of,
    split_declared_types,
)
from state_processor.types.state_specs import StateSpec, as_spec, timer_queue
from state_processor.write.plan.draft import Deletion, OperatorDraft, StateRows
from state_processor.write.rows.row_columns import (
    KeyedRows,
    check_byte_arrays,
    check_key_types,
    checked_schema,
    has_byte_arrays,
    has_values,
    naming,
    refuse_others,
    require,
)
from state_processor.write.rows.row_protocol import TIMESTAMP_MS, ColumnNames, Rows, explode_map, timers

if TYPE_CHECKING:
    from state_processor.serializers.java.types import JavaType

_PLACES: Final = (KEY_GROUP_COLUMN, SUBTASK)


def require_ttl(draft: OperatorDraft, name: str) -> KeyedDescription:
    """Return a state of the source savepoint that has time-to-live."""
    state = draft.unchanged(name)
    if not state.has_ttl:
        raise OptionError(f"{draft.label}, state {name!r} does not have time-to-live; add it with {changing('with_ttl')}")
    return state


def with_time_to_live(draft: OperatorDraft, name: str, *, enabled: bool) -> KeyedDescription:
    """Return a state of the source savepoint with time-to-live, or without."""
    state = draft.unchanged(name)
    if state.is_timer:
        raise OptionError(f"{draft.label}, state {name!r} has timers; timers don't have time-to-live")
    if state.has_ttl == enabled:
        raise OptionError(f"{draft.label}, state {name!r} {'already has' if enabled else 'does not have'} time-to-live")
    value = state.value
    return state.with_serializers(value=value.value if isinstance(value, TtlSerializer) else TtlSerializer.of(value))


def expired_rows(draft: OperatorDraft, state: KeyedDescription, expiry: ReadOptions) -> tuple[pa.Table, pa.Table]:
    """Return what expires: keys (with namespaces) or entries of a map to delete, and rows that replace lists.

    ``expiry``: the time-to-live and the point in time.
    """
    expiry = expiry.with_values(nanos="string", row_kind=True)
    gone = _read(draft, state, replace(expiry, expired="only"))
    identity = [name for name in (KEY, *NAMESPACES, MAP_KEY) if name in gone.column_names]
    gone = gone.select(identity)
    if state.kind != LIST or not gone.num_rows:
        return gone, gone.slice(0, 0)
    keys = list({repr(key): key for key in gone[KEY].to_pylist()}.values())
    live = _read(draft, state, replace(expiry, flatten=False, metadata=True, keys=tuple(keys)))
    lists = live.filter(pc.greater(pc.fill_null(pc.list_value_length(live["value"]), 0), 0)).drop_columns(list(_PLACES))
    remaining = set(map(repr, lists.select(identity).to_pylist()))
    return pa.Table.from_pylist([row for row in gone.to_pylist() if repr(row) not in remaining], gone.schema), lists


def touched_rows(draft: OperatorDraft, state: KeyedDescription, as_of: int) -> pa.Table:
    """Return all rows of a state with another time of last access, in milliseconds."""
    table = _read(draft, state, ReadOptions.of(metadata=True, nanos="string", row_kind=True))
    at = table.schema.get_field_index(LAST_ACCESS)
    times = pa.repeat(pa.scalar(as_of * 1000, pa.int64()), table.num_rows).cast(table.schema.field(at).type)
    return table.set_column(at, LAST_ACCESS, times).drop_columns(list(_PLACES))


def _read(draft: OperatorDraft, state: KeyedDescription, options: ReadOptions) -> pa.Table:
    assert draft.source is not None  # it has the state
    reader = open_state(StoredOperator(draft.source.snapshot, draft.source.operator), state.name, options=options)
    return pa.Table.from_batches(read_all(reader.splits, reader.read, draft.source.snapshot.threads), reader.schema)


_IDENTIFYING: Final = (KEY, *NAMESPACES, MAP_KEY)
"""Columns that identify an entry."""


def add_keyed_states(
    draft: OperatorDraft,
    rows: KeyedRows,
    key_type: TypeSerializer | None = None,
    states: Mapping[str, StateSpec | TypeSerializer] | None = None,
    *,
    key_hash: KeyHash | HashRule | None = None,
    columns: Mapping[str, str] | None = None,
    python: bool | None = None,
) -> None:
    """Write new keyed states; see :meth:`~state_processor.SavepointWriter.with_keyed_state`.

    ``columns``: columns to states, where their names differ.
    """
    checked_schema(rows.rows, [rows.key])
    specs = _new_states(rows, states, columns)
    python = draft.has_python_keys or rows.of_python if python is None else python
    fields = {column: rows.schema.field(column) for column in specs if column in rows.schema.names}
    arrays = {column for column, field in fields.items() if python and has_byte_arrays(field)}
    for field in fields.values() if python else ():
        check_byte_arrays(field, typed=states is not None or has_values(field), typing=spelled("states"))
    key_serializer = draft.take_key(rows, key_type, python=python)
    has_ttl = any(spec.ttl is not None for _, spec in specs.values())
    written: list[tuple[KeyedDescription, ColumnNames]] = []
    for column, (name, spec) in specs.items():
        state = _add_state(draft, name, spec, key_serializer, python=python, byte_arrays=column in arrays)
        sources = rows.new_state_columns(state, column, uses_times=has_ttl)
        if draft.source_key is not None:
            check_key_types(state, rows.schema, {KEY: rows.key})
        _check_types(draft, state, rows.schema, sources)
        written.append((state, sources))
    rows.check_windows(sources for _, sources in written)
    draft.changes.state_rows.append(StateRows.of(rows.rows, written))
    if key_hash is not None:
        set_key_hash(draft, key_hash)
    elif draft.changes.hashing is None and draft.source_key is None:
        require_hash_code(key_serializer)


def set_key_hash(draft: OperatorDraft, key_hash: KeyHash | HashRule) -> None:
    """Set the ``hashCode`` of keys; see :meth:`~state_processor.SavepointWriter.with_key_hash`."""
    key = draft.key
    if key is None:
        raise OptionError("key_hash: the operator does not have keyed state yet; add it first")
    if not isinstance(key_hash, HashRule) and not callable(key_hash):
        raise OptionError(f"key_hash={key_hash!r}: expected a function or a HashRule, found a {type(key_hash).__name__}")
    if has_known_hash(key):
        raise OptionError(f"key_hash: the hashCode of keys of type {key} is known; leave key_hash out")
    if isinstance(key_hash, HashRule):
        if not isinstance(key, PojoSerializer):
            raise OptionError(f"key_hash={key_hash}: keys of type {key} are not a POJO; give a function")
        key_hash.check_fields(names_of(key.fields))
        draft.changes.hashing = (key_hash,)
    else:
        draft.changes.hashing = key_hash if isinstance(key_hash, UserHash) else UserHash(key_hash)


def _new_states(
    rows: KeyedRows, states: Mapping[str, StateSpec | TypeSerializer] | None, columns: Mapping[str, str] | None
) -> dict[str, tuple[str, StateSpec]]:
    """Return the names and kinds of new states, by the column of their values."""
    for argument, mapping in (("states", states), ("columns", columns)):
        if mapping is not None and not isinstance(mapping, Mapping):
            raise OptionError(f"{argument}={mapping!r}: expected a mapping by column, found a {type(mapping).__name__}")
    suggested = rows.value_types() if states is None else {}
    states = {column: spec for column, (_, spec) in suggested.items()} if states is None else states
    if not states:
        raise OptionError(f"there is no state to write: the rows have only {', '.join(rows.schema.names)}")
    names = {**{column: name for column, (name, _) in suggested.items()}, **(columns or {})}
    unknown = [c for c in names if c not in states]
    if unknown:
        raise OptionError(f"columns={unknown[0]!r}: no state is written from it; there are {', '.join(states)}")
    return {column: (name := names.get(column, column), as_spec(name, value)) for column, value in states.items()}


def _add_state(
    draft: OperatorDraft, name: str, spec: StateSpec, key: TypeSerializer, *, python: bool, byte_arrays: bool
) -> KeyedDescription:
    """Add a new state to a draft; states of a PyFlink job have other names, and other bytes unless rows have byte arrays."""
    state = spec.describe(PYTHON_PREFIX + shown_name(name) if python else name, key)
    draft.add(state)
    if python:
        state = draft.changes.added[state.name] = _take_python(draft, in_byte_arrays(state), None if byte_arrays else spec)
    return state


def update_keyed_state(
    draft: OperatorDraft,
    state: str,
    rows: KeyedRows,
    *,
    types: DeclaredTypes | None = None,
    infer_kryo: bool = False,
    python_type: PythonTypeArgument | PythonType | None = None,
) -> None:
    """Change entries of a keyed state; see :meth:`~state_processor.SavepointWriter.update_keyed_state`."""
    with naming(f"state {state!r}"):
        state = draft.stored(state)
        described = draft.keyed(state)
        if types or infer_kryo:
            described = _with_declared_types(draft, described, types or {}, infer_kryo=infer_kryo)
        checked_schema(rows.rows)
        rows.check_byte_arrays(described, typed=python_type is not None)
        updated = draft.update(described, with_bytes=rows.has_bytes)
        description = _take_python(draft, updated, python_type)
        shaped, columns, replaces = rows.shaped(description)
        with asking_for_types(description), asking_for_python_type(description):
            _check_types(draft, description, shaped.schema, columns)
            check_key_types(description, shaped.schema, {role: columns[role] for role in _IDENTIFYING if role in columns})
        shaped = _supersede(draft, [state], shaped, columns)
        draft.changes.state_rows.append(StateRows.of(shaped, [(description, columns)], replaces))


def _with_declared_types(
    draft: OperatorDraft, state: KeyedDescription, types: DeclaredTypes, *, infer_kryo: bool
) -> KeyedDescription:
    """Return a state of the source savepoint with the names of rows and the types of parts that the user declares.

    ``infer_kryo``: whether the other parts that Kryo wrote have the types of their values.
    """
    columns_of, parts_of = split_declared_types(state, types)
    inferred: dict[str, JavaType] = {}
    if infer_kryo:
        from state_processor.backends.read.java_type_inference import inferred_java_types  # most writes infer nothing

        assert draft.source is not None  # it has the state
        inferred = inferred_java_types(StoredOperator(draft.source.snapshot, draft.source.operator), state.name)
    return declared(named_by(state, columns_of), inferred | java_types_by_path(parts_of))


def delete_keys(
    draft: OperatorDraft,
    rows: Rows,
    state: str | None = None,
    key: str | None = None,
    *,
    key_type: TypeSerializer | None = None,
) -> None:
    """Delete keys; see :meth:`~state_processor.SavepointWriter.delete_keys`."""
    schema = checked_schema(rows)
    state = None if state is None else draft.stored(state)
    column = key or (schema.names[0] if len(schema.names) == 1 else KEY)
    names = draft.kept_keyed()
    if not names and not draft.changes.added:
        raise NotFoundError(f"{draft.label} has no keyed state that keys could be deleted from; is the uid right?")
    states = list(map(draft.keyed, names if state is None else [state]))
    columns = KeyedRows(rows, column).key_columns(None if state is None else states[0], list(map(shown_name, names)))
    keys: DeclaredNames = {}
    if draft.source_key is not None:
        job_key = None if key_type is None else draft.key_of_job(key_type)
        named = row_names(draft.source_key) if job_key is None else names_in(job_key, draft.source_key, "key")
        keys = {"key": named} if named else {}
    changed = [
        *(with_names(description, keys) for description in states),
        *(draft.changes.added.values() if state is None else ()),
    ]
    for description in changed:
        check_key_types(description, schema, columns)
    _delete(draft, names_of(changed), Deletion(rows, columns, state, names=keys))


def delete_map_entries(
    draft: OperatorDraft,
    state: str,
    rows: KeyedRows,
    *,
    types: Mapping[str, TypeSerializer] | None = None,
    python_type: PythonTypeArgument | None = None,
) -> None:
    """Delete entries of a map state; see :meth:`~state_processor.SavepointWriter.delete_map_entries`."""
    with naming(f"state {state!r}"):
        schema = checked_schema(rows.rows)
        state = draft.stored(state)
        named = named_by(draft.keyed(state), types or {})
        rows.check_byte_arrays(named, typed=python_type is not None)
        description = _take_python(draft, named, python_type)
        columns = rows.entry_columns(description)
        with asking_for_python_type(description):
            check_key_types(description, schema, columns)
        _delete(draft, [state], Deletion(rows.rows, columns, state, "entries", declared_names(description)))


def add_timers(
    draft: OperatorDraft, table: KeyedRows, key_type: TypeSerializer | None = None, namespace: TypeSerializer | None = None
) -> None:
    """Write timers; see :meth:`~state_processor.SavepointWriter.with_timers`."""
    schema, key = checked_schema(table.rows), table.key
    part = key if table.rows.case_sensitive else key.lower()
    if part in (TIMESTAMP, DOMAIN, SERVICE):
        raise InvalidRowError(f"timers: column {key!r} has the {part} of each timer; rename the column of the key")
    times = [n for n in (TIMESTAMP, TIMESTAMP_MS, FIRES_AT) if n != key]
    namespace = table.namespace_type() if namespace is None else namespace
    require(schema.names, [key, *([] if set(times) & set(schema.names) else [TIMESTAMP])])
    spaces = (NAMESPACE,) if namespace is None else NAMESPACES
    hint = "name the type of the window by namespace=Types.TIME_WINDOW()" if WINDOW in schema.names else ""
    refuse_others(schema.names, (key, *times, DOMAIN, SERVICE, *spaces), hint)
    key_serializer = draft.take_key(table, key_type)
    rows, queue_keys = timers(table.rows, key, has_namespaces=namespace is not None)
    queues = [(timer_queue(*queue, key_serializer, namespace), queue) for queue in queue_keys]
    held = [name for name, state in draft.source_keyed.items() if state.is_timer]
    if held and not queues:
        raise OptionError(
            "there are no rows, so that the timers of the source savepoint would stay as they are; to leave them out, call "
            f"remove_state for {' and '.join(map(repr, held))}"
        )
    written: list[tuple[KeyedDescription, ColumnNames]] = []
    for queue, _ in queues:
        draft.add(queue)
        columns = table.context_columns(queue) | {KEY: key, TIMESTAMP: TIMESTAMP}
        _check_types(draft, queue, rows.schema, columns)
        written.append((queue, columns))
    if written:
        of_queues = {queue.name: values for queue, values in queues}
        draft.changes.state_rows.append(replace(StateRows.of(rows, written), queues=of_queues))


def add_entries(draft: OperatorDraft, name: str, spec: StateSpec, rows: Rows, key_type: TypeSerializer) -> None:
    """Write a new keyed state from rows in the shape of reading; rows of a map have an entry each."""
    with naming(f"state {name!r}"):
        key = draft.take_key(KeyedRows(rows), key_type)
    replace_state(draft, spec.describe(name, key), rows)


def replace_state(draft: OperatorDraft, state: KeyedDescription, rows: Rows) -> None:
    """Write a keyed state, which replaces one of the same name, from rows as reading gives them.

    A row has an entry of a map, or the whole list or map of a key.
    """
    with naming(f"state {state.name!r}"):
        shaped, columns, _ = KeyedRows(rows).shaped(state)
        draft.add(state)
        _check_types(draft, state, shaped.schema, columns)
        draft.changes.state_rows.append(StateRows.of(shaped, [(state, columns)]))


def _take_python(
    draft: OperatorDraft, state: KeyedDescription, declared: PythonTypeArgument | PythonType | None
) -> KeyedDescription:
    """Note the type that a PyFlink job declares for a state; return the state with it."""
    if declared is None and not is_python_state(state.name):
        return state
    type_ = None if declared is None else python_type_of(declared)
    described = state if type_ is None else with_python_type(state, type_)
    before = draft.changes.python.setdefault(state.name, type_)
    if described != (state if before is None else with_python_type(state, before)):
        raise OptionError(
            f"{draft.label}, state {shown_name(state.name)!r}: rows were given before with another python_type; give all rows "
            "of a state in one form, or write them one after the other"
        )
    return described


def _delete(draft: OperatorDraft, states: Sequence[str], deletion: Deletion) -> None:
    rows = _supersede(draft, states, deletion.rows, deletion.columns)
    draft.changes.deletions.append(replace(deletion, rows=rows))


def _supersede(draft: OperatorDraft, states: Sequence[str], rows: Rows, columns: ColumnNames) -> Rows:
    """Remove the keys of later rows from earlier rows: the last change of a key counts. Return the later rows.

    Rows that have several uses are evaluated once: keys could be in one evaluation, and not in another.
    """
    names = [n for n in columns if n in _IDENTIFYING]
    changed = [i for i, earlier in enumerate(draft.changes.state_rows) if set(earlier.columns) & set(states)]
    if changed:
        rows = rows.once()
    for i in changed:
        earlier = draft.changes.state_rows[i]
        name, earlier_columns = next(iter(earlier.columns.items()))  # several states are new, and share the key
        if earlier.replaces and MAP_KEY in columns and MAP_KEY not in earlier_columns:  # some entries of whole maps change
            whole = only_keys(earlier_columns, (KEY, *NAMESPACES))
            earlier = replace(earlier, rows=earlier.rows.once())
            draft.changes.deletions.append(Deletion(earlier.rows, whole, name, names=earlier.names.get(name, {})))
            entries, earlier_columns = explode_map(earlier.rows, earlier_columns)
            earlier = StateRows(entries, {name: earlier_columns}, "entries", earlier.names)
        shared = [n for n in names if n in earlier_columns]
        remaining = earlier.rows.without([earlier_columns[n] for n in shared], rows, [columns[n] for n in shared])
        draft.changes.state_rows[i] = replace(earlier, rows=remaining)
    return rows


def _check_types(draft: OperatorDraft, state: KeyedDescription, schema: pa.Schema, columns: Mapping[str, str]) -> None:
    """Refuse columns whose types do not fit a keyed state.

    ``state``: the state that is written from the rows. ``schema``: the columns of the rows. ``columns``: the columns of the rows
    by the encoder's names.
    """
    require(schema.names, columns.values())
    rows = pa.schema([(name, schema.field(column).type) for name, column in columns.items()])
    label = f"state {state.name!r}"
    with naming(label), third_party_errors(label, parts=state.serializers.values()):
        compile_entries(for_flink(state, draft.flink_major), rows, draft.max_parallelism, EncodeOptions(), columns)
