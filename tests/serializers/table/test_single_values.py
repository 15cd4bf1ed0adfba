"""Tests of :mod:`state_processor.serializers.table.single_values`."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.serializers.core.basic import NumberSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.table.python_state import PythonDateSerializer, PythonTimeSerializer
from state_processor.serializers.table.single_values import DateDataSerializer, TimeDataSerializer
from state_processor.support.errors import InvalidRowError
from tests.serializers.harness import PLAIN, check_codec, decode_with_kernel

TEXT = DecodeOptions(nanos="string")
DAYS = st.integers(date(1, 1, 1).toordinal(), date(9999, 12, 31).toordinal()).map(lambda d: d - date(1970, 1, 1).toordinal())
MILLIS = st.integers(0, 86_399_999)


@given(st.lists(DAYS, min_size=1), st.lists(MILLIS, min_size=1))
def test_codecs(days: list[int], millis: list[int]) -> None:
    for options in (PLAIN, TEXT):
        for serializer in (DateDataSerializer(), PythonDateSerializer()):
            check_codec(serializer, days, options)
        for serializer in (TimeDataSerializer(3), PythonTimeSerializer()):
            check_codec(serializer, millis, options)


def test_columns() -> None:
    days = [DateDataSerializer().serialize(n) for n in (0, 19_782, -719_162)]
    assert decode_with_kernel(DateDataSerializer(), days) == [date(1970, 1, 1), date(2024, 2, 29), date(1, 1, 1)]
    assert decode_with_kernel(DateDataSerializer(), days, TEXT) == ["1970-01-01", "2024-02-29", "0001-01-01"]
    times = [TimeDataSerializer(3).serialize(n) for n in (0, 86_399_999)]
    assert decode_with_kernel(TimeDataSerializer(3), times) == ["00:00", "23:59:59.999"]


def test_flink_calls_them_ints() -> None:
    assert DateDataSerializer().snapshot().to_bytes() == NumberSerializer("INT").snapshot().to_bytes()
    assert TimeDataSerializer(3).snapshot().to_bytes() == NumberSerializer("INT").snapshot().to_bytes()
    assert [s.hash_code(-5) for s in (DateDataSerializer(), TimeDataSerializer())] == [-5, -5]


@pytest.mark.parametrize("value", ["24:00", "12:00:00.0001", 86_400_000])
def test_what_is_not_a_time_of_day_in_milliseconds_is_refused(value: str | int) -> None:
    with pytest.raises((InvalidRowError, ValueError)):
        TimeDataSerializer(3).from_column(value)
