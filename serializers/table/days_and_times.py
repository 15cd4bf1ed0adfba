"""Days and times of day of Flink SQL outside of binary rows. Flink writes them as ints, with its ``IntSerializer``."""

from __future__ import annotations

from abc import abstractmethod
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from state_processor.serializers.base import SimpleSerializer
from state_processor.serializers.core.temporal import present_date
from state_processor.serializers.core.time_values import LocalDate
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.flink_packages import BASE
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.opcodes import CLOCK_TEXT, COUNTS, DATE_TEXT, Op
from state_processor.serializers.table.binary_values import OfSqlType, time_text, to_epoch_day, to_millis_of_day
from state_processor.serializers.table.logical_types import DateType, TimeType

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

_DAYS: Final = 0
_SINCE_MIDNIGHT: Final = 2
_MILLIS: Final = 1000


class _CountSerializer(OfSqlType, SimpleSerializer):
    """An int that counts the days since 1970, or the milliseconds of a day."""

    snapshot_class = f"{BASE}IntSerializer$IntSerializerSnapshot"
    length = min_size = 4
    type: DateType | TimeType
    _units: int
    """Units of a second; 0 for days."""
    _text_form: int

    def read(self, source: DataInput) -> int:
        return source.read_int()

    def write(self, value: int, target: DataOutput) -> None:
        target.write_int(value)

    @abstractmethod
    def from_column(self, value: Any) -> int:
        """Return the count of a value of a column."""

    def emit_decode(self, builder: DecodeBuilder, column: Column) -> None:
        meaning = _SINCE_MIDNIGHT if self._units else 0
        builder.op(Op.EPOCH, column, mode=builder.options.time_mode, meaning=meaning, units=self._units, size=self.length)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        form = self._text_form if pa.types.is_string(column.type) else COUNTS
        builder.op(Op.EPOCH, column, units=self._units, size=self.length, form=form)

    def hash_code(self, value: int) -> int:
        return value


class DateDataSerializer(_CountSerializer):
    """``DATE``: an int, the days since 1970 (Flink: ``IntSerializer``)."""

    type = DateType()
    _units = _DAYS
    _text_form = DATE_TEXT

    def from_column(self, value: Any) -> int:
        return to_epoch_day(value)

    def to_column(self, value: int, options: DecodeOptions) -> date | str:
        return present_date(LocalDate.of_epoch_day(value), options)


class TimeDataSerializer(_CountSerializer):
    """``TIME``: an int, the milliseconds of the day (Flink: ``IntSerializer``)."""

    _units = _MILLIS
    _text_form = CLOCK_TEXT

    def __init__(self, precision: int = 0, snapshot_class: str = "") -> None:
        super().__init__(snapshot_class)
        self.type = TimeType(precision)

    def from_column(self, value: Any) -> int:
        return to_millis_of_day(value)

    def to_column(self, value: int, options: DecodeOptions) -> str:
        return time_text(value)
