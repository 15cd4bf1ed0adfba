"""Finding snapshots below a directory."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state_processor.backends.metadata.discovery import list_snapshots
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.serializers.errors import NotASnapshotError
from tests.corpus import FIXTURES

JOB = "0123456789abcdef0123456789abcdef"
CHECKPOINT = next((FIXTURES / "2.3.0" / "orders-rocksdb-incremental").glob("savepoint/*/chk-*"))
SAVEPOINT = FIXTURES / "2.3.0" / "orders-hashmap-canonical" / "savepoint"


def test_checkpoints_and_savepoints_are_told_apart(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoints" / JOB / "chk-2"
    shutil.copytree(CHECKPOINT, checkpoint)
    shutil.copytree(CHECKPOINT.parent / "shared", checkpoint.parent / "shared")
    savepoint = tmp_path / "savepoints" / "savepoint-012345-0123456789ab"
    shutil.copytree(SAVEPOINT, savepoint)
    found = {s.path: s for s in list_snapshots(tmp_path)}
    assert list(found) == [str(checkpoint), str(savepoint)]
    assert [(s.kind, s.job_id, s.checkpoint_id, s.is_complete) for s in found.values()] == [
        ("checkpoint", JOB, 2, None),
        ("savepoint", "012345", open_snapshot(SAVEPOINT).metadata.checkpoint_id, None),
    ]
    for snapshot in found.values():
        metadata = open_snapshot(snapshot.path).metadata
        assert snapshot.size == sum(operator.state_size for operator in metadata.operators)
        written = datetime.fromtimestamp((Path(snapshot.path) / "_metadata").stat().st_mtime, UTC)
        assert snapshot.time is not None
        assert abs((snapshot.time - written).total_seconds()) < 0.001


def test_incomplete_ones_are_shown_as_such(tmp_path: Path) -> None:
    unfinished = tmp_path / JOB / "chk-7"
    unfinished.mkdir(parents=True)
    (unfinished / "part").write_bytes(b"12345")
    damaged = tmp_path / "savepoint-abcdef-0123456789ab"
    damaged.mkdir()
    (damaged / "_metadata").write_bytes(b"no metadata")
    empty = tmp_path / JOB / "chk-8"
    empty.mkdir()
    found = list_snapshots(tmp_path)
    assert [(s.path, s.kind, s.checkpoint_id, s.size, s.is_complete) for s in found] == [
        (str(unfinished), "checkpoint", 7, 5, False),
        (str(empty), "checkpoint", 8, 0, False),
        (str(damaged), "savepoint", None, 11, False),
    ]
    assert [s.time is None for s in found] == [False, True, False]


def test_a_snapshot_itself_is_found_whatever_its_name() -> None:
    [found] = list_snapshots(SAVEPOINT)
    assert (found.path, found.kind, found.job_id, found.is_complete) == (str(SAVEPOINT), "savepoint", None, None)


def test_a_directory_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotASnapshotError, match="nowhere is not a directory"):
        list_snapshots(tmp_path / "nowhere")
