"""A DataFrame has all its rows in every query, whatever queries came before: with filters pushed down and without.

Spark keeps the plan of a data source with the DataFrame, the view or the table. A source that takes filters for fewer rows would
answer later queries from these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib.metadata import version
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

import state_processor as sp
from tests.interop.selection import EVERY_CASE
from tests.spark_session import planned_again
from tests.state_processor.samples import ORDERS, ORDERS_PATH, expected_values

pytestmark = pytest.mark.spark

PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
TOTAL: Final = expected_values(ORDERS, "orders", "total")
LARGE: Final = 18000

Query = Callable[[DataFrame], Any]
QUERIES: Final[dict[str, tuple[Query, Any]]] = {
    "all": (lambda frame: frame.count(), len(TOTAL)),
    "one key": (lambda frame: frame.where("key = 'amelia'").count(), 1),
    "two keys": (lambda frame: frame.where("key IN ('josé', 'elif', 'nobody')").count(), 2),
    "values": (lambda frame: frame.where(f"value > {LARGE}").count(), sum(v > LARGE for v in TOTAL.values())),
    "rows": (lambda frame: {row.key: row.value for row in frame.collect()}, TOTAL),
}


def orders() -> Iterator[tuple[str, ...]]:
    """Yield orders of queries: each query comes once directly after each other query, and first.

    What a query leaves behind is seen by the next one, so that these orders stand for all; with every case, it is all.
    """
    names = tuple(QUERIES)
    if EVERY_CASE:
        yield from permutations(names)
        return
    for first in range(len(names)):  # the steps between neighbours are 1, 2, 4 and 3: each once
        yield tuple(names[(first + place) % len(names)] for place in (0, 1, 3, 2, 0))


def test_orders_have_every_pair_of_neighbours() -> None:
    pairs = [pair for order in orders() for pair in pairwise(order)]
    assert set(pairs) == set(permutations(QUERIES, 2))
    assert EVERY_CASE or len(pairs) == len(set(pairs))
    assert {order[0] for order in orders()} == set(QUERIES)


def _format(session: SparkSession) -> DataFrame:
    return session.read.format("flink-savepoint").options(uid="orders", state="total").load(ORDERS_PATH)


def _method(session: SparkSession) -> DataFrame:
    return sp.SavepointReader.read(session, ORDERS_PATH).read_keyed_state("orders", "total")


def _cached(session: SparkSession) -> DataFrame:
    return _format(session).cache()


def _temporary_view(session: SparkSession) -> DataFrame:
    options = f"path '{ORDERS_PATH}', uid 'orders', state 'total'"
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW repeated USING `flink-savepoint` OPTIONS ({options})")
    return session.table("repeated")


def _view_of_frame(session: SparkSession) -> DataFrame:
    _format(session).createOrReplaceTempView("of_frame")
    return session.table("of_frame")


def _table(session: SparkSession) -> DataFrame:
    options = f"path '{ORDERS_PATH}', uid 'orders', state 'total'"
    session.sql("DROP TABLE IF EXISTS repeated_table")
    session.sql(f"CREATE TABLE repeated_table USING `flink-savepoint` OPTIONS ({options})")
    return session.table("repeated_table")


def _views_of_snapshot(session: SparkSession) -> DataFrame:
    sp.create_views(session, ORDERS_PATH)
    return session.table("orders_total")


def _written(session: SparkSession) -> DataFrame:
    """Return a frame through which rows of another frame are seen, as a writer sees them."""
    return _format(session).selectExpr("key", "value").where("key IS NOT NULL")


ENTRIES: Final = {
    entry.__name__.strip("_").replace("_", " "): entry
    for entry in (_format, _method, _cached, _temporary_view, _view_of_frame, _table, _views_of_snapshot, _written)
}


@pytest.fixture(params=["true", "false"], ids=["pushdown", "no pushdown"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """A session with filters pushed down, or one that plans queries again: Spark's own setting of both."""
    session = spark.newSession()
    sp.register(session)
    session.conf.set(PUSHDOWN, request.param)
    with nullcontext() if request.param == "true" else planned_again(session):
        yield session


