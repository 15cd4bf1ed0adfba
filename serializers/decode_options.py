"""Options of how decoded values are represented as columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import OptionError

Nanos = Literal["error", "check", "truncate", "string"]

WHOLE: Final = pa.decimal256(76, 0)
"""Marks the text of a whole number of any size, with :attr:`DecodeOptions.tell_numbers`."""
NUMBER: Final = pa.decimal256(76, 76)
"""The same for a number of any size and scale."""

_OPTIONAL: Final = b"optional"

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
    tell_numbers
        Whether columns of big numbers get the types :data:`WHOLE` and :data:`NUMBER` instead of text. The writer uses these
        types to find the text columns that may be made from numbers.
    tell_nanos
        Whether columns of types that declare nanoseconds get the unit ``ns``. The planning of a read uses this unit.
    tell_optional
        Whether fields that a struct may lack, such as fields of subclasses, are marked (:func:`optional_field`).
    batch_memory
        Bytes that the columns of one batch may take while they are decoded. A row that needs more is refused: damaged or
        hostile snapshots can describe values of any size.
    """

    nanos: Nanos = "error"
    row_kind: bool = False
    ttl: bool = False
    tell_numbers: bool = False
    tell_nanos: bool = False
    tell_optional: bool = False
    batch_memory: int = BATCH_MEMORY

    def __post_init__(self) -> None:
        if self.nanos not in _MODES:
            raise OptionError(f"{spelled('nanos', self.nanos)}: expected one of {', '.join(map(repr, _MODES))}")

    @property
    def time_mode(self) -> int:
        """Operand ``a`` of the kernel's date and time instructions."""
        return _MODES[self.nanos]

    def time_unit(self, *, declares_nanos: bool) -> str:
        """Return the unit of columns of points in time."""
        return "ns" if self.tell_nanos and declares_nanos else "us"

    @property
    def as_text(self) -> bool:
        """Whether dates and points in time become text."""
        return self.nanos == "string"


WIDEST: Final = DecodeOptions(row_kind=True, tell_numbers=True, tell_optional=True)
"""How columns to write are typed: with the kinds of rows, and with marks for numbers of any size and for optional fields."""


def optional_field(name: str, type_: pa.DataType, groups: Iterable[str]) -> pa.Field:
    """Return a field that a struct may lack. A struct that has it must have all fields of one of its groups, such as a class."""
    return pa.field(name, type_, metadata={_OPTIONAL: "\0".join(groups).encode()})


def optional_groups(type_: pa.StructType) -> dict[str, list[str]]:
    """Return the groups of the optional fields of a struct."""
    marks = {f.name: f.metadata[_OPTIONAL] for f in type_ if f.metadata is not None and _OPTIONAL in f.metadata}
    return {name: mark.decode().split("\0") for name, mark in marks.items()}
