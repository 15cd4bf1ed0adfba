"""Values of undescribed subclasses of a POJO, as bytes: if their end is known, they are not lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.pojo import PojoCodec
from state_processor.serializers.core.pojo_columns import CLASS_FIELD
from state_processor.serializers.core.pojo_entries import PojoValue
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.runtime.ttl import TtlSerializer
from state_processor.support.errors import InvalidRowError, UndescribedClassError

BYTES_FIELD: Final = "_bytes"
"""The field with the bytes of a value of an undescribed class; null for all others."""


class UndescribedClassesCodec(Codec):
    """Codec of a POJO that fills its part of an entry, so that a value of an undescribed class can be passed on as bytes.

    A column has the fields of the POJO, with ``_class`` first and ``_bytes`` last. A value of an undescribed class has these
    two, and null in all other fields. Values are decoded in Python, one by one.

    ``fills``: whether values fill their part of an entry. Elsewhere the end of a value of an undescribed class is unknown: an
    error.
    """

    child_names = ("",)

    min_size = 1

    def __init__(self, pojo: PojoCodec[Any], *, fills: bool = False) -> None:
        self.pojo = pojo
        self.fills = fills

    def as_remainder(self) -> UndescribedClassesCodec:
        """Return the same for values that fill their part."""
        return UndescribedClassesCodec(self.pojo, fills=True)

    def __str__(self) -> str:
        return str(self.pojo)

    @property
    def children(self) -> Sequence[Codec]:
        return (self.pojo,)

    def with_children(self, children: Sequence[Any]) -> Codec:
        (pojo,) = children
        return UndescribedClassesCodec(pojo, fills=self.fills)

    def read(self, source: DataInput) -> PojoValue | None:
        start = source.position
        try:
            return self.pojo.read(source)
        except UndescribedClassError as problem:
            if not self.fills:
                raise
            source.position = start
            class_name = problem.class_name if problem.start == start else self.pojo.class_name  # else it is a nested value
            return PojoValue(class_name, {BYTES_FIELD: source.read_bytes(source.remaining)})

    def write(self, value: PojoValue | None, target: DataOutput) -> None:
        if value is not None and BYTES_FIELD in value:
            target.write_bytes(value[BYTES_FIELD])
        else:
            self.pojo.write(value, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        fields = [f for f in self.pojo.arrow_type(options) if f.name != CLASS_FIELD]
        return pa.struct([pa.field(CLASS_FIELD, pa.string()), *fields, pa.field(BYTES_FIELD, pa.binary())])

    def to_column(self, value: PojoValue | None, options: DecodeOptions) -> dict[str, Any] | None:
        if value is None:
            return None
        columns_of_class = {CLASS_FIELD: value.class_name, BYTES_FIELD: value.get(BYTES_FIELD)}
        return columns_of_class if BYTES_FIELD in value else (self.pojo.to_column(value, options) or {}) | columns_of_class

    def from_column(self, value: Mapping[str, Any] | None) -> PojoValue | None:
        if value is None or isinstance(value, PojoValue):
            return value
        rest = {name: field for name, field in value.items() if name not in (CLASS_FIELD, BYTES_FIELD)}
        class_name, data = value.get(CLASS_FIELD), value.get(BYTES_FIELD)
        if data is None:
            class_column = {CLASS_FIELD: class_name} if class_name not in (None, self.pojo.class_name) else {}
            if class_column and not self.pojo.has_subclasses:
                raise InvalidRowError(
                    f"{CLASS_FIELD} is the undescribed class {class_name!r}: give the value in {BYTES_FIELD}, as it was read"
                )
            return self.pojo.from_column(rest | class_column)
        named = next((name for name, field in rest.items() if field is not None), None)
        if named is not None:
            raise InvalidRowError(
                f"the field {named!r} of a value with {BYTES_FIELD}, but the bytes are the whole value: leave one of the two null"
            )
        return PojoValue(str(class_name), {BYTES_FIELD: bytes(data)})


def with_undescribed_classes(type_: TypeSerializer) -> Codec:
    """Return the codec of a value that fills its part of an entry, with bytes for undescribed classes if it is a POJO."""
    if isinstance(type_, TtlSerializer) and isinstance(type_.value, PojoCodec):
        return type_.with_children((type_.nested[0], UndescribedClassesCodec(type_.value)))
    return UndescribedClassesCodec(type_) if isinstance(type_, PojoCodec) else type_
