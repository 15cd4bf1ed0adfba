"""Types of columns, with facts that Arrow types do not express."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import pyarrow as pa

Domain = Literal["whole", "number"]
"""Values that are not all values of the Arrow type: texts of whole numbers of any size, or of numbers of any size and scale."""

SPARK_NAMES: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.null(): "void",
}
"""Names of Arrow's types without parameters in Spark SQL."""

_OPTIONAL: Final = b"optional"


class ColumnType(pa.ExtensionType):  # type: ignore[misc]
    """A type inside the description of a column; :func:`plain` returns the type without descriptions.

    ``arrow``: the type of the values. ``domain``: the values, if they are not all values of ``arrow``. ``declares_nanos``:
    whether the type of the values has nanoseconds. The microseconds of ``arrow`` may not hold them. ``can_have_nanos``: whether
    values can have nanoseconds, also if the type does not declare them.
    """

    def __init__(
        self, arrow: pa.DataType, domain: Domain | None = None, declares_nanos: bool = False, can_have_nanos: bool = False
    ) -> None:
        self.arrow, self.domain = arrow, domain
        self.declares_nanos, self.can_have_nanos = declares_nanos, can_have_nanos or declares_nanos
        super().__init__(arrow, "state_processor.column_type")

    def __arrow_ext_serialize__(self) -> bytes:
        return f"{self.domain or ''},{int(self.declares_nanos)},{int(self.can_have_nanos)}".encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, arrow: pa.DataType, serialized: bytes) -> ColumnType:
        domain, declares, can_have = serialized.decode().split(",")
        return cls(arrow, domain or None, declares == "1", can_have == "1")  # type: ignore[arg-type]


def can_have_nanos(type_: pa.DataType) -> bool:
    """Return whether values of a described type, at any depth, can have nanoseconds."""
    if isinstance(type_, ColumnType):
        return type_.can_have_nanos
    return any(can_have_nanos(type_.field(i).type) for i in range(type_.num_fields))


def plain(type_: pa.DataType) -> pa.DataType:
    """Return a type of columns without descriptions, at any depth."""
    if isinstance(type_, ColumnType):
        return type_.arrow
    if not _is_described(type_):
        return type_
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(plain(f.type)) for f in type_])
    if pa.types.is_map(type_):
        return pa.map_(plain(type_.key_type), plain(type_.item_type))
    return pa.list_(plain(type_.value_type))


def _is_described(type_: pa.DataType) -> bool:
    return isinstance(type_, ColumnType) or any(_is_described(type_.field(i).type) for i in range(type_.num_fields))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema without descriptions."""
    return pa.schema([f.with_type(plain(f.type)) for f in schema])


def optional_field(name: str, type_: pa.DataType, groups: Iterable[str]) -> pa.Field:
    """Return a field that a struct may lack. A struct that has it must have all fields of one of its groups, such as a class."""
    return pa.field(name, type_, metadata={_OPTIONAL: "\0".join(groups).encode()})


def optional_groups(type_: pa.StructType) -> dict[str, list[str]]:
    """Return the groups of the optional fields of a struct."""
    marks = {f.name: f.metadata[_OPTIONAL] for f in type_ if f.metadata is not None and _OPTIONAL in f.metadata}
    return {name: mark.decode().split("\0") for name, mark in marks.items()}
