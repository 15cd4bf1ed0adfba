"""The stream of changes: offsets, what a micro-batch has, and what becomes of it when checkpoints are removed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles

import state_processor as sp
from state_processor.applications.changes.changes_source import (
    ChangesReader,
    FlinkSavepointChangesDataSource,
    LimitedChangesReader,
)
from state_processor.backends.metadata import discovery
from state_processor.backends.metadata.snapshot_metadata import read_metadata
from state_processor.options.user_serializers import TaskSerializers
from state_processor.serializers import register_kryo_class, registrations
from tests.state_processor.written_checkpoints import JOB, UID, remove, rows, take, take_regional

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPTIONS = {"uid": UID, "state": "total"}
LATER: Mapping[str, Any] = {"amelia": 5, "newcomer": 6, "anders": None}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints" / JOB


def source(job: Path, **options: str) -> FlinkSavepointChangesDataSource:
    return FlinkSavepointChangesDataSource({"path": str(job.parent), **OPTIONS, **options})


def reader(job: Path, **options: str) -> LimitedChangesReader:
    opened = source(job, **options)
    found = opened.streamReader(opened.schema())
    assert isinstance(found, LimitedChangesReader)
    return found


def older(job: Path, **options: str) -> ChangesReader:
    """The reader of Spark 4.0 and 4.1."""
    found = reader(job, **options)
    return ChangesReader(found._options, found._schema, found._serializers)


def read(of: ChangesReader, start: Any, end: Any) -> list[dict[str, Any]]:
    """The rows of a micro-batch; offsets take the way through Spark's log."""
    start, end = (json.loads(json.dumps(offset)) for offset in (start, end))
    return [row for part in of.partitions(start, end) for batch in of.read(part) for row in batch.to_pylist()]


