"""The checkpoint that a recovering job takes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import state_processor as sp
from state_processor import cli
from state_processor.backends.metadata.snapshot_metadata import read_metadata, write_metadata
from state_processor.errors import CorruptSnapshotError, NotASnapshotError
from tests.claimed_checkpoints import claimed_checkpoint
from tests.corpus import FIXTURES

VERSIONS = ("1.20.5", "2.3.0")


def jobs_directory(version: str, target: Path) -> tuple[Path, Path]:
    """A copy of the checkpoint of a job, and an older directory of a checkpoint beside it that is not complete."""
    shutil.copytree(FIXTURES / version / "orders-rocksdb-incremental" / "savepoint", target)
    (checkpoint,) = target.glob("*/chk-*")
    (checkpoint.parent / "chk-9").mkdir()
    return checkpoint, checkpoint.parent / "chk-9"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_takes_its_newest_checkpoint_that_is_complete(version: str, tmp_path: Path) -> None:
    checkpoint, incomplete = jobs_directory(version, tmp_path / "jobs")
    found = {s.path: (s.is_complete, s.recovers, s.pointers) for s in sp.list_snapshots(tmp_path / "jobs")}
    assert found == {str(checkpoint): (True, True, ()), str(incomplete): (False, False, ())}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_of_high_availability_names_the_checkpoint(version: str, tmp_path: Path) -> None:
    (pointer,) = (FIXTURES / "high-availability" / version).iterdir()
    checkpoint, _ = jobs_directory(version, tmp_path / "jobs")
    for place in (pointer, pointer.parent):
        found = {s.path: (s.recovers, s.pointers) for s in sp.list_snapshots(tmp_path / "jobs", high_availability=place)}
        assert found[str(checkpoint)] == (True, (str(pointer),))
        assert len(found) == 2


def test_files_of_high_availability_are_found(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (pointer,) = (FIXTURES / "high-availability" / "2.3.0").iterdir()
    checkpoint, other = jobs_directory("2.3.0", tmp_path / "jobs")
    shutil.copytree(checkpoint, other, dirs_exist_ok=True)
    newer = read_metadata((other / "_metadata").read_bytes())
    (other / "_metadata").write_bytes(write_metadata(replace(newer, checkpoint_id=9)))
    assert {s.path for s in sp.list_snapshots(tmp_path) if s.recovers} == {str(other)}
    place = tmp_path / "ha" / "cluster" / pointer.name
    place.parent.mkdir(parents=True)
    shutil.copy(pointer, place)
    (place.parent / "completedCheckpointDamaged").write_bytes(b"?")
    found = {s.path: s.pointers for s in sp.list_snapshots(tmp_path) if s.recovers}
    assert found == {str(checkpoint): (str(place),)}
    assert "completedCheckpointDamaged" in caplog.text


def test_flink_takes_no_other_checkpoint_if_the_named_one_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = FIXTURES / "high-availability" / "2.3.0"
    checkpoint, other = jobs_directory("2.3.0", tmp_path / "jobs")
    shutil.copytree(checkpoint, other, dirs_exist_ok=True)
    shutil.rmtree(checkpoint)
    rows = {row["path"]: row for row in sp.arrow.snapshots(tmp_path / "jobs", high_availability=directory).to_pylist()}
    lost = f"/checkpoints/{checkpoint.parent.name}/{checkpoint.name}"
    number = int(checkpoint.name.removeprefix("chk-"))
    assert {path: (row["recovers"], row["is_complete"]) for path, row in rows.items() if path != lost} == {
        str(other): (rows[str(other)]["checkpoint_id"] == number, True)
    }
    shutil.rmtree(other)
    (found,) = sp.list_snapshots(tmp_path / "jobs", high_availability=directory)
    assert (found.path, found.checkpoint_id, found.recovers, found.is_complete) == (lost, number, True, False)
    assert cli.main(["list", str(tmp_path / "jobs"), "--high-availability", str(directory)]) == 0
    header, _, row = capsys.readouterr().out.splitlines()
    assert header.split()[-2:] == ["recovers", "path"]
    assert row.split()[-3:] == ["false", "yes", lost]


def test_a_checkpoint_that_claimed_a_savepoint_can_be_repaired(tmp_path: Path) -> None:
    metadata = claimed_checkpoint(tmp_path / "jobs", tmp_path / "savepoint-012345-0123456789ab")
    (found,) = [s for s in sp.list_snapshots(tmp_path) if s.kind == "checkpoint"]
    assert str(metadata).startswith(found.path)
    assert (found.is_complete, found.needs_repair, found.recovers) == (False, True, True)


def test_what_is_not_a_file_of_high_availability(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, message in (("empty", "does not contain a file completedCheckpoint"), ("nowhere", "does not exist; pass a file")):
        with pytest.raises(NotASnapshotError, match=message):
            sp.list_snapshots(tmp_path, high_availability=tmp_path / name)
    (pointer,) = (FIXTURES / "high-availability" / "2.3.0").iterdir()
    data = pointer.read_bytes()
    for damaged in (data[:-500], b"", data[:40], b"completed"):
        (tmp_path / "completedCheckpoint1").write_bytes(damaged)
        with pytest.raises(CorruptSnapshotError, match="completedCheckpoint1"):
            sp.list_snapshots(tmp_path, high_availability=tmp_path / "completedCheckpoint1")
