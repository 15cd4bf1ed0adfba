"""The table of a fleet."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import fsspec
import pytest

import state_processor as sp
from state_processor.support.errors import OptionError
from tests.state_processor.applications.fleet.jobs import CLICKS, ORDERS, checkpoint, set_age
from tests.state_processor.samples import ORDERS as ORDERS_FIXTURE
from tests.state_processor.written_checkpoints import JOB, UID, take, take_regional

DAY = timedelta(days=1)


def by_job(*directories: Path, **options: Any) -> dict[str | None, dict[str, Any]]:
    return {row["job_id"]: row for row in sp.fleet(directories, **options).to_pylist()}


def test_the_newest_snapshot_and_growth_of_each_job(tmp_path: Path) -> None:
    for number, keys in ((1, 10), (2, 20), (3, 400)):
        checkpoint(tmp_path / ORDERS, number, (3 - number + 1) * DAY, keys)
    checkpoint(tmp_path / CLICKS, 7, DAY)
    rows = by_job(tmp_path)
    assert [*rows] == [ORDERS, CLICKS]
    newest = rows[ORDERS]
    sizes = {info.checkpoint_id: info.size for info in sp.list_snapshots(tmp_path / ORDERS)}
    assert (newest["checkpoint_id"], newest["snapshots"], newest["incomplete"], newest["error"]) == (3, 3, 0, None)
    assert newest["age_seconds"] == pytest.approx(86_400, abs=600)
    assert newest["bytes_per_day"] == pytest.approx((sizes[3] - sizes[1]) / 2, rel=0.01)
    assert newest["largest_operators"] == [{"operator": "orders", "size_in_bytes": sizes[3]}]
    assert rows[CLICKS]["bytes_per_day"] is None


def test_a_savepoint_belongs_to_the_job_in_its_name(tmp_path: Path) -> None:
    checkpoint(tmp_path / "checkpoints" / ORDERS, 4, 2 * DAY)
    shutil.copytree(checkpoint(tmp_path, 9, DAY), tmp_path / "savepoints" / f"savepoint-{ORDERS[:6]}-0123456789ab")
    rows = by_job(tmp_path / "checkpoints", tmp_path / "savepoints")
    assert [*rows] == [ORDERS]
    assert (rows[ORDERS]["checkpoint_id"], rows[ORDERS]["snapshots"]) == (9, 2)


def test_equal_ids_in_two_directories_are_two_jobs(tmp_path: Path) -> None:
    fixed = "0" * 32
    for cluster in ("blue", "green"):
        checkpoint(tmp_path / cluster / fixed, 1, DAY)
    near = tmp_path / "green" / f"savepoint-{fixed[:6]}-0123456789ab"
    shutil.copytree(tmp_path / "green" / fixed / "chk-1", near)
    found = {row["directory"]: row["snapshots"] for row in sp.fleet(tmp_path).to_pylist()}
    assert found == {str(tmp_path / "blue" / fixed): 1, str(tmp_path / "green" / fixed): 2}
    between = tmp_path / f"savepoint-{fixed[:6]}-ba9876543210"
    shutil.copytree(near, between)
    assert {row["directory"]: row["snapshots"] for row in sp.fleet(tmp_path).to_pylist()} == found | {str(between): 1}


def test_a_damaged_snapshot_is_an_error_of_its_row(tmp_path: Path) -> None:
    checkpoint(tmp_path / ORDERS, 1, 2 * DAY)
    damaged = checkpoint(tmp_path / ORDERS, 2, DAY)
    (damaged / "_metadata").write_bytes(b"\0" * 100)
    only = checkpoint(tmp_path / CLICKS, 1, DAY)
    (only / "_metadata").write_bytes(b"")
    (tmp_path / ORDERS / "chk-3").mkdir()
    rows = by_job(tmp_path)
    assert (rows[ORDERS]["checkpoint_id"], rows[ORDERS]["incomplete"]) == (1, 2)
    assert str(damaged) in rows[ORDERS]["error"]
    assert (rows[CLICKS]["path"], rows[CLICKS]["incomplete"]) == (None, 1)
    assert str(only) in rows[CLICKS]["error"]


def test_directories_that_cannot_be_read_are_rows(tmp_path: Path) -> None:
    checkpoint(tmp_path / "jobs" / ORDERS, 1, DAY)
    os.mkdir(os.fsencode(tmp_path / "jobs") + b"/\xff")
    checkpoint(tmp_path / "jobs" / "a" / "b" / CLICKS, 1, DAY)
    rows = sp.fleet([tmp_path / "jobs", tmp_path / "none"], depth=2).to_pylist()
    errors = {row["directory"]: row["error"] for row in rows if row["error"]}
    assert [row["job_id"] for row in rows if not row["error"]] == [ORDERS]
    assert "is not a directory" in errors[str(tmp_path / "none")]
    assert "depth=3" in errors[str(tmp_path / "jobs" / "a" / "b" / CLICKS)]
    assert sum("UTF-8" in text for text in errors.values()) == 1


def test_a_snapshot_without_its_files_is_not_complete_if_files_are_looked_for(tmp_path: Path) -> None:
    checkpoint(tmp_path / ORDERS, 1, 2 * DAY, 5000)
    newest = checkpoint(tmp_path / ORDERS, 2, DAY, 5000)
    for file in newest.iterdir():
        if file.name != "_metadata":
            file.unlink()
    assert by_job(tmp_path)[ORDERS]["checkpoint_id"] == 2
    assert by_job(tmp_path)[ORDERS]["is_complete"] is None
    row = by_job(tmp_path, check=True)[ORDERS]
    assert (row["checkpoint_id"], row["is_complete"], row["incomplete"]) == (1, True, 1)
    assert "lacks files" in row["error"]


def test_states_restore_only_where_their_headers_were_read(tmp_path: Path) -> None:
    shutil.copytree(ORDERS_FIXTURE / "savepoint", tmp_path / "orders")
    (row,) = sp.fleet(tmp_path).to_pylist()
    assert (row["restorable_by"], row["unchecked"][0]) == (None, "types of 2 operators, whose headers were not read")
    (row,) = sp.fleet(tmp_path, headers=True).to_pylist()
    assert (row["restorable_by"], row["unchecked"]) == ("2.1 and later", [])


def test_findings(tmp_path: Path) -> None:
    checkpoint(tmp_path / ORDERS, 1, 2 * DAY, 10, "orders", "users")
    checkpoint(tmp_path / ORDERS, 2, timedelta(hours=1), 10, "orders", sink=True)
    assert "transactions of Sink Committer: out" in by_job(tmp_path)[ORDERS]["unchecked"]
    found = {finding["kind"]: finding["text"] for finding in by_job(tmp_path, headers=True)[ORDERS]["findings"]}
    assert found["lost-operator"] == "with state in checkpoint 1, and gone now: 'users'"
    assert found["transactions"].startswith("Sink Committer: out: 1 transactions are older than 0:15:00")
    later = by_job(tmp_path, headers=True, transaction_timeout="2h")
    kinds = [finding["kind"] for finding in later[ORDERS]["findings"]]
    assert kinds == ["lost-operator"]


def test_operators_without_uids_and_kryo() -> None:
    fixtures = ORDERS_FIXTURE.parents[1]
    (row,) = sp.fleet(fixtures / "without-uids").to_pylist()
    assert [finding["kind"] for finding in row["findings"]] == ["without-uid"]
    rows = sp.fleet(fixtures / "migration" / "1.20.5", headers=True).to_pylist()
    assert [finding["kind"] for row in rows for finding in row["findings"]] == ["kryo"]
    assert "uids, which Flink 1.x does not record" in rows[0]["unchecked"]


def test_regional_checkpoints(tmp_path: Path) -> None:
    for number in (1, 2):
        take(tmp_path / JOB, number)
    take_regional(tmp_path / JOB, 2, earlier=1)
    (finding,) = (finding for finding in by_job(tmp_path)[JOB]["findings"] if finding["kind"] == "regional-checkpoint")
    assert finding["text"] == f"subtasks have the state of an earlier checkpoint, from 1 on: {UID!r}"


def test_orphans_are_counted_and_stay(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / ORDERS, 1, DAY)
    unused = [
        tmp_path / ORDERS / "chk-1" / "01234567-0123-0123-0123-0123456789ab",
        tmp_path / CLICKS / "shared" / "11234567-0123-0123-0123-0123456789ab",
    ]
    for file in unused:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
        os.utime(file, (1e9, 1e9))
    assert by_job(tmp_path)[ORDERS]["orphans"] is None
    found = {row["directory"]: row["orphans"] for row in sp.fleet(tmp_path, orphans=True).to_pylist()}
    assert found == {str(tmp_path / ORDERS): 1, str(tmp_path / CLICKS): None}
    assert all(file.exists() for file in unused)
    (claimed,) = (row for row in sp.fleet(tmp_path, orphans=True).to_pylist() if row["directory"].endswith(CLICKS))
    assert claimed["unchecked"] == ["1 files of no snapshot here, which a job may have claimed"]
    (path / "_metadata").write_bytes(b"damaged")
    (row,) = sp.fleet(tmp_path, orphans=True).to_pylist()
    assert row["orphans"] is None
    assert row["unchecked"][0].startswith("orphans: nothing is removed, because the files of")


def test_overlapping_directories_count_each_job_once(tmp_path: Path) -> None:
    for job in (ORDERS, CLICKS):
        checkpoint(tmp_path / "jobs" / job, 1, DAY)
        orphan = tmp_path / "jobs" / job / "shared" / "01234567-0123-0123-0123-0123456789ab"
        orphan.parent.mkdir()
        orphan.write_bytes(b"x")
        os.utime(orphan, (1e9, 1e9))
    root, link = tmp_path / "jobs", tmp_path / "link"
    link.symlink_to(root / ORDERS)
    counted = sp.fleet(root, orphans=True).to_pylist()
    assert [(row["directory"], row["snapshots"], row["orphans"]) for row in counted] == [
        (str(root / ORDERS), 1, 1),
        (str(root / CLICKS), 1, 1),
    ]
    filesystem = fsspec.filesystem("memory")
    filesystem.put(str(root / ORDERS), "/elsewhere/" + ORDERS, recursive=True)
    for directories in (
        [root, root],
        [f"{root}/", root],
        [root, root / ORDERS],
        [root / ORDERS / "chk-1", root],
        [root / ORDERS / "shared", root],
        [f"file://{root}", root],
        [link, root],
        [tmp_path],
    ):
        assert by_place(directories) == by_place([root]), directories
        assert by_place([*directories, "memory://elsewhere"]) == by_place([root]) | by_place(["memory://elsewhere"]), directories
    assert [(Path(place).name, row["orphans"]) for place, row in by_place([link]).items()] == [("link", 1)]


def by_place(directories: Sequence[Path | str]) -> dict[str, dict[str, Any]]:
    rows = sp.fleet(directories, orphans=True, check=True).to_pylist()
    assert len({row["directory"] for row in rows}) == len(rows)
    return {row["directory"]: row | {"age_seconds": None} for row in rows}


def test_the_order(tmp_path: Path) -> None:
    checkpoint(tmp_path / ORDERS, 1, DAY, 10)
    checkpoint(tmp_path / CLICKS, 1, 2 * DAY, 500)
    (tmp_path / "0c0c" / "chk-1").mkdir(parents=True)
    rows = {sort: [row["job_id"] for row in sp.fleet(tmp_path, sort=sort).to_pylist()] for sort in ("job", "age", "size")}
    assert rows == {"job": [ORDERS, CLICKS, None], "age": [CLICKS, ORDERS, None], "size": [CLICKS, ORDERS, None]}
    set_age(tmp_path / ORDERS / "chk-1", 3 * DAY)
    assert sp.fleet(tmp_path, sort="age")["job_id"][0].as_py() == ORDERS
    with pytest.raises(OptionError, match="expected one of job, age, size"):
        sp.fleet(tmp_path, sort="colour")
    with pytest.raises(OptionError, match="transaction_timeout='soon': expected a duration"):
        sp.fleet(tmp_path, transaction_timeout="soon")
    with pytest.raises(OptionError, match="expected at least one directory"):
        sp.fleet([])