def changes(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((r["_checkpoint_id"], r["_change"], r["key"], r["value"]) for r in found)


def limit(number: int) -> ReadLimit:
    return ReadMaxFiles(number)


def begun(stream: LimitedChangesReader) -> Any:
    """The end of the first micro-batch of a query that begins with the newest checkpoint."""
    return stream.latestOffset(stream.initialOffset(), limit(1))


def test_each_checkpoint_is_a_micro_batch(job: Path) -> None:
    take(job, 1)
    stream = reader(job)
    assert stream.getDefaultReadLimit() == limit(1)
    start = begun(stream)
    assert read(stream, stream.initialOffset(), start) == []
    assert stream.latestOffset(start, limit(1)) == start
    take(job, 2, LATER)
    take(job, 3, {"amelia": 7})
    first = stream.latestOffset(start, limit(1))
    found = read(stream, start, first)
    (before,) = (value for key, value in rows(job / "chk-1") if key == "anders")
    assert before is not None
    assert changes(found) == [(2, "delete", "anders", None), (2, "insert", "newcomer", 6), (2, "update", "amelia", 5)]
    assert {(r["_full"], r["_checkpoint_time"].timestamp()) for r in found} == {(False, 1_700_000_002)}
    second = stream.latestOffset(first, limit(1))
    assert changes(read(stream, first, second)) == [(3, "update", "amelia", 7)]
    assert stream.latestOffset(second, limit(1)) == second
    both = stream.latestOffset(start, limit(5))
    assert both == stream.latestOffset(start, ReadAllAvailable())
    assert changes(read(stream, start, both)) == sorted([*changes(read(stream, start, first)), (3, "update", "amelia", 7)])
    assert read(stream, start, start) == []


def test_a_look_reads_the_metadata_of_new_checkpoints_alone(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2, 3):
        take(job, number, {"amelia": number})
    read_by_looks: list[str] = []

    def noted(content: Any, path: str) -> Any:
        read_by_looks.append(path)
        return read_metadata(content, path)

    stream = reader(job)
    monkeypatch.setattr(discovery, "read_metadata", noted)
    start = begun(stream)
    assert len(read_by_looks) == 3
    assert stream.latestOffset(start, limit(1)) == start
    assert len(read_by_looks) == 3
    last = take(job, 4, {"amelia": 4})
    assert stream.latestOffset(start, limit(1)) != start
    assert read_by_looks[3:] == [str(last / "_metadata")]


@pytest.mark.parametrize(("start", "ids"), [("earliest", {2, 3}), ("2", {3}), ("latest", set()), ("snapshot", {3})])
def test_starting_checkpoint(start: str, ids: set[int], job: Path) -> None:
    for number, totals in ((1, {}), (2, LATER), (3, {"amelia": 7})):
        take(job, number, totals)
    stream = reader(job, startingCheckpoint=start)
    initial = stream.initialOffset()
    found = read(stream, initial, stream.latestOffset(initial, ReadAllAvailable()))
    assert {r["_checkpoint_id"] for r in found} == ids
    if start == "snapshot":
        assert sorted((r["key"], r["value"]) for r in found) == rows(job / "chk-3")
        assert {(r["_change"], r["_full"]) for r in found} == {("insert", True)}


def test_values_before(job: Path) -> None:
    take(job, 1, {"amelia": 4})
    stream = reader(job, before="true", state="items")
    start = begun(stream)
    take(job, 2, {"amelia": 5})
    (row,) = read(stream, start, stream.latestOffset(start, limit(1)))
    assert list(row) == [
        "_change",
        "_checkpoint_id",
        "_checkpoint_time",
        "_full",
        *("key", "map_key", "map_value"),
        "before",
    ]
    assert (row["key"], row["map_key"], row["map_value"], row["before"]) == ("amelia", "mug", 5, 4)


def test_a_repeated_micro_batch_is_the_same_or_full(job: Path) -> None:
    """Spark plans a micro-batch again after a restart: with the same offsets, in a new process."""
    for number, totals in ((1, {}), (2, LATER), (3, {"amelia": 7})):
        take(job, number, totals)
    first = reader(job, startingCheckpoint="1")
    start = first.initialOffset()
    end = first.latestOffset(start, limit(1))
    once = read(reader(job), start, end)
    assert changes(read(reader(job), start, end)) == changes(once)
    remove(job / "chk-1")
    found = read(reader(job), start, end)
    assert {(r["_checkpoint_id"], r["_full"], r["_change"]) for r in found} == {(2, True, "insert")}
    assert sorted((r["key"], r["value"]) for r in found) == rows(job / "chk-2")
    remove(job / "chk-2")
    found = read(reader(job), start, end)
    assert {(r["_checkpoint_id"], r["_full"]) for r in found} == {(3, True)}
    assert sorted((r["key"], r["value"]) for r in found) == rows(job / "chk-3")
    following = reader(job).latestOffset(end, limit(1))
    assert {(r["_checkpoint_id"], r["_full"]) for r in read(reader(job), end, following)} == {(3, True)}
    with pytest.raises(
        sp.MissingFileError, match=r"checkpoint 1 in .* was removed before its changes were read\. Set failOnDataLoss"
    ):
        read(reader(job, failOnDataLoss="true"), start, end)


def test_the_first_micro_batch_is_repeated_where_the_query_began(job: Path) -> None:
    """Spark logs its end alone; newer checkpoints, or an id that is gone, do not move the begin."""
    take(job, 1)
    end = begun(reader(job))
    take(job, 2, {"amelia": 2})
    again = reader(job)
    assert read(again, again.initialOffset(), end) == []
    assert changes(read(again, end, again.latestOffset(end, limit(1)))) == [(2, "update", "amelia", 2)]
    by_id = reader(job, startingCheckpoint="1")
    end = by_id.latestOffset(by_id.initialOffset(), limit(1))
    remove(job / "chk-1")
    found = read(by_id, by_id.initialOffset(), end)
    assert {(r["_checkpoint_id"], r["_full"]) for r in found} == {(2, True)}


def test_a_second_plan_of_a_micro_batch_is_the_same(job: Path) -> None:
    """Spark plans a micro-batch for each action of ``foreachBatch``: rows are not full for one, and changes for another."""
    take(job, 1)
    stream = reader(job)
    start = begun(stream)
    take(job, 2, LATER)
    end = stream.latestOffset(start, limit(1))
    parts = stream.partitions(start, end)
    remove(job / "chk-1")
    take(job, 3, start=job / "chk-2")
    assert stream.partitions(start, end) == parts
    with pytest.raises(sp.MissingFileError, match="was removed while it was read"):
        read(stream, start, end)


def test_a_micro_batch_ends_where_numbers_of_checkpoints_go_back(job: Path) -> None:
    """A job is restored from an earlier checkpoint: sinks order a micro-batch by the number."""
    for number in (1, 2, 3):
        take(job, number, {"amelia": number})
    take(job, 12, {"amelia": 12})
    restored = job.parent / ("f" * 32)
    for number in (13, 14):
        take(restored, number, {"amelia": 100 + number}, start=job / "chk-1")
    take(job, 13, {"amelia": 13})
    (job / "chk-13" / "_metadata").touch()
    for number in (13, 14):
        (restored / f"chk-{number}" / "_metadata").touch()
    stream = reader(job, startingCheckpoint="12")
    first = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    second = stream.latestOffset(first, ReadAllAvailable())
    assert changes(read(stream, stream.initialOffset(), first)) == [(13, "update", "amelia", 13)]
    assert {(r["_checkpoint_id"], r["value"]) for r in read(stream, first, second) if r["key"] == "amelia"} == {
        (13, 113),
        (14, 114),
    }
    earlier = older(job, startingCheckpoint="12")
    found = read(earlier, earlier.initialOffset(), earlier.latestOffset())
    assert {(r["_checkpoint_id"], r["_full"]) for r in found} == {(14, True)}
    assert sorted((r["key"], r["value"]) for r in found) == rows(restored / "chk-14")


def test_a_checkpoint_without_the_state(job: Path) -> None:
    """A job that starts again without state registers it with its first record."""
    first = take(job, 1)
    stream = reader(job)
    offset = begun(stream)
    for number in (2, 3):
        sp.arrow.SavepointWriter.from_existing(first).remove_state(UID, "total").write(
            job / f"chk-{number}", checkpoint_id=number
        )
    take(job, 4, {"amelia": 4}, start=first)
    (job / "chk-4" / "_metadata").touch()
    found = []
    for _ in range(3):
        offset, before = stream.latestOffset(offset, limit(1)), offset
        found.append(read(stream, before, offset))
    assert {r["_change"] for r in found[0]} == {"delete"}
    assert len(found[0]) == len(rows(first))
    assert found[1] == []
    assert sorted((r["key"], r["value"]) for r in found[2]) == rows(job / "chk-4")


def test_the_checkpoint_of_a_query_belongs_to_one_state(job: Path) -> None:
    take(job, 1)
    offset = begun(reader(job))
    other = reader(job, state="session")
    with pytest.raises(
        sp.OptionError, match=r"has read state 'total' of operator [0-9a-f]{32}, not state 'session' of .*: choose"
    ):
        other.latestOffset(offset, limit(1))
    with pytest.raises(sp.OptionError, match="choose another checkpointLocation"):
        other.partitions(offset, offset)


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({"timeZone": "America/New_York"}, "timeZone was not set and is America/New_York"),
        ({"nanos": "string"}, "nanos was not set and is string"),
        ({"before": "true"}, "before was False and is True"),
    ],
)
def test_a_query_goes_on_with_the_options_of_its_start(options: dict[str, str], changed: str, job: Path) -> None:
    take(job, 1)
    offset = begun(reader(job))
    take(job, 2, LATER)
    other = reader(job, **options)
    message = f"the query has read other rows until now: .*{changed}.* start a new query with another checkpointLocation"
    with pytest.raises(sp.OptionError, match=message):
        other.latestOffset(offset, limit(1))
    with pytest.raises(sp.OptionError, match=message):
        other.partitions(offset, offset)
    assert reader(job, batchMemory="1m", timeZone="UTC").latestOffset(offset, limit(1)) != offset


