"""Java's ``hashCode`` of dates and times, from the bytes that the kernel writes for a whole column of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.temporal import (
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    MillisSerializer,
    SqlTimestampSerializer,
)
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.serializers.table.single_values import TimestampDataSerializer

Hashes = npt.NDArray[np.int32]
_Bytes = npt.NDArray[np.uint8]
"""A line of bytes for each value."""

_SECOND: Final = 1_000_000_000


def fold_long(bits: npt.NDArray[np.int64]) -> Hashes:
    """``Long.hashCode``: both halves, exclusive or."""
    folded: Hashes = (bits ^ (bits >> 32)).astype(np.int32)
    return folded


def hashes_of_encoded(serializer: TypeSerializer, array: pa.Array) -> Hashes | None:
    """The hashes of a column without nulls; ``None`` for types that are none of these."""
    rule = _RULES.get(type(serializer))
    if rule is None:
        return None
    encoded = encode_column(serializer, array)
    return rule(encoded.data.reshape(len(array), serializer.length))


def _number(data: _Bytes, begin: int, end: int) -> npt.NDArray[np.int64]:
    """The signed big-endian number in these bytes."""
    columns = np.ascontiguousarray(data[:, begin:end])
    return columns.view(f">i{end - begin}").ravel().astype(np.int64)


def _millis(data: _Bytes) -> Hashes:
    return fold_long(_number(data, 0, 8))


def _sql_timestamp(data: _Bytes) -> Hashes:
    return fold_long(_number(data, 0, 8) // 1000 * 1000 + _number(data, 8, 12) // 1_000_000)


def _instant(data: _Bytes) -> Hashes:
    return (fold_long(_number(data, 0, 8)).astype(np.int64) + 51 * _number(data, 8, 12)).astype(np.int32)


def _timestamp_data(data: _Bytes) -> Hashes:
    nano = _number(data, 8, 12) if data.shape[1] > 8 else np.zeros(len(data), dtype=np.int64)
    return (31 * fold_long(_number(data, 0, 8)).astype(np.int64) + nano).astype(np.int32)


def _local_date(data: _Bytes) -> Hashes:
    year, month, day = _number(data, 0, 4), data[:, 4].astype(np.int64), data[:, 5].astype(np.int64)
    return ((year & 0xFFFFF800) ^ ((year << 11) + (month << 6) + day)).astype(np.int32)


def _local_time(data: _Bytes) -> Hashes:
    hour, minute, second = (data[:, i].astype(np.int64) for i in range(3))
    return fold_long((hour * 3600 + minute * 60 + second) * _SECOND + _number(data, 3, 7))


def _local_date_time(data: _Bytes) -> Hashes:
    return _local_date(data[:, :6]) ^ _local_time(data[:, 6:])


_RULES: Final[dict[type[TypeSerializer], Callable[[_Bytes], Hashes]]] = {
    MillisSerializer: _millis,
    SqlTimestampSerializer: _sql_timestamp,
    InstantSerializer: _instant,
    LocalDateSerializer: _local_date,
    LocalTimeSerializer: _local_time,
    LocalDateTimeSerializer: _local_date_time,
    TimestampDataSerializer: _timestamp_data,
}
