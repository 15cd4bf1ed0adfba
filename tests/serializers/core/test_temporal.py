"""Dates and times: bytes, texts and hash codes as Java 17 and Flink 2.3.0 give them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import DecodeOptions, TypeSerializer
from state_processor.serializers.core.temporal import (
    InstantSerializer,
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
    MillisSerializer,
    SqlTimestampSerializer,
)
from state_processor.serializers.core.time_values import Instant, LocalDate, LocalDateTime, LocalTime, SqlTimestamp
from state_processor.support.errors import CorruptSnapshotError, UndecodableValueError
from tests.serializers.harness import Specimen, check_codec, check_payloads, check_specimen, decode_with_kernel, specimens

ERROR, TEXT, CUT = DecodeOptions(), DecodeOptions(nanos="string"), DecodeOptions(nanos="truncate")
DATE, SQL_DATE, SQL_TIME = map(MillisSerializer, ("DATE", "SQL_DATE", "SQL_TIME"))
SQL_TIMESTAMP, INSTANT = SqlTimestampSerializer(), InstantSerializer()
LOCAL_DATE, LOCAL_TIME, LOCAL_DATE_TIME = LocalDateSerializer(), LocalTimeSerializer(), LocalDateTimeSerializer()
ALL = [DATE, SQL_DATE, SQL_TIME, SQL_TIMESTAMP, INSTANT, LOCAL_DATE, LOCAL_TIME, LOCAL_DATE_TIME]

LEAP = LocalDate(2024, 2, 29)

NULLS = [
    (DATE, "8000000000000000"),
    (SQL_DATE, "8000000000000000"),
    (SQL_TIME, "8000000000000000"),
    (INSTANT, "800000000000000080000000"),
    (LOCAL_DATE, "800000008000"),
    (LOCAL_TIME, "80800080000000"),
    (LOCAL_DATE_TIME, "80000000800080800080000000"),
]

VALUES: list[tuple[TypeSerializer, str, Any, int, str]] = [
    (DATE, "ffffffffffffffff", -1, 0, "1969-12-31T23:59:59.999Z"),
    (DATE, "0000018df4dc5495", 1709210096789, -186886888, "2024-02-29T12:34:56.789Z"),
    (SQL_DATE, "fffffffffad9a3ff", -86400001, 86400000, "1969-12-30"),
    (SQL_TIME, "fffffffffffffc18", -1000, 999, "23:59:59"),
    (SQL_TIME, "0000000000000001", 1, 1, "00:00:00.001"),
    (SQL_TIMESTAMP, "ffffffffffffffff3b8b87c0", SqlTimestamp(-1, 999000000), 0, "1969-12-31T23:59:59.999Z"),
    (
        SQL_TIMESTAMP,
        "0000018df4dc54952f091180",
        SqlTimestamp(1709210096789, 789123456),
        -186886888,
        "2024-02-29T12:34:56.789123456Z",
    ),
    (INSTANT, "0000000065e079f02f075f79", Instant(1709210096, 789012345), -1000833269, "2024-02-29T12:34:56.789012345Z"),
    (INSTANT, "ffffffffffffffff3b9ac9ff", Instant(-1, 999999999), -539607603, "1969-12-31T23:59:59.999999999Z"),
    (INSTANT, "fffffff13429b88000000000", Instant(-63549360000, 0), -875149455, "-0044-03-15T00:00:00Z"),
    (INSTANT, "0000004c3ac3b32007270e00", Instant(327403418400, 120000000), -1484030612, "+12345-01-01T10:00:00.120Z"),
    (INSTANT, "fffffff1868b840000000000", Instant(-62167219200, 0), 2037677041, "0000-01-01T00:00:00Z"),
    (INSTANT, "ff8fe3101464140000000000", Instant(-31557014167219200, 0), -336857328, "-1000000000-01-01T00:00:00Z"),
    (
        INSTANT,
        "00701cd2fa9578ff3b9ac9ff",
        Instant(31556889864403199, 999999999),
        -625237510,
        "+1000000000-12-31T23:59:59.999999999Z",
    ),
    (LOCAL_DATE, "000007e8021d", LEAP, 4145309, "2024-02-29"),
    (LOCAL_DATE, "ffffffd4030f", LocalDate(-44, 3, 15), 88271, "-0044-03-15"),
    (LOCAL_DATE, "000030390607", LocalDate(12345, 6, 7), 25295239, "+12345-06-07"),
    (LOCAL_DATE, "000000000101", LocalDate(0, 1, 1), 65, "0000-01-01"),
    (LOCAL_DATE, "c46536010101", LocalDate(-999999999, 1, 1), -304793535, "-999999999-01-01"),
    (LOCAL_DATE, "3b9ac9ff0c1f", LocalDate(999999999, 12, 31), -304794849, "+999999999-12-31"),
    (LOCAL_TIME, "00000000000000", LocalTime(0, 0, 0, 0), 0, "00:00"),
    (LOCAL_TIME, "0c22382f072f40", LocalTime(12, 34, 56, 789000000), 2063902322, "12:34:56.789"),
    (LOCAL_TIME, "173b3b3b9ac9ff", LocalTime(23, 59, 59, 999999999), -1857113749, "23:59:59.999999999"),
    (LOCAL_TIME, "010200000003e8", LocalTime(1, 2, 0, 1000), 558321802, "01:02:00.000001"),
    (LOCAL_TIME, "01020300000000", LocalTime(1, 2, 3, 0), -736645790, "01:02:03"),
    (LOCAL_DATE_TIME, "000007e8021d00000000000000", LocalDateTime(LEAP, LocalTime(0, 0, 0, 0)), 4145309, "2024-02-29T00:00"),
    (
        LOCAL_DATE_TIME,
        "000007e8021d0c22382f075f79",
        LocalDateTime(LEAP, LocalTime(12, 34, 56, 789012345)),
        2067519190,
        "2024-02-29T12:34:56.789012345",
    ),
    (
        LOCAL_DATE_TIME,
        "ffffffd4030f01020300000000",
        LocalDateTime(LocalDate(-44, 3, 15), LocalTime(1, 2, 3, 0)),
        -736692819,
        "-0044-03-15T01:02:03",
    ),
]


@pytest.mark.parametrize(("serializer", "data"), NULLS, ids=str)
def test_nulls_have_their_own_bytes(serializer: TypeSerializer, data: str) -> None:
    for options in (ERROR, TEXT, CUT):
        assert check_payloads(serializer, [bytes.fromhex(data)], options) == [None]
        assert decode_with_kernel(serializer, [bytes.fromhex(data)], options) == [None]
    assert serializer.hash_code(None) == 0


def test_a_null_timestamp_is_read_and_not_written() -> None:
    """Flink's serializer reads fewer bytes of it than it writes."""
    null = bytes.fromhex("800000000000000000000000")
    assert SQL_TIMESTAMP.deserialize(null) is None
    assert decode_with_kernel(SQL_TIMESTAMP, [null], TEXT) == [None]
    assert SQL_TIMESTAMP.hash_code(None) == 0
    with pytest.raises(ValueError, match="writes 12 bytes for null and reads only 8"):
        SQL_TIMESTAMP.serialize(None)


