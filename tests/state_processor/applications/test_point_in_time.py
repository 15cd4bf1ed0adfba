"""The rows of a state at given times, from the checkpoints of a job."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.applications import point_in_time
from tests.state_processor.written_checkpoints import take

JOB, OTHER = "a" * 32, "b" * 32
START = datetime(2026, 5, 4, 12, tzinfo=UTC)


def checkpoint(job: Path, number: int, minute: int, total: int | None = None) -> Path:
    """Write a checkpoint that was finished in a minute; Amelia's total is its number."""
    path = take(job, number, {"amelia": number if total is None else total})
    when = (START + timedelta(minutes=minute)).timestamp()
    os.utime(path / "_metadata", (when, when))
    return path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    for number, minute in ((2, 0), (3, 10), (4, 20)):
        checkpoint(tmp_path / JOB, number, minute)
    return tmp_path


def totals(directory: Path, *minutes: float, **options: Any) -> list[tuple[float, int, int]]:
    """Return minute, checkpoint and Amelia's total for each time."""
    at = [START + timedelta(minutes=minute) for minute in minutes]
    rows = sp.history_of(directory, "orders", "total", ["amelia"], at=at, **options).to_pylist()
    assert all(row["taken_at"] <= row["time"] for row in rows)
    return [((row["time"] - START) / timedelta(minutes=1), row["checkpoint_id"], row["value"]) for row in rows]


def test_each_time_has_the_rows_of_the_newest_snapshot_before_it(job: Path) -> None:
    assert totals(job, 9.99, 0, 10, 25, 10) == [(0, 2, 2), (9.99, 2, 2), (10, 3, 3), (25, 4, 4)]
    rng = random.Random(7)
    minutes = sorted({rng.randrange(3000) / 100 for _ in range(300)})
    assert totals(job, *minutes) == [(m, 2 + min(int(m / 10), 2), 2 + min(int(m / 10), 2)) for m in minutes]


def test_columns(job: Path) -> None:
    at = ["2026-05-04T14:30:00+02:00"]
    table = sp.history_of(job, "orders", "total", at=at)
    assert table.schema.names == ["time", "taken_at", "checkpoint_id", "snapshot", "key", "value"]
    assert table.num_rows == sp.arrow.read_state(job / JOB / "chk-4", "orders", "total").read_all().num_rows
    (row,) = sp.history_of(job, "orders", "total", ["amelia"], at=at).to_pylist()
    assert (row["time"], row["snapshot"]) == (START + timedelta(minutes=30), str(job / JOB / "chk-4"))
    items = sp.history_of(job, "orders", "items", ["amelia"], at=at)
    assert items.schema.names[4:] == ["key", "map_key", "map_value"]
    nobody = sp.history_of(job, "orders", "total", ["nobody"], at=at)
    assert (nobody.num_rows, nobody.schema) == (0, table.schema)


