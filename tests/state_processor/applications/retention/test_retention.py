"""Files of snapshots, and removals: the remaining snapshots have all of their files."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pytest

import state_processor as sp
from state_processor import cli
from state_processor.applications.retention import housekeeping as retention
from state_processor.backends.metadata.snapshot_metadata import read_metadata, write_metadata
from tests.claimed_checkpoints import FIXTURES, SAVEPOINT, claimed_checkpoint
from tests.old_checkpoints import (
    JOB,
    STRAY,
    aged,
    complete,
    content,
    job_with_checkpoints,
    names,
    recorded_shared_directory,
    sharing,
)


def test_files_have_the_snapshots_that_use_them(tmp_path: Path) -> None:
    job = job_with_checkpoints(tmp_path)
    uses = {use.path: names(use.snapshots) for use in sp.files(tmp_path)}
    shared = {path for path in uses if "/shared/" in path}
    assert shared
    assert all(uses[path] == {"chk-2", "chk-3", "chk-4"} for path in shared)
    own = {path for path in uses if "/chk-3/" in path}
    assert len(own) > 1
    assert all(uses[path] == {"chk-3"} for path in own)
    assert {use.path: use.size for use in sp.files(job)} == {str(f): f.stat().st_size for f in job.rglob("*") if f.is_file()}


def test_a_disposed_checkpoint_leaves_files_that_others_use(tmp_path: Path) -> None:
    job = job_with_checkpoints(tmp_path)
    shared = content(job / "shared")
    preview = sp.dispose(job / "chk-3")
    assert not preview.removed
    assert complete(tmp_path) == {"chk-2": True, "chk-3": True, "chk-4": True}
    summary = sp.dispose(job / "chk-3", delete=True)
    assert replace(summary, removed=False) == preview
    assert summary.shared_files == len(shared)
    assert Path(summary.files[0]).name == "_metadata"
    assert not (job / "chk-3").exists()
    assert complete(tmp_path) == {"chk-2": True, "chk-4": True}
    sp.dispose(job / "chk-2" / "_metadata", delete=True)
    assert content(job / "shared") == shared
    last = sp.dispose(job / "chk-4", delete=True)
    assert last.shared_files == 0
    assert content(tmp_path) == set()


def test_old_checkpoints_of_each_job_are_removed(tmp_path: Path) -> None:
    job_with_checkpoints(tmp_path / "checkpoints", (2, 3, 4, 5))
    other = tmp_path / "checkpoints" / f"{1:032x}"
    shutil.copytree(tmp_path / "checkpoints" / JOB, other)
    summary = sp.retain(tmp_path, keep=2, delete=True)
    assert [Path(s).name for s in summary.snapshots] == ["chk-2", "chk-2", "chk-3", "chk-3"]
    assert complete(other) == complete(tmp_path / "checkpoints" / JOB) == {"chk-4": True, "chk-5": True}
    assert sp.retain(tmp_path, newer_than="27d").snapshots == ()  # chk-4 is 26 days old
    assert names(sp.retain(tmp_path, newer_than="1d", delete=True).snapshots) == {"chk-4"}
    assert sp.retain(tmp_path, newer_than="1d").snapshots == ()  # the newest one stays
    assert complete(other) == {"chk-5": True}


def test_young_snapshots_and_files_stay(tmp_path: Path) -> None:
    job = job_with_checkpoints(tmp_path)
    aged(job / "chk-2", 0)
    with pytest.raises(sp.WriteError, match=r"chk-2 was written 0:00:.* ago; expected more than 1 day, 0:00:00 ago"):
        sp.dispose(job / "chk-2", delete=True)
    assert names(sp.retain(tmp_path, keep=1).snapshots) == {"chk-3"}
    (job / "shared" / STRAY).write_bytes(b"of a checkpoint that is not complete")
    assert sp.orphans(tmp_path, delete=True).files == ()
    assert sp.orphans(tmp_path, older_than="0s").size == 36


def test_orphans_have_names_and_places_of_flink(tmp_path: Path) -> None:
    job = job_with_checkpoints(tmp_path)
    before = content(tmp_path)
    merged = [job / "taskowned" / "job_1_tm_1", job / "shared" / "job_1_op_1_0_2"]
    places = [job / "shared", job / "chk-3", job / "chk-9", tmp_path / "dstl"]
    for place in (*places, *merged, job / "taskowned", tmp_path, job / "notes"):
        place.mkdir(exist_ok=True, parents=True)
        (place / STRAY).write_bytes(b"?")
        (place / "README").write_bytes(b"of the user")
    aged(tmp_path)
    summary = sp.orphans(tmp_path, delete=True)
    assert {Path(path).parent for path in summary.files} == set(places)
    assert {f"{place.relative_to(tmp_path) / STRAY}" for place in places}.isdisjoint(content(tmp_path))
    assert before < content(tmp_path)
    assert complete(tmp_path) == {"chk-2": True, "chk-3": True, "chk-4": True, "chk-9": False}


def test_a_claimed_savepoint_is_in_use(tmp_path: Path) -> None:
    savepoint = tmp_path / "checkpoints" / SAVEPOINT
    checkpoint = claimed_checkpoint(tmp_path / "checkpoints", savepoint)
    native = FIXTURES / "2.3.0" / "orders-rocksdb-native" / "savepoint"
    shutil.copytree(native, savepoint, dirs_exist_ok=True)
    aged(tmp_path)
    uses = {use.path: use.snapshots for use in sp.files(tmp_path) if SAVEPOINT in use.path}
    assert len([users for users in uses.values() if users == (str(checkpoint),)]) > 1
    assert uses[f"{savepoint}/_metadata"] == (str(savepoint),)
    before = content(savepoint)
    sp.dispose(savepoint, also=[checkpoint.parent], delete=True)
    assert before - content(savepoint) == content(native)
    assert complete(tmp_path)["chk-2"] is False  # only for Flink, which needs a repair
    assert sp.orphans(tmp_path).files == ()


def test_a_savepoint_that_others_use_stays(tmp_path: Path) -> None:
    savepoint = tmp_path / "checkpoints" / SAVEPOINT
    checkpoint = claimed_checkpoint(tmp_path / "checkpoints", savepoint)
    shutil.copytree(checkpoint, savepoint, dirs_exist_ok=True)
    aged(tmp_path)
    before = content(tmp_path)
    message = rf"{SAVEPOINT} can't be removed: {checkpoint} uses 12 of its files, such as .*\nRemove that snapshot first"
    with pytest.raises(sp.WriteError, match=message):
        sp.dispose(savepoint, delete=True)
    assert content(tmp_path) == before
    sp.dispose(checkpoint, delete=True)
    sp.dispose(savepoint, delete=True)
    assert list((tmp_path / "checkpoints").rglob("_metadata")) == []


def test_nothing_is_removed_beside_a_damaged_snapshot(tmp_path: Path) -> None:
    job = job_with_checkpoints(tmp_path)
    (job / "shared" / STRAY).write_bytes(b"?")
    damaged = job / "chk-3" / "_metadata"
    damaged.write_bytes(damaged.read_bytes()[:-10])
    aged(tmp_path)
    before = content(tmp_path)
    for call in (
        lambda: sp.dispose(job / "chk-2", delete=True),
        lambda: sp.orphans(tmp_path, delete=True),
        lambda: sp.retain(tmp_path, keep=1, delete=True),
        lambda: sp.files(job),
    ):
        with pytest.raises(sp.WriteError, match=f"nothing is removed, because the files of {damaged.parent} are unknown"):
            call()
    assert content(tmp_path) == before


def test_jobs_beside_a_job_and_named_directories_are_searched(tmp_path: Path) -> None:
    job = job_with_checkpoints(tmp_path / "checkpoints", [2])
    beside = tmp_path / "checkpoints" / f"{2:032x}" / "chk-7"
    shutil.copytree(job / "chk-2", beside)  # its files are found in the directory of the other job
    aged(tmp_path)
    assert sp.dispose(job / "chk-2").shared_files == len(content(job / "shared"))
    shutil.move(beside, tmp_path / "moved" / "chk-7")
    assert sp.dispose(job / "chk-2").shared_files == 0
    with pytest.raises(sp.WriteError, match=r"the files of .*/moved/chk-7 are unknown"):
        sp.dispose(job / "chk-2", also=[tmp_path])
    with pytest.raises(sp.NotASnapshotError, match="missing is not a directory"):
        sp.dispose(job / "chk-2", also=[tmp_path / "missing"])


def test_links_do_not_lead_out_of_the_directory(tmp_path: Path) -> None:
    job = job_with_checkpoints(tmp_path / "inside")
    outside = tmp_path / "outside" / "shared"
    outside.mkdir(parents=True)
    (outside / STRAY).write_bytes(b"?")
    (job / "chk-9").symlink_to(outside)
    aged(tmp_path)
    assert sp.orphans(tmp_path / "inside", older_than="0s", delete=True).files == ()
    assert (outside / STRAY).exists()


def test_snapshots_behind_links_are_users(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    sharing(inside / "before", outside / "after")
    aged(tmp_path)
    assert sp.dispose(inside / "before").shared_files == 0
    (inside / "linked").symlink_to(outside)
    with pytest.raises(sp.WriteError, match=rf"before can't be removed: {outside}/after uses"):
        sp.dispose(inside / "before", also=[inside], delete=True)
    (inside / "before" / "_metadata").unlink()
    (inside / "before").rename(inside / SAVEPOINT)
    (inside / "before").symlink_to(SAVEPOINT)
    before = content(inside / SAVEPOINT)
    assert sp.orphans(inside, older_than="0s", delete=True).searched == 1
    assert content(inside / SAVEPOINT) < before  # what the other savepoint does not use
    assert {use.snapshots for use in sp.files(inside)} == {(str(outside / "after"),)}


def test_a_link_to_its_own_directory(tmp_path: Path) -> None:
    job = job_with_checkpoints(tmp_path)
    (job / "again").symlink_to(tmp_path)
    assert sp.dispose(job / "chk-3", delete=True).shared_files > 0
    assert complete(job / "chk-4") == {"chk-4": True}


def test_savepoints_with_names_of_checkpoints_stay(tmp_path: Path) -> None:
    job = job_with_checkpoints(tmp_path)
    shutil.copytree(FIXTURES / "2.3.0" / "orders-rocksdb-native" / "savepoint", job / "chk-9")
    aged(job / "chk-9", 1.5)
    assert names(sp.retain(tmp_path, keep=1, delete=True).snapshots) == {"chk-2", "chk-3"}
    assert complete(tmp_path) == {"chk-4": True, "chk-9": True}


def test_checkpoints_without_the_directory_of_a_job(tmp_path: Path) -> None:
    """Flink writes them with ``execution.checkpointing.create-subdir: false``."""
    job = job_with_checkpoints(tmp_path / "made").rename(tmp_path / "checkpoints")
    assert sp.dispose(job / "chk-2", delete=True).shared_files > 0
    assert complete(job) == {"chk-3": True, "chk-4": True}
    sp.dispose(job / "chk-3", delete=True)
    sp.dispose(job / "chk-4", delete=True)
    assert content(job) == set()


def test_snapshots_beside_a_savepoint_of_any_name_are_searched(tmp_path: Path) -> None:
    sharing(tmp_path / "before", tmp_path / "after")
    aged(tmp_path)
    with pytest.raises(sp.WriteError, match=rf"before can't be removed: {tmp_path}/after uses"):
        sp.dispose(tmp_path / "before", delete=True)
    assert (tmp_path / "before" / "_metadata").exists()


@pytest.mark.parametrize("given", [False, True])
def test_checkpoints_that_high_availability_names_stay(tmp_path: Path, given: bool) -> None:
    pointers = FIXTURES / "high-availability" / "2.3.0"
    shutil.copytree(FIXTURES / "2.3.0" / "orders-rocksdb-incremental" / "savepoint", tmp_path, dirs_exist_ok=True)
    (named,) = tmp_path.glob("*/chk-*")
    shutil.copytree(named, named.parent / "chk-99")
    metadata = read_metadata((named / "_metadata").read_bytes())
    (named.parent / "chk-99" / "_metadata").write_bytes(write_metadata(replace(metadata, checkpoint_id=99)))
    if not given:
        shutil.copytree(pointers, tmp_path / "ha" / "cluster")
    aged(tmp_path)
    high_availability = pointers if given else None
    assert sp.retain(tmp_path, keep=1, delete=True, high_availability=high_availability).snapshots == ()
    with pytest.raises(sp.WriteError, match=rf"nothing is removed: .*/completedCheckpoint\S+ names {named}, so that job"):
        sp.dispose(named, delete=True, also=[tmp_path], high_availability=high_availability)
    assert cli.main(["retain", str(tmp_path), "--keep", "1", "--high-availability", str(pointers)]) == 1
    assert complete(tmp_path)[named.name]


def test_a_damaged_file_of_high_availability_stops_removals(tmp_path: Path) -> None:
    job_with_checkpoints(tmp_path)
    (tmp_path / "completedCheckpoint0123").write_bytes(b"?")
    with pytest.raises(sp.StateProcessorError, match="completedCheckpoint0123"):
        sp.retain(tmp_path, keep=1, delete=True)
    assert complete(tmp_path) == {"chk-2": True, "chk-3": True, "chk-4": True}


def test_files_from_the_future_are_young(tmp_path: Path) -> None:
    job = job_with_checkpoints(tmp_path)
    (job / "shared" / STRAY).write_bytes(b"?")
    aged(tmp_path, -2)
    assert sp.orphans(tmp_path, older_than="0s").files == ()
    assert sp.retain(tmp_path, keep=1, older_than="0s").snapshots == ()
    with pytest.raises(sp.WriteError, match="chk-2 was written"):
        sp.dispose(job / "chk-2", older_than="0s", delete=True)


def test_ages_do_not_depend_on_the_time_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job_with_checkpoints(tmp_path)
    aged(tmp_path, 1.2)
    for zone in ("Pacific/Kiritimati", "Etc/GMT+12"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        assert len(sp.retain(tmp_path, keep=1, older_than="28h").snapshots) == 2
        assert sp.retain(tmp_path, keep=1, older_than="29h").snapshots == ()
    monkeypatch.undo()
    time.tzset()


def test_mappings_act(tmp_path: Path) -> None:
    """In a moved backup, files that only a mapping finds are in use."""
    sharing(tmp_path / "live" / SAVEPOINT, tmp_path / "live" / "after")
    shutil.rmtree(tmp_path / "live" / SAVEPOINT / "_metadata", ignore_errors=True)
    (tmp_path / "live" / SAVEPOINT / "_metadata").unlink()
    moved = tmp_path / "backup" / "savepoint-0123ab-0123456789ab"
    (tmp_path / "backup").mkdir()
    (tmp_path / "live" / SAVEPOINT).rename(moved)
    (tmp_path / "live" / "after").rename(tmp_path / "backup" / "after")
    aged(tmp_path)
    before = content(tmp_path)
    with pytest.raises(sp.WriteError, match=r"nothing is removed, because the files of .*/after are unknown"):
        sp.orphans(tmp_path / "backup", delete=True)
    mapping = {str(tmp_path / "live" / SAVEPOINT): str(moved)}
    used = {use.path for use in sp.files(tmp_path / "backup", path_mapping=mapping) if use.snapshots}
    summary = sp.orphans(tmp_path / "backup", delete=True, path_mapping=mapping)
    assert used.isdisjoint(summary.files)
    assert before - content(tmp_path) == {str(Path(path).relative_to(tmp_path)) for path in summary.files}
    read = sp.arrow.read_state(tmp_path / "backup" / "after", "orders", "total", path_mapping=mapping).read_all()
    assert read.num_rows == 50
    assert cli.main(["orphans", str(tmp_path / "backup"), "--map", *(f"{old}={new}" for old, new in mapping.items())]) == 1


def naming(directory: Path, target: Path) -> Path:
    """Make a checkpoint whose ``_metadata`` names a file that Flink has not written."""
    checkpoint = directory / f"{8:032x}" / "chk-1"
    source = FIXTURES / "2.3.0" / "orders-hashmap-canonical" / "savepoint"
    sp.arrow.SavepointWriter.from_existing(source).write(checkpoint)
    metadata = (checkpoint / "_metadata").read_bytes()
    state = max((f for f in checkpoint.iterdir() if f.name != "_metadata"), key=lambda f: f.stat().st_size)
    assert len(state.name) >= len(target.name)
    named = target.with_name(target.name.ljust(len(state.name), "x"))
    named.parent.mkdir(parents=True, exist_ok=True)
    state.rename(named)
    (checkpoint / "_metadata").write_bytes(metadata.replace(state.name.encode(), named.name.encode()))
    return checkpoint


def test_files_of_other_programs_stay_whatever_metadata_names(tmp_path: Path) -> None:
    checkpoint = naming(tmp_path, tmp_path / f"{8:032x}" / "chk-1" / "important.parquet")
    shutil.copytree(checkpoint, checkpoint.parent / "chk-2")
    metadata = read_metadata((checkpoint / "_metadata").read_bytes())
    for number in (1, 2):
        folder = checkpoint.parent / f"chk-{number}"
        (folder / "_metadata").write_bytes(write_metadata(replace(metadata, checkpoint_id=number)))
    aged(tmp_path)
    (important,) = checkpoint.glob("important*")
    for call in (
        lambda: sp.dispose(checkpoint, delete=True),
        lambda: sp.retain(tmp_path, keep=1, delete=True),
    ):
        saved = (checkpoint / "_metadata").read_bytes()
        summary = call()
        assert str(important) in summary.spared or summary.snapshots == ()
        assert important.exists()
        (checkpoint / "_metadata").write_bytes(saved)
        aged(checkpoint)


def test_files_younger_than_the_guard_stay(tmp_path: Path) -> None:
    job = job_with_checkpoints(tmp_path, [2])
    (young, *_) = (file for file in (job / "chk-2").iterdir() if file.name != "_metadata")
    os.utime(young)
    summary = sp.dispose(job / "chk-2", delete=True)
    assert summary.spared == (str(young),)
    assert young.exists()


def test_a_directory_that_may_be_claimed_needs_its_users(tmp_path: Path) -> None:
    savepoint = tmp_path / "savepoints" / SAVEPOINT
    checkpoint = claimed_checkpoint(tmp_path / "elsewhere", savepoint)
    native = FIXTURES / "2.3.0" / "orders-rocksdb-native" / "savepoint"
    shutil.copytree(native, savepoint, dirs_exist_ok=True)
    (savepoint / "_metadata").unlink()
    aged(tmp_path)
    before = content(tmp_path)
    with pytest.raises(sp.WriteError, match=rf"nothing is removed: {savepoint} has .* A job may have claimed it"):
        sp.orphans(tmp_path / "savepoints", delete=True)
    with pytest.raises(sp.WriteError, match=rf"the files of {checkpoint} are unknown"):
        sp.orphans(tmp_path / "savepoints", also=[checkpoint.parent], delete=True)
    sp.orphans(tmp_path / "savepoints", also=[checkpoint.parent], allow_paths=[savepoint], delete=True)
    assert before - content(tmp_path) <= {f"savepoints/{SAVEPOINT}/{name}" for name in content(native)}
    rows = sp.arrow.read_state(checkpoint, "orders", "total", allow_paths=[savepoint]).read_all()
    assert rows.num_rows == 50
    job = job_with_checkpoints(tmp_path / "jobs", [2])
    shutil.rmtree(job / "chk-2")
    with pytest.raises(sp.WriteError, match=rf"nothing is removed: {job} has .* A job may have claimed it"):
        sp.orphans(tmp_path / "jobs", delete=True)


def test_the_clock_of_the_storage_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of this machine is two days ahead: files that seem old were written just now."""
    job = job_with_checkpoints(tmp_path)
    (job / "shared" / STRAY).write_bytes(b"?")

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(days=2)

    monkeypatch.setattr(retention, "datetime", Ahead)
    assert names(sp.orphans(tmp_path).files) == {STRAY}
    assert sp.orphans(tmp_path, delete=True).files == ()
    assert (job / "shared" / STRAY).exists()


