"""Dates and times of ``java.sql``: Flink's serializers write and read the same bytes in several time zones."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from state_processor.serializers.core.temporal import MillisSerializer, SqlTimestampSerializer
from state_processor.serializers.core.time_values import java_zone
from state_processor.serializers.kernel.encode.encoder import encode_column
from tests.interop import flink
from tests.serializers.harness import PLAIN, decode_with_kernel

pytestmark = pytest.mark.interop

ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "America/Sao_Paulo", "Pacific/Apia")
"""In Sao Paulo clocks skipped midnight at the beginning of summer; in Apia the day 2011-12-30 does not exist."""
TURNING_POINTS = (
    *("0001-01-01", "0100-03-01", "1000-02-28", "1500-01-01", "1500-03-01", "1582-10-04", "1582-10-15"),
    *("1883-11-18", "1899-12-31", "1900-01-01", "1970-01-01", "2011-12-29", "2011-12-31", "2018-11-04", "2024-02-29"),
    *("2024-11-03", "2038-01-20", "9999-12-31"),
)


def days() -> list[date]:
    """Turning points, and one random day of each of a hundred years."""
    chosen = random.Random(7)
    years = chosen.sample(range(1, 10_000), 100)
    found = {date(year, 1, 1) + timedelta(days=chosen.randrange(365)) for year in years}
    missing = {day for day in found if date(1582, 10, 4) < day < date(1582, 10, 15)}
    return sorted({date.fromisoformat(text) for text in TURNING_POINTS} | found - missing)


def columns() -> dict[str, tuple[Any, pa.Array, list[str]]]:
    """By type, the serializer for a zone, a column, and its texts in Java."""
    clocks = ["00:00:00", "08:30:00", "23:59:59"]
    moments = [datetime(day.year, day.month, day.day, 12, 30) for day in days()]
    return {
        "SQL_DATE": (lambda zone: MillisSerializer("SQL_DATE", zone), pa.array(days()), [str(day) for day in days()]),
        "SQL_TIME": (lambda zone: MillisSerializer("SQL_TIME", zone), pa.array(clocks), clocks),
        "SQL_TIMESTAMP": (SqlTimestampSerializer, pa.array(moments, pa.timestamp("us", "UTC")), [f"{m}.0" for m in moments]),
    }


def test_java_writes_and_reads_the_same_days_in_every_zone() -> None:
    cases = []
    for zone in ZONES:
        for name, (serializer_in, column, texts) in columns().items():
            if name != "SQL_TIMESTAMP" or zone == "UTC":  # its column is a point in time, whose text depends on the zone
                cases.append((zone, name, serializer_in(java_zone(zone)), column, texts))
    ours = [list(encode_column(serializer, column)) for _, _, serializer, column, _ in cases]
    requests = [
        {"zone": zone, "type": name, "texts": texts, "bytes": [data.hex() for data in written]}
        for (zone, name, _, _, texts), written in zip(cases, ours, strict=True)
    ]
    for (zone, name, serializer, column, texts), written, answer in zip(
        cases, ours, flink.local_values("2.3.0", requests), strict=True
    ):
        assert answer["texts"] == texts, (zone, name)
        theirs = [bytes.fromhex(data) for data in answer["bytes"]]
        assert theirs == written, (zone, name)
        assert decode_with_kernel(serializer, theirs) == column.to_pylist(), (zone, name)
        assert [serializer.to_column(serializer.deserialize(data), PLAIN) for data in theirs] == column.to_pylist(), (zone, name)
        assert [serializer.serialize(serializer.from_column(value)) for value in column.to_pylist()] == theirs, (zone, name)
