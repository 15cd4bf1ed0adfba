"""The calendar and the zones of ``java.sql``: all paths agree with the output of Java 17.

``tests/interop/test_time_zones.py`` compares with Flink's serializers.
"""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers import DecodeOptions
from state_processor.serializers.core.collections import ListSerializer
from state_processor.serializers.core.temporal import MillisSerializer, SqlTimestampSerializer, in_time_zone
from state_processor.serializers.core.time_values import (
    JavaZone,
    LocalDate,
    SqlTimestamp,
    java_date,
    java_day,
    java_zone,
    to_gregorian,
)
from state_processor.serializers.kernel.encode.encoder import encode_column
from state_processor.support.errors import InvalidRowError, OptionError, UndecodableValueError
from tests.serializers.harness import check_codec, decode_with_kernel

TEXT = DecodeOptions(nanos="string")
ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "America/Sao_Paulo", "+05:30")
MILLIS = [
    ("UTC", "0001-01-01", -62135769600000),
    ("UTC", "1500-01-01", -14830992000000),
    ("UTC", "1582-10-04", -12219379200000),
    ("UTC", "1582-10-15", -12219292800000),
    ("America/Sao_Paulo", "0001-01-01", -62135758800000),
    ("America/Sao_Paulo", "2018-11-04", 1541300400000),  # the day begins at 01:00
    ("America/Havana", "1850-01-01", -3786807600000),  # before 1900: the standard offset, without local mean time
    ("America/Havana", "2018-11-04", 1541307600000),  # midnight comes twice: the later one
    ("America/Havana", "9999-12-31", 253402232400000),
]


@pytest.mark.parametrize(("zone", "text", "millis"), MILLIS)
def test_days_have_the_milliseconds_that_java_gives_them(zone: str, text: str, millis: int) -> None:
    serializer = MillisSerializer("SQL_DATE", java_zone(zone))
    day = date.fromisoformat(text)
    stored = serializer.serialize(millis)
    assert list(encode_column(serializer, pa.array([day]))) == [stored]
    assert list(encode_column(serializer, pa.array([text]))) == [stored]
    assert decode_with_kernel(serializer, [stored]) == [day]
    assert decode_with_kernel(serializer, [stored], TEXT) == [text]


@given(st.integers(-1_000_000, 4_000_000))
def test_a_day_that_java_shows_is_stored_as_that_day(day: int) -> None:
    shown = java_date(day)
    shown_in_gregorian = to_gregorian(day)
    if shown_in_gregorian is None:
        assert (shown.month, shown.day) == (2, 29)
        assert shown.year % 100 == 0
    else:
        assert LocalDate.of_epoch_day(shown_in_gregorian) == shown
        assert java_day(shown) == day


@given(st.sampled_from(ZONES), st.lists(st.dates(), min_size=1, max_size=20))
def test_random_days_in_zones(zone: str, days: list[date]) -> None:
    days = [day for day in days if not date(1582, 10, 4) < day < date(1582, 10, 15)]
    serializer = MillisSerializer("SQL_DATE", java_zone(zone))
    check_codec(serializer, [serializer.from_column(day) for day in days])
    check_codec(serializer, [serializer.from_column(day) for day in days], TEXT)
    assert decode_with_kernel(serializer, list(encode_column(serializer, pa.array(days, pa.date32())))) == days


@given(st.sampled_from(ZONES), st.integers(0, 86_399_999))
def test_random_times_of_day_in_zones(zone: str, millis: int) -> None:
    serializer = MillisSerializer("SQL_TIME", java_zone(zone))
    check_codec(serializer, [serializer.zone.utc(millis)])


@given(st.sampled_from(ZONES), st.datetimes(min_value=datetime(1, 1, 3), timezones=st.just(UTC)))
def test_random_timestamps_in_zones(zone: str, moment: datetime) -> None:
    serializer = SqlTimestampSerializer(java_zone(zone))
    if datetime(1582, 10, 3, tzinfo=UTC) < moment < datetime(1582, 10, 17, tzinfo=UTC):
        return
    check_codec(serializer, [serializer.from_column(moment)])
    assert serializer.to_column(serializer.from_column(moment), DecodeOptions()) == moment


@pytest.mark.parametrize("serializer", [MillisSerializer("SQL_DATE"), MillisSerializer("SQL_DATE", java_zone("Asia/Kolkata"))])
def test_days_that_java_lacks_are_refused(serializer: MillisSerializer) -> None:
    for missing in (date(1582, 10, 5), date(1582, 10, 14)):
        with pytest.raises(InvalidRowError, match=r"is a day that java\.sql lacks: 1582-10-05 to 1582-10-14"):
            encode_column(serializer, pa.array([missing]))
        with pytest.raises(ValueError, match="do not exist in the calendar"):
            serializer.from_column(missing)


def test_a_day_that_clocks_skip_is_refused() -> None:
    serializer = MillisSerializer("SQL_DATE", java_zone("Pacific/Apia"))
    with pytest.raises(InvalidRowError, match="clocks in the time zone of the job skip"):
        encode_column(serializer, pa.array([date(2011, 12, 30)]))
    with pytest.raises(ValueError, match="2011-12-30 can't be stored: clocks in Pacific/Apia skip the day"):
        serializer.from_column(date(2011, 12, 30))


def test_a_julian_leap_day_is_text_or_an_error() -> None:
    serializer = MillisSerializer("SQL_DATE")
    payload = serializer.serialize((java_day(LocalDate(1500, 3, 1)) - 1) * 86_400_000)
    assert decode_with_kernel(serializer, [payload], TEXT) == ["1500-02-29"]
    with pytest.raises(UndecodableValueError, match="nanos="):
        decode_with_kernel(serializer, [payload])
    stamp = SqlTimestampSerializer()
    with pytest.raises(UndecodableValueError):
        decode_with_kernel(stamp, [stamp.serialize(SqlTimestamp(java_day(LocalDate(1500, 3, 1)) * 86_400_000 - 1000, 0))])


def test_nested_types_are_read_in_a_zone() -> None:
    inside = ListSerializer(MillisSerializer("SQL_TIME"))
    zoned = in_time_zone(inside, java_zone("America/New_York"))
    payload = inside.serialize([0])
    assert decode_with_kernel(inside, [payload]) == [["00:00:00"]]
    assert decode_with_kernel(zoned, [payload]) == [["19:00:00"]]
    assert zoned.snapshot().to_bytes() == inside.snapshot().to_bytes()


def test_a_zone_is_pickled_by_its_name() -> None:
    zone = java_zone("America/New_York")
    assert pickle.loads(pickle.dumps(zone)) == zone
    assert len(pickle.dumps(zone)) < 200


@pytest.mark.parametrize("name", ["Nowhere", "", "America/", "+99:99", "../etc/passwd"])
def test_unknown_zones_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match="is not a time zone: expected a name such as 'America/New_York'"):
        JavaZone(name)
