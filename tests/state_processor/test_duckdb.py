from __future__ import annotations

import logging
import sys

import pytest

import state_processor as sp
from state_processor.applications.sql.views import View
from tests.archives import unpacked
from tests.state_processor.read.scan_spy import spied
from tests.state_processor.samples import ORDERS, ORDERS_PATH, expected_values

TOTAL = expected_values(ORDERS, "orders", "total")


def test_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = spied(monkeypatch)
    database = sp.duckdb.connect(ORDERS_PATH)
    assert asked == []
    assert dict(database.sql("SELECT key, total FROM orders").fetchall()) == TOTAL
    assert database.sql("SELECT value FROM orders.total WHERE key = 'amelia'").fetchall() == [(3950,)]
    assert asked[1:] == [(["value", "key"], {"amelia"})]
    assert database.cursor().sql("SELECT count(*) FROM catalog.discounts").fetchall() == [(10,)]


def test_query() -> None:
    rows = sp.duckdb.query(ORDERS_PATH, "SELECT profile.tier, sum(total)::BIGINT AS total FROM orders GROUP BY 1")
    assert rows.schema.names == ["tier", "total"]
    assert sum(rows.read_all().column("total").to_pylist()) == sum(TOTAL.values())
    assert sum(batch.num_rows for batch in rows) == rows.schema.get_field_index("total") + 3


def test_an_operator_of_a_plan_has_views_under_its_label() -> None:
    directory = unpacked("sql") / "2.3.0" / "group-aggregate"
    plan = directory / "plan.json"
    operators = sp.arrow.operators(directory / "savepoint", plan=plan).column("operator_name").to_pylist()
    (label,) = (name for name in operators if name.startswith("group-aggregate["))
    database = sp.duckdb.connect(directory / "savepoint", plan=plan)
    for view, column in ((f'"{label}"', "accState"), (f'"{label}"."accState"', "value")):
        rows = database.sql(f'SELECT key.customer, {column}."sum(amount)" FROM {view}').fetchall()
        assert dict(rows) == {"ada": 35, "bob": 17, "cy": None}, view


def test_views_that_can_not_be_read_are_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def unread() -> None:
        raise sp.UnknownSerializerError("no such serializer")

    views = [View("orders", "odd", unread)]  # type: ignore[arg-type]
    monkeypatch.setattr("state_processor.applications.sql.session.views_of", lambda *_: views)
    with caplog.at_level(logging.WARNING, "state_processor"):
        database = sp.duckdb.connect(ORDERS_PATH)
    assert "orders.odd can't be read: no such serializer" in caplog.text
    assert database.sql("SHOW TABLES").fetchall() == []
    with pytest.raises(sp.UnknownSerializerError, match="no such serializer"):
        sp.duckdb.query(ORDERS_PATH, "SELECT * FROM orders.odd")


def test_without_duckdb_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(sp.OptionError, match=r"state-processor\[duckdb\]"):
        sp.duckdb.connect(ORDERS_PATH)


def test_an_unknown_treatment_of_nanoseconds_is_refused() -> None:
    with pytest.raises(sp.OptionError, match="nanos='cut': expected one of 'error', 'check'"):
        sp.duckdb.connect(ORDERS_PATH, nanos="cut")  # type: ignore[arg-type]


@pytest.mark.parametrize(("query", "found"), [("", "0;"), ("SELECT 1; SELECT 2", "2;"), (None, "as text, found a NoneType")])
def test_a_query_is_one_statement(query: str, found: str) -> None:
    with pytest.raises(sp.OptionError, match=f"expected .*found {found}|expected a query {found}"):
        sp.duckdb.query(ORDERS_PATH, query)