@pytest.mark.parametrize("entry", ENTRIES)
def test_queries_in_every_order(session: SparkSession, entry: str, tmp_path: Path) -> None:
    """Each order comes with filters pushed down and without, and each entry has another order with them than without.

    In each order, queries of all rows follow queries of few rows. A source that kept filters would leave rows out.
    """
    every = list(orders())
    turn = list(ENTRIES).index(entry) + 2 * (session.conf.get(PUSHDOWN) == "true")
    for order in every if EVERY_CASE else [every[turn % len(every)]]:
        frame = ENTRIES[entry](session)
        assert [QUERIES[name][0](frame) for name in order] == [QUERIES[name][1] for name in order], order
    session.sql("DROP TABLE IF EXISTS repeated_table")


@pytest.mark.parametrize("entry", ["format", "method", "temporary view"])
def test_a_self_join_reads_each_side(session: SparkSession, entry: str) -> None:
    frame = ENTRIES[entry](session)
    few = frame.where("key = 'amelia'").selectExpr("key AS few")
    assert frame.join(few, frame.key == few.few, "left").count() == len(TOTAL)
    assert frame.crossJoin(few).count() == len(TOTAL)
    assert frame.where("key = 'amelia'").union(frame.where("key = 'josé'")).union(frame).count() == len(TOTAL) + 2
    assert frame.count() == len(TOTAL)


@pytest.mark.parametrize("entry", ["format", "method", "temporary view"])
def test_a_frame_is_written_whole_after_a_query_of_one_key(session: SparkSession, entry: str, tmp_path: Path) -> None:
    frame = ENTRIES[entry](session)
    frame.where("key = 'amelia'").show()
    states = {"value": sp.ValueState(sp.Types.LONG())}
    target = tmp_path / "written"
    sp.SavepointWriter.new(session, max_parallelism=128).with_keyed_state("copy", frame, states=states).write(target)
    table = sp.arrow.read_state(target, "copy", "value").read_all()
    assert dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) == TOTAL


@pytest.mark.parametrize("kind", ["timers", "window", "operator", "broadcast", "list"])
def test_other_kinds(session: SparkSession, kind: str) -> None:
    options = {
        "timers": {"uid": "orders", "kind": "TIMER"},
        "window": {"uid": "orders", "state": "items"},
        "operator": {"uid": "orders"},
        "broadcast": {"uid": "catalog", "state": "discounts"},
        "list": {"uid": "catalog", "state": "pending"},
    }[kind]
    frame = session.read.format("flink-savepoint").options(**options).load(ORDERS_PATH)
    column = frame.columns[0]
    rows = frame.count()
    some = frame.collect()[0][column]
    assert 0 < frame.where(frame[column] == some).count() <= rows
    assert [frame.count(), len(frame.collect())] == [rows, rows]


@pytest.mark.parametrize("table", ["operators", "states", "handles"])
def test_tables_of_metadata(session: SparkSession, table: str) -> None:
    frame = session.read.format("flink-savepoint-metadata").option("table", table).load(ORDERS_PATH)
    rows = frame.count()
    assert 0 < frame.where("operator_uid = 'orders'").count() < rows
    assert frame.count() == rows


def test_a_promise_narrows_and_needs_its_words(spark: SparkSession) -> None:
    """The option narrows the DataFrame for good, as its name warns."""
    session = spark.newSession()
    sp.register(session)
    session.conf.set(PUSHDOWN, "true")
    options = {"uid": "orders", "state": "total"}
    if version("pyspark").startswith("4.0."):
        with pytest.raises(sp.OptionError, match=r"Python data sources get filters since Spark 4\.1; use the option keys"):
            session.read.format("flink-savepoint").options(**options, pushdown="serves-one-query").load(ORDERS_PATH).count()
        return
    promised = session.read.format("flink-savepoint").options(**options, pushdown="serves-one-query").load(ORDERS_PATH)
    assert promised.where("key = 'amelia'").count() == 1
    for value in ("true", "false"):
        with pytest.raises(sp.OptionError, match=r"pushdown=.*expected one of 'serves-one-query'"):
            session.read.format("flink-savepoint").options(**options, pushdown=value).load(ORDERS_PATH)