@pytest.mark.parametrize(("serializer", "data", "value", "code", "text"), VALUES, ids=str)
def test_values_as_java_has_them(serializer: TypeSerializer, data: str, value: Any, code: int, text: str) -> None:
    payload = bytes.fromhex(data)
    assert check_payloads(serializer, [payload], TEXT) == [value]
    assert decode_with_kernel(serializer, [payload], TEXT) == [text]
    assert serializer.arrow_type(TEXT) == pa.string()
    assert serializer.hash_code(value) == code


@pytest.mark.parametrize(
    ("serializer", "value", "type_", "shown"),
    [
        (DATE, -1, pa.timestamp("us", tz="UTC"), datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
        (SQL_DATE, -86400001, pa.date32(), date(1969, 12, 30)),
        (SQL_TIME, 3723000, pa.string(), "01:02:03"),
        (
            SQL_TIMESTAMP,
            SqlTimestamp(-1, 999000000),
            pa.timestamp("us", tz="UTC"),
            datetime(1969, 12, 31, 23, 59, 59, 999000, UTC),
        ),
        (INSTANT, Instant(-62135596800, 0), pa.timestamp("us", tz="UTC"), datetime(1, 1, 1, tzinfo=UTC)),
        (INSTANT, Instant(253402300799, 999999000), pa.timestamp("us", tz="UTC"), datetime.max.replace(tzinfo=UTC)),
        (LOCAL_DATE, LocalDate(1, 1, 1), pa.date32(), date.min),
        (LOCAL_DATE, LocalDate(9999, 12, 31), pa.date32(), date.max),
        (LOCAL_TIME, LocalTime(1, 2, 0, 0), pa.string(), "01:02"),
        (LOCAL_DATE_TIME, LocalDateTime(LEAP, LocalTime(1, 2, 3, 4000)), pa.timestamp("us"), datetime(2024, 2, 29, 1, 2, 3, 4)),
    ],
)
def test_columns_of_spark_types(serializer: TypeSerializer, value: Any, type_: pa.DataType, shown: Any) -> None:
    assert serializer.arrow_type(ERROR) == type_
    check_codec(serializer, [value])
    assert decode_with_kernel(serializer, [serializer.serialize(value)]) == [shown]


@pytest.mark.parametrize(
    ("serializer", "value"),
    [
        (INSTANT, Instant(0, 1)),
        (SQL_TIMESTAMP, SqlTimestamp(0, 999)),
        (LOCAL_DATE_TIME, LocalDateTime(LEAP, LocalTime(0, 0, 0, 1001))),
    ],
)
def test_nanoseconds_are_never_cut_silently(serializer: TypeSerializer, value: Any) -> None:
    payload = serializer.serialize(value)
    with pytest.raises(UndecodableValueError, match="nanos='truncate' or nanos='string'"):
        serializer.to_column(value, ERROR)
    with pytest.raises(UndecodableValueError, match="nanos='truncate' or nanos='string'"):
        decode_with_kernel(serializer, [payload], ERROR)
    check_payloads(serializer, [payload], CUT)
    assert decode_with_kernel(serializer, [payload], TEXT)[0] == serializer.to_column(value, TEXT)


def test_cutting_goes_towards_the_past() -> None:
    shown = decode_with_kernel(INSTANT, [INSTANT.serialize(Instant(-1, 999_999_999))], CUT)
    assert shown == [datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)]


