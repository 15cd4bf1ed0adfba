from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.applications.sql.session import SqlSession
from state_processor.applications.sql.views import free_name, quoted
from tests.state_processor.read.scan_spy import Asked, spied
from tests.state_processor.samples import ORDERS, ORDERS_OF_1, ORDERS_PATH, TYPES_PATH, WINDOWS_PATH, expected_values

TOTAL = expected_values(ORDERS, "orders", "total")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return spied(monkeypatch)


def session(path: str = ORDERS_PATH) -> SqlSession:
    return SqlSession.open(path, {"nanos": "check"})


def rows(query: str, opened: SqlSession | None = None) -> list[tuple[Any, ...]]:
    result = (opened or session()).execute(query)
    return [tuple(row.values()) for batch in result.batches for row in batch.to_pylist()]


def test_views() -> None:
    assert [view.label for view in session().views] == [
        "operators",
        "states",
        "handles",
        "orders",
        "orders.history",
        "orders.items",
        "orders.profile",
        "orders.session",
        "orders.total",
        "orders.timers",
        "catalog.discounts",
        "catalog.offsets",
        "catalog.pending",
    ]


def test_operators_without_a_uid_have_their_hash_as_name() -> None:
    by_hash = session(str(ORDERS_OF_1 / "savepoint"))
    orders = sp.OperatorIdentifier.for_uid("orders").uid_hash
    label = quoted(orders)
    assert {f"{label}.total", label} <= {view.label for view in by_hash.views}
    assert rows(f"SELECT count(*) FROM {label}.total", by_hash) == [(50,)]


def test_each_view_has_the_rows_of_its_state() -> None:
    for path in (ORDERS_PATH, WINDOWS_PATH):
        opened = session(path)
        for view in opened.views:
            (counted,) = rows(f"SELECT count(*) FROM {view.label}", opened)
            if view.operator is not None:
                read = sp.arrow.read_state(path, view.operator, view.state, kind=view.kind, nanos="check")
                assert counted == (read.read_all().num_rows,), view.label
                assert opened.columns(view) == read.schema


def test_values_are_those_of_the_state() -> None:
    assert dict(rows("SELECT key, value FROM orders.total")) == TOTAL
    assert dict(rows("SELECT key, total FROM orders")) == TOTAL
    expected = [f"{o['operator_uid']}" for o in sp.arrow.operators(ORDERS_PATH).to_pylist()]
    assert [uid for (uid,) in rows("SELECT operator_uid FROM operators")] == expected


def test_only_what_a_query_needs_is_decoded(asked: Asked) -> None:
    assert rows("SELECT profile.address.city FROM orders WHERE key = 'amelia'") == [("Lisbon",)]
    assert asked.pop() == (["profile.address.city", "key"], {"amelia"})
    assert len(rows("SELECT value.tier FROM orders.profile WHERE key IN ('amelia', 'anders')")) == 2
    assert asked.pop() == (["value.tier", "key"], {"amelia", "anders"})
    assert rows("SELECT count(*) FROM orders.profile") == [(40,)]
    assert asked.pop() == (["key"], None)
    assert rows("SELECT t.value FROM orders.total t WHERE t.value > 3900 AND t.key = 'amelia'") == [(3950,)]
    assert asked.pop() == (["value", "key"], {"amelia"})
    assert asked == []


def test_a_limit_stops_the_read(asked: Asked) -> None:
    result = session().execute("SELECT * FROM orders.total LIMIT 1")
    assert sum(batch.num_rows for batch in result.batches) == 1
    assert asked.batches == 1


def test_queries_after_one_another_read_different_fields(asked: Asked) -> None:
    opened = session()
    one = rows("SELECT profile.tier FROM orders WHERE key = 'amelia'", opened)
    assert len(rows("SELECT profile FROM orders WHERE key = 'amelia'", opened)[0][0]) == 9
    assert rows("SELECT profile.tier FROM orders WHERE key = 'amelia'", opened) == one
    assert [len(columns) for columns, _ in asked] == [2, 12, 2]


def test_views_of_the_user_see_all_fields() -> None:
    opened = session()
    rows("SELECT profile.tier FROM orders", opened)
    assert rows("CREATE VIEW gold AS SELECT profile.name AS name FROM orders WHERE profile.tier = 'GOLD'", opened) == []
    rows("SELECT profile.tier FROM orders", opened)
    assert {type(name) for (name,) in rows("SELECT name FROM gold", opened)} == {str}


def test_lists_of_views_are_complete() -> None:
    opened = session()
    rows("SELECT 1 FROM orders", opened)
    names = rows("SELECT schema, name FROM (SHOW ALL TABLES)", opened)
    assert len(names) == len(opened.views)
    assert ("catalog", "pending") in names


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT * FROM ordrs", sp.NotFoundError, 'Did you mean "orders"'),
        ("SELECT totl FROM orders", sp.NotFoundError, "SHOW ALL TABLES"),
        ("SELEC 1", sp.OptionError, 'syntax error at or near "SELEC"'),
        ("SELECT 'x'::INT", sp.OptionError, "Could not convert"),
        ("SELECT * FROM Path", sp.NotFoundError, "does not exist"),
    ],
)
def test_mistakes(query: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        rows(query)
    assert "\n" not in str(caught.value)


def test_a_damaged_state_raises_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> Any:
        raise sp.CorruptSnapshotError("damaged at 17")
        yield

    monkeypatch.setattr("state_processor.read.scans.StateScan.read", failing)
    with pytest.raises(sp.CorruptSnapshotError, match="damaged at 17"):
        rows("SELECT * FROM orders.total")


def test_nanoseconds_are_an_error_that_names_the_option() -> None:
    with pytest.raises(sp.UndecodableValueError, match="nanos"):
        rows("SELECT * FROM types.instant", session(TYPES_PATH))
    cut = SqlSession.open(TYPES_PATH, {"nanos": "truncate"})
    assert len(rows("SELECT * FROM types.instant", cut)) == 3


def test_names() -> None:
    taken = {"main"}
    assert [free_name(n, taken) for n in ("Main", "orders", "ORDERS", "orders")] == ["Main_2", "orders", "ORDERS_2", "orders_3"]
    assert [quoted(n) for n in ("total", "Order", "my-op", 'a"b', "1st")] == ["total", '"Order"', '"my-op"', '"a""b"', '"1st"']


def test_strange_names_of_operators(tmp_path: Path) -> None:
    opened = session()
    strange = [type(view)('it\'s."a" b', 'x"y.z', view.open) for view in opened.views if view.name == "total"]
    found = SqlSession(strange, opened._connection).execute(f"SELECT count(*) AS n FROM {strange[0].label}")
    assert pa.Table.from_batches(found.batches).to_pylist() == [{"n": 50}]


@pytest.mark.parametrize("query", ["SELECT count(*) FROM orders.total", "SUMMARIZE orders.total", "DESCRIBE orders"])
def test_a_uid_in_a_query_names_an_operator_that_has_only_a_hash(query: str) -> None:
    path = str(ORDERS_OF_1 / "savepoint")
    opened = session(path)
    assert not any(view.schema == "orders" for view in opened.views)
    assert rows(query, opened) == rows(query.replace("orders", '"bc4197a480c92c793190a9f8c0afc54c"'), session(path))


def test_a_hash_in_a_query_names_an_operator_that_has_a_uid() -> None:
    assert rows('SELECT count(*) FROM "bc4197a480c92c793190a9f8c0afc54c".total') == rows("SELECT count(*) FROM orders.total")
