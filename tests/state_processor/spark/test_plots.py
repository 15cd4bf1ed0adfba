from __future__ import annotations

import sys

import pytest
from pyspark.sql import SparkSession

import state_processor as sp
from tests.state_processor.samples import ORDERS, ORDERS_PATH, expected_state, expected_values

pytestmark = pytest.mark.spark


def test_without_matplotlib(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(sp.OptionError, match=r"pip install 'state-processor\[plots\]'"):
        sp.SavepointReader.read(spark, ORDERS_PATH).plot_sizes()


def test_plots(spark: SparkSession) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    reader = sp.SavepointReader.read(spark, ORDERS_PATH)
    report = sp.arrow.size_report(ORDERS_PATH).to_pylist()
    sizes = reader.plot_sizes()
    assert [bar.get_width() for bar in sizes.patches] == [row["size_in_bytes"] for row in report]
    assert sizes.get_yticklabels()[0].get_text() == f"orders\n{report[0]['state_name']}"
    groups = reader.plot_key_groups("orders")
    assert sum(bar.get_height() for bar in groups.patches) == sum(row["size_in_bytes"] for row in report)
    timers = reader.plot_timers("orders")
    assert sum(bar.get_height() for bar in timers.patches) == len(expected_state(ORDERS, "orders", "user-timers")["entries"])
    ages = reader.plot_ttl("orders", "session")
    assert sum(bar.get_height() for bar in ages.patches) == len(expected_values(ORDERS, "orders", "session"))
    with pytest.raises(sp.NotFoundError, match="state 'total' is declared without time-to-live"):
        reader.plot_ttl("orders", "total")