def test_a_snapshot_is_read_once_for_all_its_times(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, paths = point_in_time.read_state, []
    monkeypatch.setattr(point_in_time, "read_state", lambda path, *rest, **more: paths.append(path) or read(path, *rest, **more))
    totals(job, *range(30))
    assert [Path(path).name for path in paths] == ["chk-2", "chk-3", "chk-4"]


def test_snapshots_that_are_not_complete_are_passed_over(job: Path) -> None:
    (job / JOB / "chk-5").mkdir()  # Flink is writing it
    for file in (job / JOB / "chk-4").iterdir():
        if file.name != "_metadata":
            file.unlink()
    assert totals(job, 25) == [(25, 3, 3)]


def test_credentials_of_a_url_are_not_in_rows(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local directory stands for a bucket: the paths have the credentials of its URL."""
    listed, read = point_in_time.list_snapshots, point_in_time.read_state
    url = "s3://AKIA:hunter2@bucket"

    def of_bucket(path: Path | str, **options: Any) -> list[Any]:
        infos = listed(str(path).replace(url, str(job)), **options)
        return [replace(info, path=info.path.replace(str(job), url)) for info in infos]

    monkeypatch.setattr(point_in_time, "list_snapshots", of_bucket)
    monkeypatch.setattr(point_in_time, "read_state", lambda path, *rest, **more: read(path.replace(url, str(job)), *rest, **more))
    table = sp.history_of(url, "orders", "total", ["amelia"], at=[START + timedelta(minutes=25)])
    assert table["snapshot"].to_pylist() == [f"s3://***@bucket/{JOB}/chk-4"]


def test_times_before_the_first_snapshot(job: Path) -> None:
    with pytest.raises(sp.NotFoundError, match=r"snapshot of 2026-05-04T11:59:00\+00:00 or before: the first one is of 2026"):
        totals(job, -1, 5)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ([datetime(2026, 5, 4, 12)], "does not say which point in time"),
        (["2026-05-04T12:00:00"], "does not say which point in time"),
        (["noon"], "ISO 8601"),
        ([1714824000], "expected a datetime with a time zone"),
        ([], "expected one time or more"),
        (START, "expected a list of times"),
        ("2026-05-04T12:00:00Z", "expected a list of times"),
        ([datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))], "before the year 1"),
    ],
)
def test_times_that_are_not_points_in_time(job: Path, at: list[Any], message: str) -> None:
    with pytest.raises(sp.OptionError, match=message):
        sp.history_of(job, "orders", "total", at=at)


def test_an_operator_that_a_snapshot_lacks(job: Path) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(job / JOB / "chk-4")
    writer.remove_operator("orders")
    writer.write(job / JOB / "chk-5", checkpoint_id=5)
    when = (START + timedelta(minutes=30)).timestamp()
    os.utime(job / JOB / "chk-5" / "_metadata", (when, when))
    with pytest.raises(sp.NotFoundError, match=r"chk-5: no operator 'orders'"):
        totals(job, 5, 35)
    assert totals(job, 5) == [(5, 2, 2)]


def test_rows_expire_by_the_time_that_is_asked_for(job: Path) -> None:
    """Both times have the same snapshot."""
    last = sp.arrow.read_state(job / JOB / "chk-4", "orders", "session", metadata=True).read_all()["_last_access"]
    newest = max(last.to_pylist())
    for file in (job / JOB).glob("chk-*/_metadata"):
        os.utime(file, (newest.timestamp() - 1,) * 2)
    at = [newest + timedelta(minutes=30), newest + timedelta(minutes=90)]
    rows = sp.history_of(job, "orders", "session", at=at, ttl="PT1H").to_pylist()
    assert {row["time"] for row in rows} == {at[0]}
    assert {row["time"] for row in sp.history_of(job, "orders", "session", at=at).to_pylist()} == {*at}


def test_jobs_one_after_the_other_are_one_history(job: Path) -> None:
    checkpoint(job / OTHER, 2, 40, total=99)
    assert totals(job, 30, 45) == [(30, 4, 4), (45, 2, 99)]
    checkpoint(job / JOB, 5, 50)  # the first job is still running
    with pytest.raises(sp.OptionError, match="2 jobs that ran at the same time"):
        totals(job, 30)
    assert totals(job / JOB, 30) == [(30, 4, 4)]


def test_a_state_that_changed_its_type(job: Path) -> None:
    path = job / JOB / "chk-6"
    writer = sp.arrow.SavepointWriter.new(max_parallelism=128, flink_version="2.3")
    states = {"total": sp.ValueState(sp.Types.STRING())}
    writer.with_keyed_state("orders", [{"key": "amelia", "total": "7"}], key="key", key_type=sp.Types.STRING(), states=states)
    writer.write(path, checkpoint_id=6)
    when = (START + timedelta(minutes=60)).timestamp()
    os.utime(path / "_metadata", (when, when))
    with pytest.raises(sp.OptionError, match=r"changed its type between \S+chk-4 and \S+chk-6"):
        totals(job, 25, 65)
    assert totals(job, 65) == [(65, 6, "7")]


def test_a_checkpoint_that_is_replaced_while_it_is_read(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one has its path and a later time: its rows are of the future."""
    read = point_in_time.read_state

    def replaced(path: str, *rest: Any, **more: Any) -> Any:
        shutil.rmtree(job / JOB / "chk-4")
        checkpoint(job / JOB, 4, 50, total=99)
        return read(path, *rest, **more)

    monkeypatch.setattr(point_in_time, "read_state", replaced)
    with pytest.raises(sp.MissingFileError, match="chk-4 was replaced or removed while it was read"):
        totals(job, 25)


def test_a_checkpoint_that_flink_removes_meanwhile(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = point_in_time.read_state

    def removed(path: str, *rest: Any, **more: Any) -> Any:
        for file in Path(path).iterdir():
            if file.name != "_metadata":
                file.unlink()
        return read(path, *rest, **more)

    monkeypatch.setattr(point_in_time, "read_state", removed)
    with pytest.raises(sp.MissingFileError, match="retain more"):
        totals(job, 25)
    shutil.rmtree(job)