def test_a_query_goes_on_with_the_version_and_the_registrations_of_its_start(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take(job, 1)
    offset = begun(reader(job))
    with registrations():
        register_kryo_class("com.acme.Money", {"amount": sp.Types.LONG()})
        code = TaskSerializers.of_driver(())
    with monkeypatch.context() as patch:
        patch.setattr(FlinkSavepointChangesDataSource, "code", code)
        with pytest.raises(sp.OptionError, match="the content of the registrations was "):
            reader(job).latestOffset(offset, limit(1))
    monkeypatch.setattr(sp, "__version__", "99.0")
    with pytest.raises(sp.OptionError, match=r"the version of state-processor was .* and is 99\.0"):
        reader(job).latestOffset(offset, limit(1))
    del offset["rows"]
    with pytest.raises(sp.OptionError, match="the options of its rows were not recorded"):
        reader(job).latestOffset(offset, limit(1))


@pytest.mark.parametrize("made", [reader, older])
def test_a_directory_that_was_rolled_back(made: Any, job: Path, tmp_path: Path) -> None:
    """The newest checkpoint is older than the one of the query: the micro-batch has all of its values."""
    first = take(job, 1, {"amelia": 1})
    backup = shutil.copytree(job, tmp_path / "backup")
    start = begun(reader(job))
    take(job, 2, LATER)
    second = reader(job).latestOffset(start, limit(1))
    shutil.rmtree(job)
    shutil.copytree(backup, job)
    stream = made(job)
    end = stream.latestOffset(second, limit(1)) if isinstance(stream, LimitedChangesReader) else stream.latestOffset()
    found = read(stream, second, end)
    assert {r["_full"] for r in found} == {True}
    assert sorted((r["key"], r["value"]) for r in found) == rows(first)


def test_a_checkpoint_that_was_replaced_with_the_same_time(job: Path) -> None:
    take(job, 1, {"amelia": 1})
    stream = reader(job)
    start = begun(stream)
    times = (job / "chk-1" / "_metadata").stat()
    remove(job / "chk-1")
    take(job, 1, {"amelia": 2})
    os.utime(job / "chk-1" / "_metadata", ns=(times.st_atime_ns, times.st_mtime_ns))
    end = stream.latestOffset(start, limit(1))
    found = read(stream, start, end)
    assert {r["_full"] for r in found} == {True}
    assert sorted((r["key"], r["value"]) for r in found) == rows(job / "chk-1")


def test_a_renamed_operator_is_not_an_empty_state(job: Path) -> None:
    first = take(job, 1)
    stream = reader(job)
    start = begun(stream)
    renamed = sp.arrow.SavepointWriter.from_existing(first).change_operator_identifier(UID, "orders-v2")
    renamed.write(job / "chk-2", checkpoint_id=2)
    end = stream.latestOffset(start, limit(1))
    with pytest.raises(
        sp.NotFoundError, match=r"operator orders any more\. Its new name is likely 'orders-v2'.* allowMissing=true"
    ):
        read(stream, start, end)
    stream._options = replace(stream._options, allow_missing=True)
    assert {change for _, change, _, _ in changes(read(stream, start, end))} == {"delete"}


def test_a_checkpoint_that_is_removed_while_tasks_read(job: Path) -> None:
    take(job, 1)
    stream = reader(job)
    start = begun(stream)
    take(job, 2, LATER)
    parts = stream.partitions(start, stream.latestOffset(start, limit(1)))
    for file in (p for p in (job / "chk-1").iterdir()):
        file.unlink()
    with pytest.raises(sp.MissingFileError, match=r"was removed while it was read\. Start again: the next read continues with"):
        [list(stream.read(part)) for part in parts]


def test_a_full_micro_batch_of_an_empty_state(job: Path) -> None:
    last = take(job, 1)
    keys = {key for state in ("total", "items") for key, *_ in rows(last, state)}
    stream = reader(job, startingCheckpoint="snapshot")
    take(job, 2, dict.fromkeys(keys))
    (row,) = read(stream, start := stream.initialOffset(), stream.latestOffset(start, limit(1)))
    assert (row["_change"], row["_checkpoint_id"], row["_full"], row["key"], row["value"]) == (None, 2, True, None, None)


def test_available_now_ends_at_the_newest_checkpoint_of_its_start(job: Path) -> None:
    for number in (1, 2, 3):
        take(job, number, {"amelia": number})
    stream = reader(job, startingCheckpoint="earliest")
    stream.prepareForTriggerAvailableNow()
    take(job, 4, {"amelia": 4})
    offset, seen = stream.initialOffset(), []
    while (following := stream.latestOffset(offset, limit(1))) != offset:
        offset = following
        seen.append(offset["checkpoint"]["checkpoint_id"])
    assert seen == [2, 3]


@pytest.mark.parametrize("start", ["snapshot", "1"])
def test_available_now_reads_a_newer_checkpoint_if_its_end_is_gone(start: str, job: Path) -> None:
    """A query that runs for a moment each hour gets on, however fast the job takes checkpoints."""
    for number in (1, 2):
        take(job, number, {"amelia": number})
    stream = reader(job, startingCheckpoint=start)
    offset = stream.latestOffset(stream.initialOffset(), limit(1))
    stream = reader(job, startingCheckpoint=start)
    stream.prepareForTriggerAvailableNow()
    take(job, 3, {"amelia": 3})
    assert stream.latestOffset(offset, limit(1)) == offset
    take(job, 4, {"amelia": 4})
    stream.prepareForTriggerAvailableNow()
    take(job, 5, {"amelia": 5})
    for number in (1, 2, 3, 4):
        remove(job / f"chk-{number}")
    following = stream.latestOffset(offset, limit(1))
    assert {(r["_checkpoint_id"], r["_full"]) for r in read(stream, offset, following)} == {(5, True)}
    assert stream.latestOffset(following, limit(1)) == following
    first = stream.latestOffset(stream.initialOffset(), limit(1)) if start == "snapshot" else following
    assert first["checkpoint"]["checkpoint_id"] == 5


def test_the_first_micro_batch_of_older_versions_is_repeated_where_the_query_began(job: Path) -> None:
    take(job, 1)
    stream = older(job)
    end = stream.latestOffset()
    take(job, 2, {"amelia": 2})
    assert read(stream, stream.initialOffset(), end) == []
    assert changes(read(stream, end, stream.latestOffset())) == [(2, "update", "amelia", 2)]
    missing = older(job, startingCheckpoint="7")
    with pytest.raises(sp.NotFoundError, match="checkpoint 7 of the option startingCheckpoint was not whole at the start"):
        read(missing, missing.initialOffset(), missing.latestOffset())


def test_the_reader_of_older_versions(job: Path) -> None:
    """Their Spark asks for the newest offset without the start."""
    for number in (1, 2, 3):
        take(job, number, {"amelia": number})
    stream = older(job, startingCheckpoint="1")
    start, end = stream.initialOffset(), stream.latestOffset()
    expected = [(2, "update", "amelia", 2), (3, "update", "amelia", 3)]
    assert changes(read(stream, start, end)) == expected
    assert stream.latestOffset() == end
    again = older(job)  # a new process: the first micro-batch has its start, though the option gives another now
    assert changes(read(again, older(job).initialOffset(), end)) == expected
    restarted = older(job)
    same = restarted.latestOffset()
    assert restarted.latestOffset() is same
    assert read(restarted, end, same) == []
    take(job, 4, {"amelia": 4})
    restarted = older(job)
    assert changes(read(restarted, end, restarted.latestOffset())) == [(4, "update", "amelia", 4)]
    restarted = older(job)
    newest = restarted.latestOffset()
    remove(job / "chk-3")
    assert {(r["_checkpoint_id"], r["_full"]) for r in read(restarted, end, newest)} == {(4, True)}


def test_another_type_of_the_value_is_refused(job: Path, tmp_path: Path) -> None:
    take(job, 1)
    stream = reader(job)
    start = begun(stream)
    writer = sp.arrow.SavepointWriter.from_existing(job / "chk-1").remove_state(UID, "total")
    writer.with_keyed_state(
        UID, [{"key": "amelia", "total": "text"}], key="key", states={"total": sp.ValueState(sp.Types.STRING())}
    ).write(job / "chk-2", checkpoint_id=2)
    end = stream.latestOffset(start, limit(1))
    with pytest.raises(sp.UnsupportedFormatError, match=r"values of the type int64 in checkpoint 1 .* string in checkpoint 2"):
        read(stream, start, end)
    commit = sp.sync(job, UID, "total", tmp_path / "table")
    assert commit is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingCheckpoint": "first"}, r"startingCheckpoint=first: expected latest, earliest, snapshot or the id"),
        ({"maxCheckpointsPerTrigger": "0"}, r"maxCheckpointsPerTrigger='0': expected a number of at least 1"),
        ({"startCheckpoint": "1"}, r"there is no option 'startcheckpoint'; did you mean 'startingCheckpoint'\?"),
    ],
)
def test_options_are_checked(options: dict[str, str], message: str, job: Path) -> None:
    take(job, 1)
    with pytest.raises(sp.OptionError, match=message):
        source(job, **options).schema()