def test_checkpoints_behind_links_are_read_once(tmp_path: Path) -> None:
    job = job_with_checkpoints(tmp_path / "checkpoints")
    moved = tmp_path / "checkpoints" / f"{4:032x}" / "chk-4"
    moved.parent.mkdir()
    (job / "chk-4").rename(moved)
    (job / "chk-4").symlink_to(moved)
    assert sp.dispose(job / "chk-2").searched == 3


def test_a_file_may_have_two_paths(tmp_path: Path) -> None:
    """The directory is mounted twice: snapshots name their files by one path, and another is listed."""
    job = job_with_checkpoints(tmp_path / "one", (2,))
    listed = tmp_path / "two" / f"{5:032x}" / "shared"
    shutil.copytree(job / "shared", listed, copy_function=os.link)
    (listed / STRAY).write_bytes(b"of no checkpoint")
    shutil.copytree(job / "chk-2", tmp_path / "two" / "chk-2")
    shutil.rmtree(job / "chk-2")
    aged(tmp_path / "two")
    recorded = recorded_shared_directory(tmp_path / "two" / "chk-2")
    mapping = {recorded: str(job / "shared")}
    assert sp.orphans(tmp_path / "two", path_mapping=mapping).files == (str(listed / STRAY),)


@pytest.mark.parametrize("seed", range(8))
def test_random_removals_leave_other_snapshots_complete(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    job = job_with_checkpoints(tmp_path, range(2, 8))
    for number in range(draw.randrange(4)):
        (job / draw.choice(["shared", "chk-2", "chk-5"]) / f"{number:08x}{STRAY[8:]}").write_bytes(b"?")
    aged(tmp_path)
    left = {f"chk-{number}" for number in range(2, 8)}
    while left:
        match draw.randrange(3):
            case 0:
                gone = {draw.choice(sorted(left))}
                sp.dispose(job / min(gone), delete=True)
            case 1:
                gone = names(sp.retain(tmp_path, keep=draw.randrange(1, 4), delete=True).snapshots)
            case _:
                sp.orphans(tmp_path, delete=True)
                gone = set()
        left -= gone
        assert {name for name, is_whole in complete(tmp_path).items() if is_whole} == left
        assert {path.parent.name for path in job.glob("chk-*/_metadata")} == left
        if len(left) == 1 and draw.random() < 0.5:
            break


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "expected keep=3 or newer_than='7d'"),
        ({"keep": 0}, "keep=0: expected at least 1"),
        ({"newer_than": "soon"}, "newer_than='soon': expected a duration"),
        ({"keep": 1, "older_than": "1 moment"}, "older_than='1 moment': expected a duration"),
    ],
)
def test_what_stays_has_to_be_told(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(sp.OptionError, match=message):
        sp.retain(tmp_path, **arguments)  # type: ignore[arg-type]


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = job_with_checkpoints(tmp_path)
    assert cli.main(["files", str(tmp_path)]) == 0
    assert "chk-2, " in capsys.readouterr().out
    assert cli.main(["files", str(tmp_path), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["path"] for row in rows} == {use.path for use in sp.files(tmp_path)}
    assert cli.main(["orphans", str(tmp_path)]) == 1
    assert "0 files (0 B) would be removed" in capsys.readouterr().out
    assert cli.main(["retain", str(tmp_path), "--keep", "2"]) == 0
    assert f"{job}/chk-2/_metadata" in capsys.readouterr().out
    assert cli.main(["retain", str(tmp_path), "--keep", "2", "--delete", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["snapshots"] == [f"{job}/chk-2"]
    assert cli.main(["dispose", str(job / "chk-3"), "--delete"]) == 0
    assert "of 1 snapshots removed" in capsys.readouterr().out
    assert complete(tmp_path) == {"chk-4": True}
    assert cli.main(["dispose", str(job / "chk-4"), "--older-than", "60d"]) == 2
    assert "--older-than" in capsys.readouterr().err


def test_storage_without_times() -> None:
    """Its files are found, and nothing of unknown age is removed."""
    memory = fsspec.filesystem("memory")
    memory.put(str(FIXTURES / "2.3.0" / "orders-rocksdb-native" / "savepoint"), "/timeless/savepoint-1", recursive=True)
    uses = sp.files("memory://timeless")
    assert {use.path.removeprefix("memory:/") for use in uses} == set(memory.find("/timeless"))
    assert {use.snapshots for use in uses} == {("memory://timeless/savepoint-1",)}
    with pytest.raises(sp.WriteError, match="does not tell when memory://timeless/savepoint-1 was written"):
        sp.dispose("memory://timeless/savepoint-1", older_than="PT0S", delete=True)
    assert len(memory.find("/timeless")) == len(uses)
    memory.rm("/timeless", recursive=True)
