"""State of Structured Streaming goes on in real Flink, and comes back: the results equal a run without interruption.

What Spark does before Flink, and the columns that go there and back, do not depend on the version of Flink. Each case runs in one
version; ``test_written_cases.py`` restores these kinds of state in both.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import expr

import state_processor as sp
from tests.archives import unpacked
from tests.interop import sql_queries
from tests.interop.selection import EVERY_CASE
from tests.interop.streamed_queries import (
    PROVIDER,
    ROCKSDB,
    TIMER,
    VERSION,
    Query,
    Totals,
    count_loop,
    events,
    first_counts,
    streamed,
    with_expiring_state,
    with_state,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark]

KEYS = 5
MANY_KEYS = 257
"""Several for most of the 128 key groups. Spark asks Python for each."""
OLD = "1.20.5"
LONG, WINDOW = sp.Types.LONG(), sp.Types.TIME_WINDOW()


@pytest.fixture(scope="module", autouse=True)
def _rocksdb(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    spark.conf.unset(PROVIDER)


def in_flink(version: str) -> pytest.MarkDecorator:
    """Run a test in a version of Flink; in both if all cases are tried."""
    return pytest.mark.parametrize("version", [OLD, VERSION] if EVERY_CASE else [version])


def rows(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, df.collect()))


def new_writer(spark: SparkSession, version: str = VERSION) -> sp.SavepointWriter:
    return sp.SavepointWriter.new(spark, max_parallelism=128, flink_version=version.rpartition(".")[0])


@pytest.fixture(scope="module")
def counted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> sp.StreamingCheckpoint:
    """Counts per key."""
    return first_counts(spark, tmp_path_factory.mktemp("counts"), MANY_KEYS)


@in_flink(OLD)
def test_a_count_of_spark_goes_on_in_flink_and_comes_back(
    spark: SparkSession, counted: sp.StreamingCheckpoint, tmp_path: Path, version: str
) -> None:
    result = count_loop(spark, tmp_path, MANY_KEYS, counted, version=version)
    assert rows(result) == rows(events(spark, 0, 5 * MANY_KEYS, MANY_KEYS).groupBy("customer").count())


@pytest.fixture(scope="module")
def totals(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[sp.StreamingCheckpoint, sp.StreamingCheckpoint]:
    """The state of all variables after the first events, and after all events without interruption."""
    states = []
    for end in (40, 90):
        query = Query(spark, tmp_path_factory.mktemp("totals"), KEYS)
        query.feed(0, end)
        query.run(with_state(query, Totals()), "update")
        states.append(query.state())
    return states[0], states[1]


@in_flink(VERSION)
def test_all_variables_and_timers_go_to_flink_and_come_back(
    spark: SparkSession, totals: tuple[sp.StreamingCheckpoint, sp.StreamingCheckpoint], tmp_path: Path, version: str
) -> None:
    state, whole = totals
    last = Query(spark, tmp_path / "last", KEYS)
    writer = new_writer(spark, version)
    writer.with_keyed_state("main", state.read_state("count"), "customer", states={"count": LONG})
    writer.with_keyed_state("main", state.read_state("amounts"), "customer", states={"amounts": sp.ListState(LONG)})
    writer.with_keyed_state("main", state.read_state("digits"), "customer", states={"digits": sp.MapState(LONG, LONG)})
    writer.with_timers("main", state.read_timers(), "customer")
    writer.write(tmp_path / "savepoint")

    answer = streamed(tmp_path / "savepoint", tmp_path / "flink", "totals", KEYS, 40, 70, version=version)
    reader = sp.SavepointReader.read(spark, answer["savepoint"])
    initial = reader.read_keyed_state("main").join(reader.read_timers("main").selectExpr("key", "timestamp AS timer"), "key")
    last.feed(70, 90)
    last.run(with_state(last, Totals(), initial.withColumnRenamed("key", "customer")), "update")

    for variable in ("count", "amounts", "digits"):
        shown = f"array_sort({'map_entries(digits)' if variable == 'digits' else variable})"
        shown = variable if variable == "count" else shown
        ours, expected = (rows(s.read_state(variable).selectExpr("customer", shown)) for s in (last.state(), whole))
        assert ours == expected, variable
        assert len(ours) == KEYS
    assert rows(last.state().read_timers()) == [(f"user {number}", TIMER, "event_time") for number in range(KEYS)]
    fired = streamed(Path(answer["savepoint"]), tmp_path / "fired", "totals", KEYS, 70, 70, version=version, ends=True)
    assert fired["emitted"] == [f"user {number} {TIMER}" for number in range(KEYS)]


@pytest.fixture(scope="module")
def expiring(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> sp.StreamingCheckpoint:
    """Variables that expire."""
    query = Query(spark, tmp_path_factory.mktemp("expiring"), KEYS)
    query.feed(0, 40)
    query.run(with_expiring_state(query), "update", once=True)
    return query.state()


@in_flink(OLD)
def test_values_with_time_to_live_keep_the_rest_of_it(
    spark: SparkSession, expiring: sp.StreamingCheckpoint, tmp_path: Path, version: str
) -> None:
    last = Query(spark, tmp_path / "last", KEYS)
    expires = "expires_at - IF(customer = 'user 0', INTERVAL 2 DAYS, INTERVAL 1 DAY)"  # the state of a user has expired
    recent = expiring.read_state("recent").selectExpr("customer", "recent", f"{expires} AS _last_access")
    writer = new_writer(spark, version).with_keyed_state(
        "main", recent, "customer", states={"recent": sp.ValueState(LONG, ttl=True)}
    )
    writer.write(tmp_path / "savepoint")
    answer = streamed(tmp_path / "savepoint", tmp_path / "flink", "totals", KEYS, 40, 70, version=version)
    recent = sp.SavepointReader.read(spark, answer["savepoint"]).read_keyed_state("main", "recent")
    last.feed(70, 90)
    last.run(with_expiring_state(last, recent.selectExpr("key AS customer", "value AS recent")), "update", once=True)
    valid = events(spark, 0, 90, KEYS).where("customer <> 'user 0' OR time > timestamp_millis(40 * 7000)")
    assert rows(last.state().read_state("recent").drop("expires_at")) == rows(valid.groupBy("customer").agg(expr("SUM(amount)")))


def sums(df: DataFrame, job: str) -> DataFrame:
    window = {"windows": "window(time, '60 seconds')", "sessions": "session_window(time, '30 seconds')"}[job]
    return df.groupBy(expr(f"{window} AS window"), "customer").agg(expr("SUM(amount) AS sum"))


@pytest.fixture(scope="module")
def windows(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Query]:
    """The job of Flink, and a query with open windows."""
    query = Query(spark, tmp_path_factory.mktemp("windows"), KEYS)
    query.feed(0, 60)
    query.run(sums(query.stream(), request.param))
    return request.param, query


@pytest.mark.parametrize(
    ("windows", "version"),
    product(("windows", "sessions"), (OLD, VERSION)) if EVERY_CASE else (("windows", OLD), ("sessions", VERSION)),
    indirect=["windows"],
)
def test_open_windows_fire_in_flink(spark: SparkSession, windows: tuple[str, Query], tmp_path: Path, version: str) -> None:
    job, query = windows
    opened = query.state().read_state()
    if job == "sessions":
        opened = opened.selectExpr("customer", "session_window AS window", "sum")
    writer = new_writer(spark, version)
    writer.with_keyed_state(
        "main",
        opened,
        "customer",
        columns={"sum": "window-contents"},
        states={"sum": sp.AggregatingState(LONG, namespace=WINDOW)},
    )
    timers = opened.selectExpr("customer", "window", "unix_millis(window.end) - 1 AS timestamp", "'window-timers' AS service")
    writer.with_timers("main", timers, "customer", namespace=WINDOW)
    if job == "sessions":
        merging = opened.groupBy("customer").agg(
            expr("collect_list(struct(window AS f0, window AS f1))").alias("merging-window-set")
        )
        pair = sp.Types.TUPLE([WINDOW, WINDOW])
        writer.with_keyed_state("main", merging, "customer", states={"merging-window-set": sp.ListState(pair)})
    writer.write(tmp_path / "savepoint")

    answer = streamed(tmp_path / "savepoint", tmp_path / "flink", job, KEYS, 60, 90, version=version, ends=True)
    label = "concat_ws(' ', customer, unix_millis(window.start), unix_millis(window.end), sum)"
    emitted = [row[0] for row in spark.read.parquet(str(query.results)).selectExpr(label).collect()]
    everything = [row[0] for row in sums(events(spark, 0, 90, KEYS), job).selectExpr(label).collect()]
    assert len(emitted) > 10
    assert len(answer["emitted"]) > 10
    assert sorted([*emitted, *answer["emitted"]]) == sorted(everything)


def test_keys_that_spark_has_seen_are_duplicates_in_flink(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, 25)
    query.feed(0, 30)
    query.run(query.stream().dropDuplicatesWithinWatermark(["customer"]))
    seen = query.state().read_state()
    users = {row.customer for row in seen.collect()}
    writer = new_writer(spark)
    writer.with_keyed_state("main", seen.selectExpr("customer", "true AS seen"), "customer", states={"seen": sp.Types.BOOLEAN()})
    writer.with_timers("main", seen.selectExpr("customer", "expiresAtMicros DIV 1000 AS timestamp"), "customer")
    writer.write(tmp_path / "savepoint")
    answer = streamed(tmp_path / "savepoint", tmp_path / "flink", "distinct", 25, 30, 45)
    later = {row.customer for row in events(spark, 30, 45, 25).collect()}
    assert users & later
    assert {text.rpartition(" ")[0] for text in answer["emitted"]} == later - users
    ended = streamed(Path(answer["savepoint"]), tmp_path / "ended", "distinct", 25, 45, 45, ends=True)
    assert sp.open(ended["savepoint"]).count("main", "seen") == 0


def test_buffers_of_an_aggregation_go_on_in_flink_sql(spark: SparkSession, tmp_path: Path) -> None:
    functions = [expr(f) for f in ("COUNT(*)", "SUM(amount)", "AVG(amount)", "MIN(amount)", "MAX(item)")]
    query = Query(spark, tmp_path / "spark", KEYS)
    query.feed(0, 40)
    query.run(query.stream().groupBy("customer").agg(*functions), "update")
    fields = "count AS f0, sum AS f1, CAST(sum_2 AS BIGINT) AS f2, count_2 AS f3, min AS f4, max AS f5"
    buffers = query.state().read_state().selectExpr("struct(customer) AS key", f"struct({fields}) AS accState")

    stored = unpacked("sql") / VERSION / "group-aggregate"
    plan, started = Path(shutil.copy(stored / "plan.json", tmp_path)), str(stored / "savepoint")
    accumulators = sp.open(started, plan=plan).types("6_group-aggregate")["accState"]
    writer = sp.SavepointWriter.from_existing(spark, started, plan=plan)
    writer.with_keyed_state("6_group-aggregate", buffers, states={"accState": accumulators})
    writer.remove_operator("1_source").write(tmp_path / "savepoint")

    later = events(spark, 40, 60, KEYS)
    lines = [f"{number},{row.customer},{row.item},{row.amount},2024-01-01 00:00:00" for number, row in enumerate(later.collect())]
    sql_queries.write_lines(tmp_path / "files", "1", {"orders": lines})
    continued = sql_queries.request(
        sql_queries.QUERIES["group-aggregate"],
        tmp_path / "files",
        plan,
        origin=tmp_path / "savepoint",
        to=str(tmp_path),
        drain=True,
    )
    (answer,) = sql_queries.answered(VERSION, [continued | {"lines": len(lines)}])
    results = {change[2:] for change in answer["changes"] if change.startswith("+U")}
    whole = events(spark, 0, 60, KEYS).groupBy("customer").agg(*functions).collect()
    expected = {f"[{row[0]}, {row[1]}, {row[2]}, {int(row[3])}, {row[4]}, {row[5]}]" for row in whole}
    assert len(expected) == KEYS
    assert expected <= results
    assert not any(change.startswith("+I") for change in answer["changes"])
