"""The representation of decoded values: its options, and types of columns with what they declare."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from state_processor.support.arrow_types import holds, inner_types, with_inner_types
from state_processor.support.doors import spelled
from state_processor.support.errors import OptionError

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
    return any(map(can_have_nanos, inner_types(type_)))


def plain(type_: pa.DataType) -> pa.DataType:
    """Return a type of columns without descriptions, at any depth."""
    if isinstance(type_, ColumnType):
        return type_.arrow
    return with_inner_types(type_, plain) if holds(type_, _is_described) else type_


def _is_described(type_: pa.DataType) -> bool:
    return isinstance(type_, ColumnType)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema without descriptions."""
    return pa.schema([f.with_type(plain(f.type)) for f in schema])


def optional_field(name: str, type_: pa.DataType, groups: Iterable[str]) -> pa.Field:
    """Return a field that a struct may lack. A struct that has it must have all fields of one of its groups, such as a class."""
    return pa.field(name, type_, metadata={_OPTIONAL: "\0".join(groups).encode()})


def optional_groups(type_: pa.StructType) -> dict[str, list[str]]:
    """Return the groups of the optional fields of a struct."""
    groups = {}
    for field in type_:
        if field.metadata is not None and _OPTIONAL in field.metadata:
            groups[field.name] = field.metadata[_OPTIONAL].decode().split("\0")
    return groups


Nanos = Literal["error", "check", "truncate", "string"]

BATCH_MEMORY: Final = 256 << 20
"""Bytes that the columns of one batch may take by default."""

_MODES: dict[str, int] = {"error": 0, "check": 0, "string": 1, "truncate": 2}


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """Representation of values.

    Parameters
    ----------
    nanos
        Treatment of times with nanoseconds that microseconds can't hold: ``error`` or ``check`` (they differ when a read is
        planned), ``truncate``, or ``string`` (dates and points in time become ISO text with all their digits).
    row_kind
        Whether ``Row`` and ``RowData`` get a first field ``row_kind``.
    ttl
        Whether a value with TTL becomes ``struct<_last_access, value>``; without, its timestamp is dropped.
    describe
        Whether types of columns contain :class:`ColumnType`: a reader has to know what
        declares nanoseconds, a writer the domains of texts, and which fields a struct may lack. Values are not decoded with it.
    batch_memory
        Bytes that the columns of one batch may take while they are decoded. A row that needs more is refused: damaged or
        hostile snapshots can describe values of any size.
    """

    nanos: Nanos = "check"
    row_kind: bool = False
    ttl: bool = False
    describe: Literal["", "for_reading", "for_writing"] = ""
    batch_memory: int = BATCH_MEMORY

    def __post_init__(self) -> None:
        if self.nanos not in _MODES:
            raise OptionError(f"{spelled('nanos', self.nanos)}: expected one of {', '.join(map(repr, _MODES))}")

    @property
    def time_mode(self) -> int:
        """Operand ``a`` of the kernel's date and time instructions."""
        return _MODES[self.nanos]

    def column_type(
        self,
        arrow: pa.DataType,
        domain: Domain | None = None,
        *,
        declares_nanos: bool = False,
        can_have_nanos: bool = False,
    ) -> pa.DataType | ColumnType:
        """Return the type of a column, with what :attr:`describe` demands; parameters as for ``ColumnType``."""
        domain = domain if self.describe == "for_writing" else None
        can_have_nanos = (can_have_nanos or declares_nanos) and self.describe == "for_reading"
        if domain is None and not can_have_nanos:
            return arrow
        return ColumnType(arrow, domain, declares_nanos and can_have_nanos, can_have_nanos)

    @property
    def as_text(self) -> bool:
        """Whether dates and points in time become text."""
        return self.nanos == "string"


WIDEST: Final = DecodeOptions(row_kind=True, describe="for_writing")
"""How columns to write are typed: with the kinds of rows, and with descriptions of types and of optional fields."""