@pytest.mark.parametrize(
    ("serializer", "value"),
    [
        (DATE, 253402300800000),
        (DATE, -62135596800001),
        (SQL_DATE, 253402300800000),
        (SQL_DATE, -62135769600001),
        (SQL_TIMESTAMP, SqlTimestamp(253402300800000, 0)),
        (INSTANT, Instant(-62135596801, 999999999)),
        (LOCAL_DATE, LocalDate(0, 12, 31)),
        (LOCAL_DATE, LocalDate(10000, 1, 1)),
        (LOCAL_DATE_TIME, LocalDateTime(LocalDate(10000, 1, 1), LocalTime(0, 0, 0, 0))),
    ],
)
def test_outside_of_sparks_years_is_an_error_or_text(serializer: TypeSerializer, value: Any) -> None:
    payload = serializer.serialize(value)
    with pytest.raises(UndecodableValueError, match="nanos="):
        serializer.to_column(value, CUT)
    with pytest.raises(UndecodableValueError, match="out of the range"):
        decode_with_kernel(serializer, [payload], CUT)
    check_payloads(serializer, [payload], TEXT)


@pytest.mark.parametrize(
    ("serializer", "data"),
    [
        (SQL_TIMESTAMP, "00000000000000003b9aca00"),
        (INSTANT, "0000000000000000ffffffff"),
        (INSTANT, "800000000000000000000000"),
        (INSTANT, "00701cd2fa95790000000000"),
        (LOCAL_DATE, "000007e70d01"),
        (LOCAL_DATE, "000007e7021d"),
        (LOCAL_DATE, "000007e70400"),
        (LOCAL_DATE, "000007e7041f"),
        (LOCAL_DATE, "3b9aca000101"),
        (LOCAL_TIME, "18000000000000"),
        (LOCAL_TIME, "ff000000000000"),
        (LOCAL_TIME, "003c0000000000"),
        (LOCAL_TIME, "00003c00000000"),
        (LOCAL_TIME, "0000003b9aca00"),
        (LOCAL_DATE_TIME, "000007e8021d80800080000000"),
        (LOCAL_DATE_TIME, "80000000800000000000000000"),
        (LOCAL_DATE_TIME, "000007e8021e00000000000000"),
    ],
)
def test_fields_that_java_refuses_are_damage(serializer: TypeSerializer, data: str) -> None:
    payload = bytes.fromhex(data)
    with pytest.raises(CorruptSnapshotError):
        serializer.deserialize(payload)
    for options in (ERROR, TEXT, CUT):
        with pytest.raises(CorruptSnapshotError, match="out of their ranges"):
            decode_with_kernel(serializer, [payload], options)


