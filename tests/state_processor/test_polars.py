from __future__ import annotations

import sys
from typing import Any

import polars as pl
import pytest

import state_processor as sp
from tests.state_processor.read.scan_spy import Asked, spied
from tests.state_processor.samples import ORDERS, ORDERS_PATH, TYPES_PATH, expected_values

TOTAL = expected_values(ORDERS, "orders", "total")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return spied(monkeypatch)


def scan(state: str = "total", **options: Any) -> pl.LazyFrame:
    return sp.polars.scan_state(ORDERS_PATH, "orders", state, **options)


def test_all_rows(asked: Asked) -> None:
    lazy = scan()
    assert lazy.collect_schema() == {"key": pl.String, "value": pl.Int64}
    assert asked == []
    assert dict(lazy.collect().iter_rows()) == TOTAL
    assert asked.one() == (["key", "value"], None)


@pytest.mark.parametrize(
    ("predicate", "keys"),
    [
        (pl.col("key") == "amelia", {"amelia"}),
        (pl.lit("amelia") == pl.col("key"), {"amelia"}),
        (pl.col("key").is_in(["amelia", "nobody"]), {"amelia", "nobody"}),
        ((pl.col("key") == "amelia") | (pl.col("key") == "anders"), {"amelia", "anders"}),
        ((pl.col("key") == "amelia") & (pl.col("value") > 0), {"amelia"}),
        (pl.col("key").str.starts_with("a"), None),
        (pl.col("value") == 3950, None),
        (pl.col("key") != "amelia", None),
        ((pl.col("key") == "amelia") | (pl.col("value") > 10000), None),
    ],
    ids=lambda value: str(sorted(value)) if isinstance(value, set) else str(value),
)
def test_predicates_on_keys_are_looked_up(asked: Asked, predicate: pl.Expr, keys: set[str] | None) -> None:
    expected = pl.DataFrame({"key": list(TOTAL), "value": list(TOTAL.values())}).filter(predicate)
    assert scan().filter(predicate).collect().sort("key").equals(expected.sort("key"))
    assert asked.one()[1] == keys


def test_columns_are_pushed_down(asked: Asked) -> None:
    totals = scan().filter(pl.col("key") == "amelia").select("value").collect()
    assert totals.to_dicts() == [{"value": 3950}]
    assert scan("profile").select("key").collect().height == len(expected_values(ORDERS, "orders", "profile"))
    assert scan().select(pl.len()).collect().item() == 50
    assert [len(columns) for columns, _ in asked] == [2, 1, 1]


def test_limits_stop_reading(asked: Asked) -> None:
    assert scan().head(3).collect().height == 3
    assert asked.batches == 1


def test_fields_of_structs_are_chosen_by_columns(asked: Asked) -> None:
    tiers = scan("profile", columns=["key", "value.tier"])
    assert tiers.collect_schema()["value"] == pl.Struct({"tier": pl.String})
    tiers.collect()
    assert asked.one()[0] == ["key", "value.tier"]


def test_keys_of_whole_numbers_outside_of_their_type_are_not_found(asked: Asked) -> None:
    lazy = sp.polars.scan_state(TYPES_PATH, "types", "int")
    some = lazy.collect()["key"].to_list()
    assert asked.pop()
    assert lazy.collect_schema()["key"] == pl.Int32
    found = lazy.filter(pl.col("key").is_in([some[0], 2**40]))
    assert found.collect()["key"].to_list() == [some[0]]
    assert asked.one()[1] == {some[0]}


def test_keys_that_are_given_stay(asked: Asked) -> None:
    lazy = scan(keys=["amelia", "anders"])
    assert lazy.filter(pl.col("key") == "elif").collect().is_empty()
    assert asked.one()[1] is None


def test_mistakes_are_found_before_rows_are_read() -> None:
    with pytest.raises(sp.NotFoundError, match="total"):
        sp.polars.scan_state(ORDERS_PATH, "orders", "totals")


def test_without_polars_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(sp.OptionError, match=r"state-processor\[polars\]"):
        scan()
