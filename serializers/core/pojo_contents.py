"""Nulls and subclasses in columns of POJOs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from state_processor.serializers.codec import Codec
from state_processor.serializers.core.basic import CharSerializer, NumberSerializer
from state_processor.serializers.core.pojo import PojoCodec
from state_processor.serializers.core.pojo_columns import CLASS_FIELD
from state_processor.serializers.traversal import walk
from state_processor.support.late import pc


@dataclass
class PojoContents:
    """What columns of POJOs contain."""

    # the number of nulls in fields that a class may declare as primitive, by class and field
    nulls: Counter[tuple[str, str]] = field(default_factory=Counter)
    subclasses: Counter[tuple[str, str]] = field(default_factory=Counter)  # the number of values by class and subclass
    unscanned: set[str] = field(default_factory=set)  # types with POJOs inside whose columns have another form

    def scan(self, type_: Codec, column: pa.Array) -> None:
        """Add the content of a column."""
        if isinstance(column, pa.ChunkedArray):
            for chunk in column.chunks:
                self.scan(type_, chunk)
            return
        if not any(isinstance(part, PojoCodec) for part in walk(type_)):
            return
        column = column.drop_null()
        if isinstance(type_, PojoCodec) and _is_pojo_column(type_, column.type):
            self._scan_pojo(type_, column)
            return
        parts = _parts(column)
        children = type_.children
        if parts and len(parts) == len(children):
            for child, part in zip(children, parts, strict=True):
                self.scan(child, part)
        elif len(children) == 1 and not isinstance(type_, PojoCodec):  # a wrapper, such as Nullable
            self.scan(children[0], column)
        else:
            self.unscanned.add(str(type_))

    def _scan_pojo(self, pojo: PojoCodec[Any], column: pa.StructArray) -> None:
        classes = column.field(CLASS_FIELD) if pojo.has_subclasses else None
        for name, fields, places in pojo.class_columns:
            rows = column if classes is None else column.filter(pc.equal(classes, name))
            if name != pojo.class_name and len(rows):
                self.subclasses[pojo.class_name, name] += len(rows)
            for pojo_field in fields:
                values = rows.field(places.get(pojo_field.name, pojo_field.name))
                if type(pojo_field.serializer) in (NumberSerializer, CharSerializer):
                    if values.null_count:
                        self.nulls[name, pojo_field.name] += values.null_count
                else:
                    self.scan(pojo_field.serializer, values)


def _is_pojo_column(pojo: PojoCodec[Any], kind: pa.DataType) -> bool:
    """Return whether a column has the fields of a POJO: values inside of others, such as partial matches, have other columns."""
    if not pa.types.is_struct(kind):
        return False
    names = {places.get(field.name, field.name) for _, fields, places in pojo.class_columns for field in fields}
    return names <= {kind.field(number).name for number in range(kind.num_fields)}


def _parts(column: pa.Array) -> list[pa.Array]:
    """Return the arrays inside a column: fields of structs, elements of lists, keys and values of maps."""
    kind = column.type
    if pa.types.is_struct(kind):
        return list(column.flatten())
    if pa.types.is_map(kind):
        entries = pa.ListArray.from_arrays(column.offsets, pa.StructArray.from_arrays([column.keys, column.items], ["k", "v"]))
        return list(entries.flatten().flatten())
    return [column.flatten()] if pa.types.is_list(kind) or pa.types.is_large_list(kind) else []