@pytest.mark.parametrize("serializer", ALL, ids=str)
def test_truncated_at_every_byte(serializer: TypeSerializer) -> None:
    for size in range(serializer.length):
        with pytest.raises(CorruptSnapshotError):
            serializer.deserialize(bytes(size))
        with pytest.raises(CorruptSnapshotError, match="end inside a value"):
            decode_with_kernel(serializer, [bytes(size)])


nanos = st.one_of(st.just(0), st.integers(0, 999).map(lambda n: n * 1_000_000), st.integers(0, 999_999_999))
dates = st.dates().map(lambda d: LocalDate(d.year, d.month, d.day))
times = st.builds(LocalTime, st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), nanos)
seconds = st.integers(-62135596800, 253402300799)
RANDOM: list[tuple[TypeSerializer, st.SearchStrategy[Any]]] = [
    (DATE, seconds.map(lambda s: s * 1000 + s % 1000)),
    (SQL_DATE, seconds.map(lambda s: s * 1000 + s % 1000)),
    (SQL_TIME, st.integers(-(2**63) + 1, 2**63 - 1)),
    (SQL_TIMESTAMP, st.builds(lambda s, n: SqlTimestamp(s * 1000 + n // 1_000_000, n), seconds, nanos)),
    (INSTANT, st.builds(Instant, seconds, nanos)),
    (LOCAL_DATE, dates),
    (LOCAL_TIME, times),
    (LOCAL_DATE_TIME, st.builds(LocalDateTime, dates, times)),
]


@pytest.mark.parametrize(("serializer", "values"), RANDOM, ids=str)
def test_random_values(serializer: TypeSerializer, values: st.SearchStrategy[Any]) -> None:
    nulls = st.none() if serializer.writes_null else st.nothing()

    @given(st.lists(st.one_of(nulls, values), max_size=20), st.sampled_from([TEXT, CUT]))
    def check(sample: list[Any], options: DecodeOptions) -> None:
        check_codec(serializer, sample, options)

    check()


@given(st.integers(-365_243_219_162, 365_241_780_471))
def test_epoch_days_of_all_years(day: int) -> None:
    assert LocalDate.of_epoch_day(day).epoch_day == day
    assert LocalDate.of_epoch_day(day).is_valid


@pytest.mark.parametrize("specimen", [s for pattern in ("date-*", "sql-*") for s in specimens("flink-core", pattern)], ids=str)
def test_specimens(specimen: Specimen) -> None:
    expected = {"date": 1580382960, "sql-date": 1580382960, "sql-time": 1580382960}
    name = specimen.name[: specimen.name.index("-serializer")]
    assert check_specimen(specimen) == expected.get(name, SqlTimestamp(1580382960, 960000000))
