"""The types of Flink SQL (``org.apache.flink.table.types.logical``), as in snapshots of the table serializers.

``str`` of a type is its summary in Flink SQL: ``DECIMAL(10, 2) NOT NULL``, ``ROW<`a` INT>``. Two types are equal if
Flink's types are equal; time attributes equal other timestamps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

import pyarrow as pa

from state_processor.serializers.decode_options import DecodeOptions
from state_processor.support.errors import UnsupportedFormatError

PACKAGE: Final = "org.apache.flink.table.types.logical."
MAX_LENGTH: Final = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class LogicalType(ABC):
    """A type of Flink SQL (Flink: ``LogicalType``)."""

    nullable: bool = True

    @property
    @abstractmethod
    def summary(self) -> str:
        """The type in SQL, without its nullability."""

    @abstractmethod
    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return the Arrow type of a column of this type."""

    def __str__(self) -> str:
        return self.summary if self.nullable else f"{self.summary} NOT NULL"


_MICROS: Final = 6
"""Digits of a second in microseconds."""


_ATOMIC: Final = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "NULL": pa.null(),
    "VARIANT": pa.struct([("value", pa.binary()), ("metadata", pa.binary())]),
    "BITMAP": pa.binary(),
}
"""The types of columns of types without parameters."""


@dataclass(frozen=True)
class AtomicType(LogicalType):
    """A type without parameters, by its name in SQL."""

    name: str

    @property
    def summary(self) -> str:
        return self.name

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return _ATOMIC[self.name]


@dataclass(frozen=True)
class DateType(LogicalType):
    """A day (Flink: ``DateType``)."""

    @property
    def summary(self) -> str:
        return "DATE"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string() if options.as_text else pa.date32()


@dataclass(frozen=True)
class TimeType(LogicalType):
    """A time of day; always in milliseconds, with any precision (Flink: ``TimeType``)."""

    precision: int = 0

    @property
    def summary(self) -> str:
        return f"TIME({self.precision})"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()


@dataclass(frozen=True)
class TextType(LogicalType):
    """``CHAR`` or ``VARCHAR``; ``STRING`` is the longest of them (Flink: ``CharType``, ``VarCharType``)."""

    name: str = "VARCHAR"
    length: int = MAX_LENGTH

    @property
    def summary(self) -> str:
        return "STRING" if (self.name, self.length) == ("VARCHAR", MAX_LENGTH) else f"{self.name}({self.length})"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()


@dataclass(frozen=True)
class BytesType(LogicalType):
    """``BINARY`` or ``VARBINARY``; ``BYTES`` is the longest of them (Flink: ``BinaryType``, ``VarBinaryType``)."""

    name: str = "VARBINARY"
    length: int = MAX_LENGTH

    @property
    def summary(self) -> str:
        return "BYTES" if (self.name, self.length) == ("VARBINARY", MAX_LENGTH) else f"{self.name}({self.length})"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()


