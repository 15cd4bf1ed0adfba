"""Serializers of ``java.util.Date`` and of dates and times of ``java.sql``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from state_processor.serializers.base import register_simple
from state_processor.serializers.core.scalar_type import PythonCoder, ScalarType
from state_processor.serializers.core.temporal import (
    NULL_LONG,
    TemporalSerializer,
    date_type,
    instant_type,
    present_date,
    present_instant,
    snapshot_class,
)
from state_processor.serializers.core.time_values import (
    MILLIS_OF_DAY,
    NANOS_OF_SECOND,
    Instant,
    LocalDate,
    SqlTimestamp,
    exact_millis,
    to_instant,
    to_local_date,
    to_local_time,
)
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java import hashing
from state_processor.serializers.java.column_hashes import EncodedValues, Hashes, fold_long, signed
from state_processor.serializers.kernel.opcodes import Op

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.encode.program import EncodeBuilder


def _text_type(options: DecodeOptions) -> pa.DataType:
    return pa.string()


def _of_millis(millis: int) -> Instant:
    return Instant(millis // 1000, millis % 1000 * 1_000_000)


def _clock(millis: int) -> str:
    """Return ``java.sql.Time`` as text: seconds always, milliseconds if there are any."""
    text = str(_of_millis(millis % MILLIS_OF_DAY))
    return text[text.index("T") + 1 : -1]


@dataclass(frozen=True, slots=True)
class _Millis:
    """Properties of a type of milliseconds."""

    name: str
    java_name: str
    operation: Op
    arrow_type: Callable[[DecodeOptions], pa.DataType]
    present: Callable[[int, DecodeOptions], Any]
    accept: Callable[[Any], int]


_MILLIS: Final = {
    m.name: m
    for m in (
        _Millis(
            "DATE",
            "Date",
            Op.DATE_MS,
            instant_type,
            lambda v, o: present_instant(_of_millis(v), o),
            lambda v: exact_millis(to_instant(v)),
        ),
        _Millis(
            "SQL_DATE",
            "SqlDate",
            Op.SQL_DATE,
            date_type,
            lambda v, o: present_date(LocalDate.of_epoch_day(v // MILLIS_OF_DAY), o),
            lambda v: to_local_date(v).epoch_day * MILLIS_OF_DAY,
        ),
        _Millis(
            "SQL_TIME",
            "SqlTime",
            Op.SQL_TIME,
            _text_type,
            lambda v, o: _clock(v),
            lambda v: exact_millis(Instant(*divmod(to_local_time(v).nano_of_day, NANOS_OF_SECOND))),
        ),
    )
}


class MillisSerializer(TemporalSerializer):
    """``java.util.Date``, ``java.sql.Date`` and ``java.sql.Time``: milliseconds since 1970 as a long, its minimum for null.

    Python holds the milliseconds.

    Parameters
    ----------
    name
        ``DATE``, ``SQL_DATE`` or ``SQL_TIME``.
    """

    length = smallest = 8

    def __init__(self, name: str) -> None:
        self._kind = _MILLIS[name]
        super().__init__(snapshot_class(self._kind.java_name))
        self.name = name
        self.operation = self._kind.operation

    def read(self, source: DataInput) -> int | None:
        value = source.read_long()
        return None if value == NULL_LONG else value

    def write(self, value: int | None, target: DataOutput) -> None:
        target.write_long(NULL_LONG if value is None else value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self._kind.arrow_type(options)

    def present(self, value: int | None, options: DecodeOptions) -> Any:
        return None if value is None else self._kind.present(value, options)

    def accept(self, value: Any) -> int | None:
        return None if value is None else value if type(value) is int else self._kind.accept(value)

    def hash_code(self, value: int | None) -> int:
        return 0 if value is None else hashing.of_long(value)

    def hash_encoded(self, encode: Callable[[], EncodedValues]) -> Hashes:
        return fold_long(signed(encode(), 0, 8))


def _sql_timestamp(value: Instant) -> SqlTimestamp:
    return SqlTimestamp(value.seconds * 1000 + value.nano // 1_000_000, value.nano)


class SqlTimestampSerializer(TemporalSerializer):
    """``java.sql.Timestamp``: milliseconds as a long, its minimum for null, then nanoseconds of the second as an int.

    A null is read and not written: Flink's serializer writes 12 bytes for it and reads 8, so that all after it is lost.
    """

    snapshot_class = snapshot_class("SqlTimestamp")
    length = smallest = 12
    name = "SQL_TIMESTAMP"
    operation = Op.SQL_TIMESTAMP

    def read(self, source: DataInput) -> SqlTimestamp | None:
        start = source.position
        value = SqlTimestamp(source.read_long(), source.read_int())
        if value.millis == NULL_LONG:
            return None
        if not 0 <= value.nano < NANOS_OF_SECOND:
            raise source.corrupt(f"expected nanoseconds of a second, found {value.nano}", start)
        return value

    def write(self, value: SqlTimestamp | None, target: DataOutput) -> None:
        if value is None:
            raise ValueError("null, of which Flink's SqlTimestampSerializer does not read all the bytes that it writes")
        target.write_long(value.millis)
        target.write_int(value.nano)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        builder.op(Op.REQUIRE, column)
        super().emit_encode(builder, column)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return instant_type(options)

    def present(self, value: SqlTimestamp | None, options: DecodeOptions) -> datetime | str | None:
        return None if value is None else present_instant(value.instant, options)

    def accept(self, value: Any) -> SqlTimestamp | None:
        return None if value is None else value if isinstance(value, SqlTimestamp) else _sql_timestamp(to_instant(value))

    def hash_code(self, value: SqlTimestamp | None) -> int:
        return 0 if value is None else hashing.of_long(value.millis // 1000 * 1000 + value.nano // 1_000_000)

    def hash_encoded(self, encode: Callable[[], EncodedValues]) -> Hashes:
        values = encode()
        return fold_long(signed(values, 0, 8) // 1000 * 1000 + signed(values, 8, 12) // 1_000_000)


SCALARS: Final = (
    ScalarType(MillisSerializer("DATE"), "java.util.Date", PythonCoder.DATE),
    ScalarType(MillisSerializer("SQL_DATE"), "java.sql.Date", PythonCoder.DATE),
    ScalarType(MillisSerializer("SQL_TIME"), "java.sql.Time", PythonCoder.TIME),
    ScalarType(SqlTimestampSerializer(), "java.sql.Timestamp", PythonCoder.TIMESTAMP),
)

for _scalar in SCALARS:
    register_simple(_scalar.serializer)
