"""Options of how decoded values are represented as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from state_processor.serializers.column_type import ColumnType, Domain
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import OptionError

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
        Whether types of columns contain :class:`~state_processor.serializers.column_type.ColumnType`: a reader has to know what
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
