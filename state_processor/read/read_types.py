"""Types of states in the metadata of columns: rows of a snapshot are written in the types that they were read with.

The metadata is data: the bytes of serializer snapshots, the kind and the name of the state. Tables of Arrow, files of Parquet and
Arrow, and DataFrames of Spark keep it.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.formats.entry_layouts import KEY, NAMESPACE, VALUE
from state_processor.backends.formats.row_shapes import WINDOW
from state_processor.backends.read.option import Kind
from state_processor.backends.read.state_access import StatesToRead
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.descriptions import TIMERS, KeyedDescription, MapDescription, StateDescription
from state_processor.backends.state.python_states import is_python_state
from state_processor.read.scans import StateScan
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.rows import RowSerializer
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.errors import CorruptSnapshotError, NotFoundError, UnsupportedFormatError
from state_processor.serializers.evolution.portable_type import PortableType
from state_processor.serializers.merge_snapshots import merged
from state_processor.serializers.traversal import walk
from state_processor.types.state_specs import StateSpec, spec_of, whole_type

METADATA: Final = b"flink"
"""Key of the metadata of a column."""


@dataclass(frozen=True, slots=True)
class ReadType:
    """The type of a column of rows that were read.

    Parameters
    ----------
    type
        The type of its values, without time-to-live. A column of whole lists or maps has the type of the list or map.
    state, kind
        Name and kind of the state; empty for the columns of keys and namespaces.
    has_ttl
        Whether the state has time-to-live.
    elements
        Whether each row has an element of a list, or an entry of a map.
    left_out
        Names of the operator's timers and window states, which rows of all keyed states do not have.
    """

    type: TypeSerializer
    state: str = ""
    kind: str = ""
    has_ttl: bool = False
    elements: bool = False
    left_out: tuple[str, ...] = ()

    def on(self, column: pa.Field) -> pa.Field:
        """Return the column with this type in its metadata."""
        rows = PortableType.of(self.type) if _has_rows(self.type) else PortableType(self.type.snapshot().to_bytes())
        content = {
            "type": b64encode(rows.snapshot).decode(),
            "rows": rows.rows,
            "state": self.state,
            "kind": self.kind,
            "ttl": self.has_ttl,
            "elements": self.elements,
            "left_out": self.left_out,
        }
        return column.with_metadata({**(column.metadata or {}), METADATA: json.dumps(content).encode()})


class OperatorTypes(dict[str, StateSpec]):
    """The types of the keyed states of an operator, by name: ``states`` of ``with_keyed_state``.

    Parameters
    ----------
    states
        The states by name.
    key
        The type of the keys: ``key_type`` of ``with_keyed_state``.
    """

    def __init__(self, states: Mapping[str, StateSpec], key: TypeSerializer) -> None:
        super().__init__(states)
        self.key = key

    @classmethod
    def of(cls, stored: StoredOperator) -> OperatorTypes:
        """Return the types of an operator; for errors see :meth:`~state_processor.SavepointReader.types`."""
        described = [merged_description(variants) for variants in stored.states().values()]
        keyed = [state for state in described if isinstance(state, KeyedDescription)]
        if not keyed:
            raise NotFoundError(f"{stored.label} does not have keyed state")
        if any(is_python_state(state.name) for state in keyed):
            raise UnsupportedFormatError(
                f"{stored.label} has states of PyFlink, whose types savepoints do not contain; copy_operator copies them"
            )
        states = (state for state in keyed if not state.is_timer)
        specs = {s.name: spec_of(s.name, s.kind, whole_type(s), s.namespace, has_ttl=s.has_ttl) for s in states}
        return cls(specs, keyed[0].key)


def read_type(column: pa.Field) -> ReadType | None:
    """Return the type that a column was read with; ``None`` if it was not read from a snapshot.

    Raises
    ------
    CorruptSnapshotError
        If the metadata of the column is damaged.
    """
    stored = (column.metadata or {}).get(METADATA)
    if stored is None:
        return None
    try:
        content = json.loads(stored)
        portable = PortableType(b64decode(content["type"], validate=True), _tuples(content["rows"]))
        facts = (str(content["state"]), str(content["kind"]), bool(content["ttl"]), bool(content["elements"]))
        left_out = tuple(map(str, content["left_out"]))
    except (ValueError, KeyError, TypeError) as problem:
        raise CorruptSnapshotError(f"column {column.name!r}: its metadata {METADATA.decode()!r} is damaged: {problem}") from None
    return ReadType(portable.restore(), *facts, left_out)


def with_read_types(schema: pa.Schema, states: StatesToRead) -> pa.Schema:
    """Return the columns of a read with their types in their metadata.

    Columns of raw state have none, and of states whose types the savepoint does not contain: of PyFlink, and maps of Flink 2.0.
    """
    described = {name: merged_description(variants) for name, variants in states.variants.items()}
    if not described or any(map(is_python_state, described)) or any(map(_lacks_type, described.values())):
        return schema
    if states.kind is Kind.WHOLE:
        types = {name: _of_value(state) for name, state in described.items() if isinstance(state, KeyedDescription)}
        left_out = tuple(name for name in states.stored.survey()[0] if name not in described)
    else:
        (state, *_) = described.values()
        types, left_out = _by_column(state), ()
    keys = [state.key for state in described.values() if isinstance(state, KeyedDescription)]
    if keys:
        types[KEY] = ReadType(keys[0], left_out=left_out)
    return pa.schema([types[f.name].on(f) if f.name in types else f for f in schema], metadata=schema.metadata)


def typed_schema(scan: StateScan) -> pa.Schema:
    """Return the columns of a scan with their types, unless the scan converts the state to other types."""
    if scan.source.read.types:
        return scan.schema
    states = StatesToRead.find(scan.stored, scan.source.state, scan.source.kind)
    return with_read_types(scan.schema, states)


def with_metadata_of(schema: pa.Schema, given: pa.Schema) -> pa.Schema:
    """Return a schema with the types that the columns of the same names have in another schema."""
    types = {f.name: f.metadata[METADATA] for f in given if f.metadata and METADATA in f.metadata}
    return pa.schema([f.with_metadata({**(f.metadata or {}), METADATA: types[f.name]}) if f.name in types else f for f in schema])


def merged_description(variants: Sequence[StateDescription]) -> StateDescription:
    """Return the description of a state that fits all subtasks, which know different subclasses of a POJO."""
    return reduce(_merged, variants)


def _merged(one: StateDescription, other: StateDescription) -> StateDescription:
    found = {}
    for role in one.serializers.keys() & other.serializers.keys():
        snapshot = merged(one.serializers[role].snapshot(), other.serializers[role].snapshot())
        if snapshot is not None:
            found[role] = snapshot.restore_serializer()
    return one.with_serializers(**found)


def _by_column(state: StateDescription) -> dict[str, ReadType]:
    """Return the types of the columns of a single state."""
    if isinstance(state, KeyedDescription):
        types = {name: ReadType(state.namespace) for name in (NAMESPACE, WINDOW)}
        if state.kind in TIMERS:
            return types
        whole, types[VALUE] = state.COLUMNS, _of_value(state)
        elements = {role: name for name, role in whole.items() if name not in (KEY, VALUE)}
        if "value" in elements:
            types[elements["value"]] = ReadType(types[VALUE].type, state.name, state.kind, state.has_ttl, elements=True)
        return types
    of_columns = {name: getattr(state, role) for name, role in state.COLUMNS.items()}
    return {name: ReadType(type_, state.name, state.kind) for name, type_ in of_columns.items()}


def _lacks_type(state: StateDescription) -> bool:
    """Return whether the savepoint does not have the type of a map's keys: with the asynchronous API of Flink 2.0."""
    return isinstance(state, MapDescription) and state.map_key is None


def _of_value(state: KeyedDescription) -> ReadType:
    return ReadType(whole_type(state), state.name, state.kind, state.has_ttl)


def _has_rows(serializer: TypeSerializer) -> bool:
    """Return whether a type has rows; the module of rows of SQL is not imported if none was read."""
    parts = list(walk(serializer))
    return any(isinstance(p, RowSerializer | TupleSerializer) or type(p).__module__.endswith(".rowdata") for p in parts)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
