"""Columns from values of Python: values that Arrow takes for values of another type are refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from state_processor.options.user_tables import check_values, column_of_values, columns_of_dictionaries
from state_processor.support.errors import OptionError

DAY = datetime(2024, 1, 1)
AWARE = DAY.replace(tzinfo=UTC)

REFUSED: dict[str, tuple[list[Any], str]] = {
    "a local time among points in time": ([AWARE, DAY], "'v' of row 1 .*without a time zone, in a column of times with one"),
    "a point in time among local times": ([DAY, None, AWARE], "'v' of row 2 .*with a time zone, in a column of times without"),
    "a local time in a field": ([{"at": AWARE}, {"at": DAY}], r"'v\.at' of row 1 .*without a time zone"),
    "a local time in a list": ([[AWARE], [AWARE, DAY]], r"'v\.element' of row 1 .*without a time zone"),
    "a time among dates": ([date(2024, 1, 1), datetime(2024, 1, 1, 5)], "'v' of row 1 .*a time of day, in a column of dates"),
    "a date among times": ([datetime(2024, 1, 1, 5), date(2024, 1, 1)], "'v' of row 1 can't become a value of Arrow"),
    "a time of day with a zone": ([time(1, 2), time(1, 2, tzinfo=UTC)], "'v' of row 1 .*a time of day with a time zone"),
    "text among bytes": (["a", b"b"], "'v' of row 0 .*text, in a column of bytes"),
    "a fraction with more digits": ([Decimal("1.1"), Decimal("1.10")], "'v' of row 0 .*the scale 1, in a column .*scale 2"),
    "a whole number among decimals": ([1, Decimal("1.5")], "'v' of row 0 .*the scale 0, in a column .*scale 1"),
    "a power of ten": ([Decimal("1E+2")], "'v' of row 0 .*the scale -2"),
    "a missing field": ([{"a": 1, "b": 2}, {"a": 1}], "'v' of row 1 does not have the field 'b' of other values"),
    "a missing field in a list": ([[{"a": 1}], [{"a": 1}, {"b": 1}]], r"'v\.element' of row 1 does not have the field 'a'"),
    "a missing field in a field": ([{"x": {"a": 1}}, {"x": {}}], r"'v\.x' of row 1 does not have the field 'a'"),
    "NaN among texts": (["a", math.nan], "'v' of row 1 can't become a value of Arrow: found nan"),
    "a truth among numbers": ([1, True], "'v' of row 1 can't become a value of Arrow"),
    "half of a character": (["a", "\ud800"], "'v' of row 1 can't become a value of Arrow"),
}


@pytest.mark.parametrize(("values", "message"), REFUSED.values(), ids=REFUSED)
def test_values_of_another_type_are_refused(values: list[Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        column_of_values("v", values)


@pytest.mark.pandas
def test_times_of_pandas_that_are_refused() -> None:
    import pandas as pd

    with pytest.raises(OptionError, match=r"'v' of row 1 .*without a time zone"):
        column_of_values("v", [pd.Timestamp(AWARE), pd.Timestamp(DAY)])
    with pytest.raises(OptionError, match=r"'v' of row 1 .*nanoseconds, which microseconds can't hold"):
        column_of_values("v", [DAY, pd.Timestamp("2024-01-01 00:00:00.000000001")])


def test_nulls_and_nan() -> None:
    for values in ([1.5, math.nan, None], [1, np.float64("nan"), None]):
        column = column_of_values("v", values)
        assert (column.null_count, math.isnan(column[1].as_py())) == (1, True)


@pytest.mark.pandas
def test_nulls_of_pandas() -> None:
    import pandas as pd

    assert column_of_values("v", [1, pd.NA, pd.NaT, None]).to_pylist() == [1, None, None, None]
    assert column_of_values("v", [pd.NaT, AWARE]).to_pylist() == [None, AWARE]
    column = column_of_values("v", [1, np.float64("nan"), pd.NA])
    assert (column.null_count, math.isnan(column[1].as_py())) == (1, True)


def test_times_of_several_zones_are_points_in_time() -> None:
    berlin = AWARE.astimezone(ZoneInfo("Europe/Berlin"))
    assert column_of_values("v", [berlin, AWARE]).cast(pa.int64()).to_pylist() == [1_704_067_200_000_000] * 2


def test_each_row_has_each_column() -> None:
    assert columns_of_dictionaries([{"key": 1, "value": None}, {"value": 2, "key": 3}]).to_pydict() == {
        "key": [1, 3],
        "value": [None, 2],
    }
    with pytest.raises(OptionError, match=r"row 1 does not have the column .value. of other rows\. Write None"):
        columns_of_dictionaries([{"key": 1, "value": 1}, {"key": 2}])
    with pytest.raises(OptionError, match="row 0 does not have the column 'b'"):
        columns_of_dictionaries([{"a": 1}, {"a": 1, "b": 1}])
    with pytest.raises(OptionError, match="a column 7; expected text"):
        columns_of_dictionaries([{7: 1}])  # type: ignore[dict-item]
    with pytest.raises(OptionError, match="the list of rows is empty"):
        columns_of_dictionaries([])


def test_values_of_a_declared_type() -> None:
    check_values(pa.decimal128(10, 2), [Decimal("1.5"), 1], "v")
    with pytest.raises(OptionError, match="without a time zone"):
        check_values(pa.timestamp("us", "UTC"), [DAY], "v")
