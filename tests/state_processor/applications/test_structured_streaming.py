"""State of Structured Streaming as rows. What Flink makes of it is in tests/interop/test_structured_streaming.py."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import expr

import state_processor as sp
from state_processor.applications.structured_streaming import _flat
from tests.archives import unpacked
from tests.interop.streamed_queries import PROVIDER, ROCKSDB, Query, events, specimen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STORED = unpacked("streaming") / "4.3.0"


def opened(spark: SparkSession, name: str) -> sp.StreamingCheckpoint:
    return sp.StreamingCheckpoint(spark, STORED / name)


@pytest.fixture(scope="module")
def variables_path(spark: SparkSession) -> Path:
    """The checkpoint of a query with variables. A test that changes it puts it back."""
    return specimen(spark, "variables")


@pytest.fixture(scope="module")
def variables(spark: SparkSession, variables_path: Path) -> sp.StreamingCheckpoint:
    return sp.StreamingCheckpoint(spark, variables_path)


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(STORED / name, tmp_path / name))


@pytest.mark.parametrize(
    ("name", "options", "columns", "number"),
    [
        ("aggregates", {}, "customer count sum sum_2 count_2 min max", 5),
        ("windows", {}, "window customer sum", None),
        ("sessions", {}, "customer sessionStartTime session_window customer_2 sum", None),
        ("distinct", {}, "customer expiresAtMicros", None),
        ("join", {"side": "left"}, "customer amount item time", None),
        ("join", {"side": "right"}, "buyer bought other", None),
        ("groups", {}, "customer groupState timeoutTimestamp", 5),
        ("several", {"operator": 0}, "window customer count", None),
        ("several", {"operator": 1}, "customer time __dummy__", None),
    ],
)
def test_rows_have_plain_columns(spark: SparkSession, name: str, options: Any, columns: str, number: int | None) -> None:
    rows = opened(spark, name).read_state(**options)
    assert rows.columns == columns.split()
    count = rows.count()
    assert count == number or (number is None and count)


def test_columns_of_the_same_name_keep_their_values(spark: SparkSession) -> None:
    functions = [
        expr(f) for f in ("COUNT(*)", "SUM(amount)", "CAST(SUM(amount) AS DOUBLE)", "COUNT(amount)", "MIN(amount)", "MAX(item)")
    ]
    expected = events(spark, 0, 40, 5).groupBy("customer").agg(*functions)
    state = opened(spark, "aggregates").read_state()
    assert [field.dataType for field in state.schema] == [field.dataType for field in expected.schema]
    assert sorted(map(str, state.toArrow().to_pylist())) == sorted(map(str, expected.toDF(*state.columns).toArrow().to_pylist()))


def test_numbered_names_are_different_from_names_of_keys(spark: SparkSession) -> None:
    key, value = "named_struct('sum_2', 'a', 'Sum', 'b')", "named_struct('sum', 1L, 'sum', 2D, 'count', 3L)"
    state = _flat(spark.sql(f"SELECT {key} AS key, {value} AS value"))
    assert [row.asDict() for row in state.collect()] == [{"sum_2": "a", "Sum": "b", "sum_3": 1, "sum_4": 2.0, "count": 3}]


def test_buffers_of_small_decimals_are_without_their_point(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, 5)
    query.feed(0, 40)
    functions = [expr(f"{function}(CAST(amount AS DECIMAL({digits}, 2)))") for function, digits in (("SUM", 8), ("AVG", 11))]
    query.run(query.untimed().groupBy("customer").agg(*functions), "update")
    sums = events(spark, 0, 40, 5).groupBy("customer").agg(expr("100 * SUM(amount)"))
    state = query.state().read_state()
    assert state.columns == ["customer", "sum", "sum_2", "count"]
    assert sorted(map(tuple, state.select("customer", "sum").collect())) == sorted(map(tuple, sums.collect()))
    assert state.where("sum <> sum_2").count() == 0


def test_an_operator_without_keys_has_one_partition(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, 5)
    query.feed(0, 40)
    query.run(query.untimed().groupBy().agg(expr("SUM(amount)")), "update")
    assert query.state().read_state().collect() == events(spark, 0, 40, 5).agg(expr("SUM(amount)")).collect()
    shutil.rmtree(query.checkpoint / "state" / "0" / "0")
    with pytest.raises(sp.MissingFileError, match="partitions 0, 1 don't have it"):
        query.state().read_state()


@pytest.mark.parametrize("name", ["q[1]", "q{a,b}", "q*", "q?", "q 1", "q%201", "q\\1"])
def test_paths_that_spark_changes_are_refused(spark: SparkSession, tmp_path: Path, name: str) -> None:
    shutil.copytree(STORED / "distinct", tmp_path / "q1")
    with pytest.raises(sp.OptionError, match=r"expected the path of one checkpoint. Spark does not read state from a path with"):
        sp.StreamingCheckpoint(spark, tmp_path / name)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("aggregates", {PROVIDER: ROCKSDB.replace("RocksDBStateStore", "HDFSBackedStateStore")}),
        ("aggregates", {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}),
        ("join", {"spark.sql.streaming.join.stateFormatVersion": "3"}),
        ("join", {PROVIDER: ROCKSDB.replace("RocksDBStateStore", "HDFSBackedStateStore")}),
        ("variables", {"spark.sql.streaming.stateStore.encodingFormat": "avro"}),
    ],
    ids=["memory", "changelog", "join-families", "join-memory", "avro"],
)
def test_formats_of_the_state_store(
    spark: SparkSession, variables: sp.StreamingCheckpoint, tmp_path: Path, name: str, settings: dict[str, str]
) -> None:
    checkpoint = specimen(spark, name, tmp_path, settings)
    options: dict[str, Any] = {"join": {"side": "left"}, "variables": {"state": "count"}}.get(name, {})
    usual = variables if name == "variables" else opened(spark, name)
    states = [state.read_state(**options) for state in (sp.StreamingCheckpoint(spark, checkpoint), usual)]
    read, expected = (sorted(map(str, state.collect())) for state in states)
    assert read == expected
    shutil.rmtree(checkpoint / "state" / "0" / "1")
    with pytest.raises(sp.MissingFileError, match="partitions 1 don't have it"):
        sp.StreamingCheckpoint(spark, checkpoint).read_state(**options)


def test_checkpoints_with_unique_ids_need_a_setting_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    setting = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    state = sp.StreamingCheckpoint(spark, specimen(spark, "aggregates", tmp_path, {setting: "2"}))
    with pytest.raises(sp.OptionError, match=rf"spark\.conf\.set\('{setting}', '2'\)"):
        state.read_state()
    spark.conf.set(setting, "2")
    try:
        assert sorted(state.read_state().collect()) == sorted(opened(spark, "aggregates").read_state().collect())
    finally:
        spark.conf.unset(setting)


def test_values_leave_the_structures_of_spark(spark: SparkSession, variables: sp.StreamingCheckpoint) -> None:
    state = variables
    assert state.read_state("count").columns == ["customer", "count"]
    amounts = {row.customer: row.amounts for row in state.read_state("amounts").collect()}
    digits = {row.customer: row.digits for row in state.read_state("digits").collect()}
    counts = {row.customer: row["count"] for row in state.read_state("count").collect()}
    assert sum(counts.values()) == 40
    assert {customer: len(values) for customer, values in amounts.items()} == counts
    assert {customer: sum(values.values()) for customer, values in digits.items()} == counts
    assert {row.timestamp for row in state.read_timers().collect()} == {1_000_000_000_000}


def test_names_and_types_that_look_like_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    state = sp.StreamingCheckpoint(spark, specimen(spark, "awkward", tmp_path))
    counts, timers = state.read_state("count"), state.read_timers()
    assert counts.columns == ["Count", "timestamp", "count_2"]
    assert sum(row.count_2.value for row in counts.collect()) == 40
    assert {row.count_2.ttlExpirationMs for row in counts.collect()} == {7}
    assert timers.columns == ["Count", "timestamp", "timestamp_2", "domain"]
    assert {(row.timestamp_2, row.domain) for row in timers.collect()} == {(4_000_000_000_000, "processing_time")}
    assert timers.count() == counts.count()


def test_a_query_without_time_does_not_have_timers(spark: SparkSession, variables_path: Path) -> None:
    (described,) = (variables_path / "state" / "0" / "_metadata" / "v2").glob("0")
    before = {file: file.read_bytes() for file in (described, described.with_name(".0.crc"))}
    try:
        described.write_text(described.read_text("utf-8").replace("EventTime", "None"), "utf-8")
        described.with_name(".0.crc").unlink()
        with pytest.raises(sp.OptionError, match="operator 0 does not have timers: its time mode is None"):
            sp.StreamingCheckpoint(spark, variables_path).read_timers()
    finally:
        for file, content in before.items():
            file.write_bytes(content)


def test_values_with_time_to_live_have_their_expiry(spark: SparkSession) -> None:
    state = sp.StreamingCheckpoint(spark, specimen(spark, "expiring"))
    expiries = [
        {row.customer: row.expires_at for row in state.read_state(name).collect()} for name in ("recent", "amounts", "digits")
    ]
    assert all(expiry.year > 2025 for expiry in expiries[0].values())
    assert expiries[1:] == expiries[:1] * 2  # one batch wrote all of them
    amounts = {row.customer: row.amounts for row in state.read_state("amounts").collect()}
    assert {row.customer: row.recent for row in state.read_state("recent").collect()} == {c: sum(v) for c, v in amounts.items()}
    for row in state.read_state("digits").collect():
        lasts = {digit: value.last % 10 for digit, value in row.digits.items()}
        assert lasts == {amount % 10: amount % 10 for amount in amounts[row.customer]}


def test_a_checkpoint_says_where_the_query_goes_on(spark: SparkSession) -> None:
    windows = opened(spark, "windows")
    assert windows.offsets == {"0": {"logOffset": 0}}
    assert windows.watermark is not None
    assert windows.watermark.isoformat() == "1970-01-01T00:03:40+00:00"
    assert opened(spark, "aggregates").watermark is None
    before = sp.StreamingCheckpoint(spark, STORED / "windows", batch=0).read_state()
    assert before.count() > windows.read_state().count()  # the watermark closed windows


def test_operators(spark: SparkSession, variables: sp.StreamingCheckpoint) -> None:
    rows = opened(spark, "join").operators().collect()
    assert [row.store for row in rows] == [
        f"{s}-{k}" for s in ("left", "right") for k in ("keyToNumValues", "keyWithIndexToValue")
    ]
    (row,) = variables.operators().collect()
    assert (row.operator, row.variables, row.partitions) == (0, ["amounts", "count", "digits"], 2)


@pytest.mark.parametrize(
    ("name", "options", "error", "text"),
    [
        ("join", {}, sp.OptionError, "operator 0 is symmetricHashJoin: side='left' or 'right' is needed"),
        ("windows", {"side": "left"}, sp.OptionError, "side= is for joins"),
        ("windows", {"state": "sum"}, sp.OptionError, "leave out state='sum'"),
        ("windows", {"operator": 3}, sp.NotFoundError, "does not have an operator 3 with state; it has 0 (stateStoreSave)"),
        ("several", {}, sp.OptionError, "pass operator=, one of 0 (stateStoreSave), 1 (dedupe)"),
    ],
)
def test_options_that_do_not_fit(spark: SparkSession, name: str, options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as refused:
        opened(spark, name).read_state(**options)
    assert text in str(refused.value)


@pytest.mark.parametrize("name", ["counts", None, "$eventTimers_keyToTimestamp"])
def test_variables_that_do_not_exist(variables: sp.StreamingCheckpoint, name: str | None) -> None:
    with pytest.raises(sp.NotFoundError, match=r"it has 'amounts', 'count', 'digits'"):
        variables.read_state(name)


def test_a_checkpoint_with_variables_that_was_moved(spark: SparkSession, variables_path: Path, tmp_path: Path) -> None:
    moved = variables_path.rename(tmp_path / "moved")
    try:
        with pytest.raises(sp.MissingFileError, match=r"Spark looks for \S+/checkpoint/state/0/\S+\. .*copy it back there"):
            sp.StreamingCheckpoint(spark, moved).read_state("count")
    finally:
        moved.rename(variables_path)


def test_timers_of_other_operators(spark: SparkSession) -> None:
    with pytest.raises(sp.OptionError, match="operator 0 is dedupeWithinWatermark: only transformWithState has timers"):
        opened(spark, "distinct").read_timers()


@pytest.mark.parametrize(
    ("lost", "text"),
    [
        ("state/0/1", r"expected 2 partitions with version 2 for batch 1; partitions 1 don't have it"),
        ("state/0/0", r"partitions 0 don't have it"),
        ("state/0/*", r"partitions 0, 1 don't have it"),
    ],
)
@pytest.mark.parametrize("name", ["windows", "join"])
def test_missing_partitions_are_refused(
    spark: SparkSession, copied: Callable[[str], Path], name: str, lost: str, text: str
) -> None:
    checkpoint = copied(name)
    for directory in checkpoint.glob(lost):
        if not directory.name.startswith("_"):
            shutil.rmtree(directory)
    with pytest.raises(sp.MissingFileError, match=text):
        sp.StreamingCheckpoint(spark, checkpoint).read_state(side="left" if name == "join" else None)


def test_a_batch_that_was_not_committed(spark: SparkSession, copied: Callable[[str], Path]) -> None:
    checkpoint = copied("windows")
    (checkpoint / "offsets" / "2").write_text((checkpoint / "offsets" / "1").read_text("utf-8"), "utf-8")
    with pytest.raises(sp.OptionError, match=r"batch 2 began and was not committed.*pass batch=1"):
        sp.StreamingCheckpoint(spark, checkpoint)
    assert sp.StreamingCheckpoint(spark, checkpoint, batch=1).read_state().count()
    with pytest.raises(sp.NotFoundError, match="batch 2 is not committed; the log has 0 to 1"):
        sp.StreamingCheckpoint(spark, checkpoint, batch=2)


def test_directories_that_are_not_checkpoints(spark: SparkSession, copied: Callable[[str], Path], tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", Path(sp.sample_savepoint())):
        with pytest.raises(sp.NotASnapshotError, match="does not have a committed batch"):
            sp.StreamingCheckpoint(spark, path)
    checkpoint = copied("windows")
    shutil.rmtree(checkpoint / "state")
    with pytest.raises((sp.NotASnapshotError, sp.UnsupportedFormatError), match="state"):
        sp.StreamingCheckpoint(spark, checkpoint).read_state()


def test_sources_with_names(spark: SparkSession, copied: Callable[[str], Path]) -> None:
    checkpoint = copied("windows")
    (checkpoint / "offsets" / ".1.crc").unlink()
    (checkpoint / "offsets" / "1").write_text('v2\n{}\norders:{"events":{"0":7}}\nclicks:-', "utf-8")
    assert sp.StreamingCheckpoint(spark, checkpoint).offsets == {"orders": {"events": {"0": 7}}, "clicks": None}


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("v9\n{}\n{}", sp.UnsupportedFormatError),
        ("v1", sp.CorruptSnapshotError),
        ("v2\n", sp.CorruptSnapshotError),
    ],
)
def test_logs_that_are_not_known(
    spark: SparkSession, copied: Callable[[str], Path], content: str, error: type[Exception]
) -> None:
    checkpoint = copied("windows")
    for log in ("offsets", "commits"):
        (checkpoint / log / ".1.crc").unlink(missing_ok=True)
        (checkpoint / log / "1").write_text(content, "utf-8")
    for read in ("offsets", "watermark"):
        with pytest.raises(error, match=r"/1 "):
            getattr(sp.StreamingCheckpoint(spark, checkpoint), read)
