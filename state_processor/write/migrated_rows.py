"""Entries of a state of a query, converted for another query: rows with other fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from state_processor.backends.formats.row_shapes import LAST_ACCESS
from state_processor.backends.sql import row_changes
from state_processor.backends.sql.row_changes import NewField, RowChange, ViewChange
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, MAP_VALUE, NAMESPACES, VALUE
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.core.rows import ROW_KIND_FIELD
from state_processor.serializers.core.tuples import TupleSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.late import pc
from state_processor.serializers.runtime.ttl import TtlSerializer
from state_processor.serializers.table.operator_records import Node, NodeSerializer
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.write.arrow_keys import key_numbers
from state_processor.write.query_migration import MigratedState
from state_processor.write.row_protocol import Rows

OPTIONS: Final = DecodeOptions(nanos="string", row_kind=True)
"""How rows are read: so that nothing of them is lost."""

_PARTS: Final[Mapping[str, str]] = {MAP_KEY: row_changes.MAP_KEY, MAP_VALUE: row_changes.VALUE, VALUE: row_changes.VALUE}
"""The parts of a state that have rows, by column."""


def migrated_entries(state: MigratedState, rows: Rows) -> Rows:
    """Return the entries of a state, as reading gives them, in its new form.

    ``state``: what changes. ``rows``: the entries, one in each row.
    """
    changed = rows.on_batches(partial(_changed_table, state))
    return changed.by_key((KEY, MAP_KEY), _merged, combines=True) if state.change.merges else changed


def _changed_table(state: MigratedState, rows: pa.Table) -> pa.Table:
    batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
    return pa.Table.from_batches([_changed_batch(state, batch) for batch in batches])


def _without_ttl(serializer: TypeSerializer) -> TypeSerializer:
    """Return the type of values without time-to-live."""
    return serializer.value if isinstance(serializer, TtlSerializer) else serializer


def _changed_batch(state: MigratedState, rows: pa.RecordBatch) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {name: rows.column(name) for name in (KEY, *NAMESPACES) if name in rows.schema.names}
    if state.change.successor is not None:
        for name, of in state.change.successor.columns.items():
            columns[name] = rows.column(of) if isinstance(of, str) else pa.repeat(of, len(rows))
    else:
        for name in (name for name in _PARTS if name in rows.schema.names):
            part, column = _PARTS[name], rows.column(name)
            change = state.change.rows.get(part)
            if change is not None:
                old, new = _without_ttl(state.old.serializers[part]), _without_ttl(state.new.serializers[part])
                column = _changed(column, old, change, new)
            if part == row_changes.VALUE and state.change.counted is not None:
                column = _counted(column, state.change.counted)
            columns[name] = column
    if LAST_ACCESS in rows.schema.names and state.change.ttl is not False:
        columns[LAST_ACCESS] = rows.column(LAST_ACCESS)
    batch = pa.RecordBatch.from_pydict(columns)
    return batch if state.change.counted is None else batch.filter(_is_counted(batch.column(_value_column(batch.schema.names))))


def _value_column(names: Sequence[str]) -> str:
    """Return the column with the value of an entry."""
    return MAP_VALUE if MAP_VALUE in names else VALUE


def _counted(numbers: pa.Array, change: ViewChange) -> pa.Array:
    """Return the numbers that the calls in the new plan have for values."""
    if change.as_bits:
        bits = np.asarray(numbers).view(np.uint64)
        masks = np.zeros_like(bits)
        for bit, source in enumerate(change.calls):
            if source is not None:
                masks |= (bits >> np.uint64(source) & np.uint64(1)) << np.uint64(bit)
        return pa.array(masks.view(np.int64), numbers.type)
    if change.size == 1:
        return numbers
    columns = [pc.list_element(numbers, source) for source in change.calls if source is not None]
    if len(columns) == 1:
        return columns[0]
    whole = np.column_stack(list(map(np.asarray, columns))).ravel()
    ends = pa.array(np.arange(0, len(whole) + 1, len(columns)), pa.int32())
    return pa.ListArray.from_arrays(ends, pa.array(whole, numbers.type.value_type)).cast(numbers.type)


def _is_counted(numbers: pa.Array) -> pa.Array:
    """Return whether a call has counted a value."""
    if pa.types.is_list(numbers.type):
        calls = len(numbers.flatten()) // max(len(numbers), 1)
        return pa.array(np.asarray(numbers.flatten()).reshape(len(numbers), calls).any(axis=1))
    return pc.not_equal(numbers, 0)


def _changed(values: pa.Array, old: TypeSerializer, change: RowChange, new: TypeSerializer) -> pa.Array:
    """Return values with another row."""
    match old, new:
        case RowDataSerializer(), RowDataSerializer():
            names = old.slot.type.names
            fields = {ROW_KIND_FIELD: pc.struct_field(values, ROW_KIND_FIELD)}
            for field, slot_field in zip(change.fields, new.slot.type.fields, strict=True):
                fields[slot_field.name] = _field(values, field, names, slot_field.type.arrow_type(OPTIONS))
            return _struct(fields, values)
        case TupleSerializer(), TupleSerializer():
            parts = zip(old.fields, new.fields, strict=True)
            return _struct(
                {f"f{i}": _changed(pc.struct_field(values, f"f{i}"), a, change, b) for i, (a, b) in enumerate(parts)}, values
            )
        case NodeSerializer(), NodeSerializer():
            row = _changed(pc.struct_field(values, "row"), old.nested[0], change, new.nested[0])
            node_fields = {name: pc.struct_field(values, name) for name in Node._fields if name != "row"}
            return _struct({"row": row, **node_fields}, values)
        case ListSerializer(), ListSerializer():
            elements = _changed(values.flatten(), old.element, change, new.element)
            ends = np.cumsum(np.asarray(pc.list_value_length(values).fill_null(0)), dtype=np.int32)
            missing = np.append(np.asarray(values.is_null()), False)
            return pa.ListArray.from_arrays(pa.array(np.insert(ends, 0, 0), pa.int32(), mask=missing), elements)
        case _:
            return values


def _struct(fields: Mapping[str, pa.Array], values: pa.Array) -> pa.StructArray:
    """Return fields as structs. A struct is null where the value is null."""
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields), mask=values.is_null())


def _field(values: pa.Array, field: NewField, names: tuple[str, ...], type_: pa.DataType) -> pa.Array:
    if field.source is None:
        return pa.repeat(pa.scalar(field.start, type_), len(values))
    return pc.struct_field(values, names[field.source]).cast(type_)


def _merged(rows: pa.Table) -> pa.Table:
    """Return rows that have become the same as one, with the number of all copies; each belongs to as many rows as before."""
    numbers = key_numbers([rows.column(KEY), rows.column(MAP_KEY)])
    _, firsts = np.unique(numbers, return_index=True)
    copies = rows.column(MAP_VALUE)
    counted: dict[str, Any] = {"number": numbers}
    totals = {"copies": "sum"}
    if pa.types.is_struct(copies.type):
        counted |= {"copies": pc.struct_field(copies, "f0"), "associations": pc.struct_field(copies, "f1")}
        totals["associations"] = "max"
    else:
        counted["copies"] = copies
    schema = rows.schema
    if LAST_ACCESS in schema.names:
        counted[LAST_ACCESS] = rows.column(LAST_ACCESS)
        totals[LAST_ACCESS] = "max"
    groups = pa.table(counted).group_by("number").aggregate(list(totals.items())).sort_by("number")
    combined = {name: groups.column(f"{name}_{how}").combine_chunks() for name, how in totals.items()}
    combined["copies"] = combined["copies"].cast(pa.int32())
    value = combined["copies"]
    if "associations" in combined:
        value = pa.StructArray.from_arrays([value, combined["associations"]], names=["f0", "f1"])
    columns = dict(zip(schema.names, rows.take(pa.array(firsts)).columns, strict=True))
    columns[MAP_VALUE] = pa.chunked_array([value]).cast(schema.field(MAP_VALUE).type)
    if LAST_ACCESS in combined:
        columns[LAST_ACCESS] = pa.chunked_array([combined[LAST_ACCESS]])
    return pa.table(columns, schema)
