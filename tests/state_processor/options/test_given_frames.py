"""Data frames of pandas as rows: NaN is a number, NA is null."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from state_processor.options.user_tables import as_table
from state_processor.support.errors import OptionError


def test_later_changes_to_a_frame_of_pandas_do_not_change_its_rows() -> None:
    frame = pd.DataFrame({"key": [0, 1], "value": [10, 20]})
    table = as_table(frame)
    frame["value"].to_numpy()[0] = 99
    frame.loc[1, "value"] = 99
    assert table is not None
    assert table["value"].to_pylist() == [10, 20]


def _words(values: list[Any]) -> list[Any]:
    return ["NaN" if isinstance(value, float) and math.isnan(value) else value for value in values]


PANDAS: dict[str, tuple[Any, list[Any]]] = {
    "numbers of numpy": (pd.Series([1.5, math.nan]), [1.5, "NaN"]),
    "small numbers": (pd.Series(np.array([1.5, math.nan], np.float32)), [1.5, "NaN"]),
    "numbers with NA": (pd.Series(pd.array([0.0, None], "Float64") / pd.array([0.0, 1.0], "Float64")), ["NaN", None]),
    "numbers of Arrow": (pd.Series(pd.arrays.ArrowExtensionArray(pa.array([math.nan, None]))), ["NaN", None]),
    "objects": (pd.Series([1.5, math.nan, pd.NA, None], dtype=object), [1.5, "NaN", None, None]),
    "lists": (pd.Series([[1.5, math.nan], None]), [[1.5, math.nan], None]),
    "whole numbers": (pd.Series([1, None], dtype="Int64"), [1, None]),
    "texts": (pd.Series(["a", None], dtype="string"), ["a", None]),
    "categories": (pd.Series(["a", None], dtype="category"), ["a", None]),
    "points in time": (
        pd.to_datetime(pd.Series(["2024-01-01", None])).dt.tz_localize("UTC"),
        [datetime(2024, 1, 1, tzinfo=UTC), None],
    ),
}


@pytest.mark.parametrize(("series", "values"), PANDAS.values(), ids=PANDAS)
def test_nan_of_pandas_is_a_number_and_na_is_null(series: Any, values: list[Any]) -> None:
    column = as_table(pd.DataFrame({"value": series})).column("value").to_pylist()
    if values[0] == [1.5, math.nan]:
        assert _words(column[0]) == [1.5, "NaN"]
        assert column[1] is None
    else:
        assert _words(column) == values


def test_columns_of_pandas_that_are_refused() -> None:
    with pytest.raises(OptionError, match="column 'value' of row 1 can't become a value of Arrow: found nan"):
        as_table(pd.DataFrame({"value": ["a", math.nan]}))
    with pytest.raises(OptionError, match=r"column 'value' of pandas is of type Sparse\[int64, 0\]: .*cast it"):
        as_table(pd.DataFrame({"value": pd.array([1], "Sparse[int64]")}))