@dataclass(frozen=True)
class DecimalType(LogicalType):
    """A decimal number of at most 38 digits (Flink: ``DecimalType``)."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not (1 <= self.precision <= 38 and 0 <= self.scale <= self.precision):
            raise UnsupportedFormatError(f"{self.summary} is not a type of Flink SQL: precision 1 to 38, scale up to precision")

    @property
    def is_compact(self) -> bool:
        """Whether values fit a long."""
        return self.precision <= 18

    @property
    def summary(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)


@dataclass(frozen=True)
class TimestampType(LogicalType):
    """A date and time without a zone, or a point in time (Flink: ``TimestampType``, ``LocalZonedTimestampType``).

    ``kind`` is ``REGULAR``, or ``ROWTIME`` or ``PROCTIME`` for time attributes.
    """

    precision: int = 6
    local_zoned: bool = False
    kind: str = field(default="REGULAR", compare=False)

    @property
    def is_compact(self) -> bool:
        """Whether values are milliseconds alone."""
        return self.precision <= 3

    @property
    def summary(self) -> str:
        attribute = "" if self.kind == "REGULAR" else f" *{self.kind}*"
        return f"TIMESTAMP{'_LTZ' if self.local_zoned else ''}({self.precision}){attribute}"

    def __str__(self) -> str:
        # Flink puts the marker of a time attribute last.
        text, _, mark = self.summary.partition(" ")
        return " ".join(part for part in (text, "" if self.nullable else "NOT NULL", mark) if part)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        if options.as_text:
            return pa.string()
        arrow = pa.timestamp("us", tz="UTC" if self.local_zoned else None)
        return options.column_type(arrow, declares_nanos=self.precision > _MICROS)


_INTERVALS: Final = {
    "YEAR": "INTERVAL YEAR({0})",
    "YEAR_TO_MONTH": "INTERVAL YEAR({0}) TO MONTH",
    "MONTH": "INTERVAL MONTH",
    "DAY": "INTERVAL DAY({0})",
    "DAY_TO_HOUR": "INTERVAL DAY({0}) TO HOUR",
    "DAY_TO_MINUTE": "INTERVAL DAY({0}) TO MINUTE",
    "DAY_TO_SECOND": "INTERVAL DAY({0}) TO SECOND({1})",
    "HOUR": "INTERVAL HOUR",
    "HOUR_TO_MINUTE": "INTERVAL HOUR TO MINUTE",
    "HOUR_TO_SECOND": "INTERVAL HOUR TO SECOND({1})",
    "MINUTE": "INTERVAL MINUTE",
    "MINUTE_TO_SECOND": "INTERVAL MINUTE TO SECOND({1})",
    "SECOND": "INTERVAL SECOND({1})",
}


@dataclass(frozen=True)
class IntervalType(LogicalType):
    """An interval of months, stored as an int, or of milliseconds, stored as a long.

    Flink: ``YearMonthIntervalType``, ``DayTimeIntervalType``.
    ``precision`` is the precision of years or days, ``fraction`` the precision of seconds.
    """

    resolution: str
    precision: int = 2
    fraction: int = 6

    @property
    def in_months(self) -> bool:
        """Whether it counts months, not milliseconds."""
        return self.resolution in ("YEAR", "YEAR_TO_MONTH", "MONTH")

    @property
    def summary(self) -> str:
        return _INTERVALS[self.resolution].format(self.precision, self.fraction)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.int32() if self.in_months else pa.int64()


@dataclass(frozen=True)
class ArrayType(LogicalType):
    """An array (Flink: ``ArrayType``)."""

    element: LogicalType

    @property
    def summary(self) -> str:
        return f"ARRAY<{self.element}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.list_(self.element.arrow_type(options))


@dataclass(frozen=True)
class MapType(LogicalType):
    """A map (Flink: ``MapType``)."""

    key: LogicalType
    value: LogicalType

    @property
    def summary(self) -> str:
        return f"MAP<{self.key}, {self.value}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.map_(self.key.arrow_type(options), self.value.arrow_type(options))


@dataclass(frozen=True)
class MultisetType(LogicalType):
    """A bag: a map from element to number of occurrences (Flink: ``MultisetType``)."""

    element: LogicalType

    @property
    def as_map(self) -> MapType:
        """The map of elements and their numbers."""
        return MapType(self.element, AtomicType("INT", nullable=False), nullable=self.nullable)

    @property
    def summary(self) -> str:
        return f"MULTISET<{self.element}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.as_map.arrow_type(options)


@dataclass(frozen=True)
class RowField:
    """A field of a row or a structured type."""

    name: str
    type: LogicalType
    description: str | None = None

    def __str__(self) -> str:
        text = f"{escape(self.name)} {self.type}"
        return text if self.description is None else f"{text} '...'"


@dataclass(frozen=True)
class RowType(LogicalType):
    """A row (Flink: ``RowType``)."""

    fields: tuple[RowField, ...]

    @classmethod
    def of(cls, *types: LogicalType) -> RowType:
        """Return a row with fields named ``f0``, ``f1``, and so on."""
        return cls(tuple(RowField(f"f{i}", t) for i, t in enumerate(types)))

    def renamed(self, names: Sequence[str]) -> Self:
        """Return the row with other names of its fields."""
        return replace(self, fields=tuple(replace(f, name=name) for f, name in zip(self.fields, names, strict=True)))

    @property
    def types(self) -> tuple[LogicalType, ...]:
        """The fields' types."""
        return tuple(f.type for f in self.fields)

    @property
    def summary(self) -> str:
        return f"ROW<{', '.join(map(str, self.fields))}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        kind = [pa.field("row_kind", pa.string())] if options.row_kind else []
        fields = [pa.field(n, t.arrow_type(options)) for n, t in zip(self.names, self.types, strict=True)]
        return pa.struct(kind + fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The fields' names, made distinct, because a row of Flink can have two fields with the same name."""
        names: list[str] = []
        for position, f in enumerate(self.fields):
            name = f.name
            while name in names:
                name = f"{name}_{position}"
            names.append(name)
        return tuple(names)


@dataclass(frozen=True)
class StructuredType(RowType):
    """An object with named attributes, starting with the attributes of its supertype (Flink: ``StructuredType``)."""

    identifier: str = ""
    class_name: str = ""

    @property
    def summary(self) -> str:
        return self.identifier or f"*{self.class_name}*"


@dataclass(frozen=True)
class DistinctType(LogicalType):
    """Another name for a type (Flink: ``DistinctType``)."""

    identifier: str
    source: LogicalType

    @property
    def summary(self) -> str:
        return self.identifier

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.source.arrow_type(options)


@dataclass(frozen=True)
class RawType(LogicalType):
    """A Java class unknown to SQL: bytes of a serializer that only Java can interpret (Flink: ``RawType``)."""

    class_name: str

    @property
    def summary(self) -> str:
        return f"RAW('{self.class_name}', '...')"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()


MAP_VIEW: Final = RawType("org.apache.flink.table.api.dataview.MapView")
"""A map in the accumulator of an aggregate whose entries are a state (Flink: ``MapView``): one byte in place of it."""


@dataclass(frozen=True)
class LinkedListType(RawType):
    """A ``LinkedList`` whose elements have a known type (Flink: ``RawType`` with a ``LinkedListSerializer``).

    ``has_null_mask`` is ``None`` if it is unknown whether the bytes have a mask of nulls. The bytes are not decoded then.
    """

    element: LogicalType
    has_null_mask: bool | None = field(default=True, compare=False)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary() if self.has_null_mask is None else pa.list_(self.element.arrow_type(options))


def escape(name: str) -> str:
    """Quote a name as SQL does."""
    return "`" + name.replace("`", "``") + "`"


def without_name_and_alias(type_: LogicalType) -> LogicalType:
    """Return the type that stores values of ``type_``: the source of a distinct type, the map of a multiset."""
    while isinstance(type_, DistinctType):
        type_ = type_.source
    return type_.as_map if isinstance(type_, MultisetType) else type_