def test_what_is_missing(job: Path) -> None:
    job.mkdir(parents=True)
    with pytest.raises(sp.NotFoundError, match="does not have a whole checkpoint: start after the first one is complete"):
        source(job).schema()
    take(job, 1)
    with pytest.raises(sp.NotFoundError, match=r"checkpoint 7 is not whole in .*; whole checkpoints: 1"):
        begun(reader(job, startingCheckpoint="7"))
    with pytest.raises(sp.OptionError, match="is a stream: use spark"):
        source(job).reader(source(job).schema())
    with pytest.raises(sp.OptionError, match="name the operator by the option uid or uidHash, and the state by state"):
        FlinkSavepointChangesDataSource({"path": str(job), "uid": UID}).schema()


@pytest.mark.spark
def test_a_query_repeats_what_it_has_not_committed(spark: SparkSession, job: Path, tmp_path: Path) -> None:
    take(job, 1)
    take(job, 2, LATER)
    seen: list[tuple[int, list[tuple[Any, ...]], set[bool]]] = []

    def note(batch: DataFrame, number: int) -> None:
        found = [row.asDict() for row in batch.collect()]
        seen.append((number, changes(found), {r["_full"] for r in found}))

    def run() -> None:
        sp.register(spark)
        stream = spark.readStream.format("flink-savepoint-changes").options(**OPTIONS)
        stream = stream.option("startingCheckpoint", "earliest")
        sink = stream.load(str(job.parent)).writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path / "query"))
        sink.trigger(availableNow=True).start().awaitTermination()

    run()
    expected = [(2, "delete", "anders", None), (2, "insert", "newcomer", 6), (2, "update", "amelia", 5)]
    assert seen == [(0, expected, {False})]
    shutil.rmtree(tmp_path / "query" / "commits")  # as if it had been killed before
    take(job, 3, {"amelia": 7})
    seen.clear()
    run()
    assert seen == [(0, expected, {False}), (1, [(3, "update", "amelia", 7)], {False})]
    remove(job / "chk-2")
    remove(job / "chk-3")
    take(job, 4, {"amelia": 8}, start=job / "chk-1")
    seen.clear()
    run()
    ((number, found, full),) = seen
    assert (number, full) == (2, {True})
    assert sorted((key, value) for _, _, key, value in found) == rows(job / "chk-4")


def test_the_log_names_a_regional_checkpoint(job: Path, caplog: pytest.LogCaptureFixture) -> None:
    take(job, 1)
    take(job, 2, LATER)
    stream = reader(job)
    start = begun(stream)
    take(job, 3, {"amelia": 8, "newcomer": 9})
    mixed = take_regional(job, 3, earlier=1)
    found = read(stream, start, stream.latestOffset(start, limit(1)))
    assert {r["_checkpoint_id"] for r in found} == {3}
    (message,) = (record.message for record in caplog.records)
    assert message.startswith(f"checkpoint 3 in {mixed} mixes several times")
