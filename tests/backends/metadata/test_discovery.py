"""Finding snapshots below a directory."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

import state_processor as sp
from state_processor.applications.retention.file_uses import files_below
from state_processor.backends.files.storage import Storage
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.discovery import find_snapshots
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import (
    CheckpointMetadata,
    OperatorState,
    OperatorSubtaskState,
    write_metadata,
)
from state_processor.support.errors import MissingFileError, NotASnapshotError
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
    found = {s.path: s for s in find_snapshots(tmp_path).snapshots}
    assert sorted(found) == [str(checkpoint), str(savepoint)]
    assert [(s.kind, s.job_id, s.checkpoint_id, s.is_complete) for s in (found[str(checkpoint)], found[str(savepoint)])] == [
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
    found = sorted(find_snapshots(tmp_path).snapshots, key=lambda s: s.path)
    assert [(s.path, s.kind, s.checkpoint_id, s.size, s.is_complete) for s in found] == [
        (str(unfinished), "checkpoint", 7, 5, False),
        (str(empty), "checkpoint", 8, 0, False),
        (str(damaged), "savepoint", None, 11, False),
    ]
    assert [s.time is None for s in found] == [False, True, False]


def test_sizes_that_no_file_has_do_not_hide_other_snapshots(tmp_path: Path) -> None:
    whole, damaged = tmp_path / "savepoint-abcdef-0123456789ab", tmp_path / "savepoint-abcdef-0123456789ac"
    shutil.copytree(SAVEPOINT, whole)
    damaged.mkdir()
    stream = h.RelativeFileStateHandle("file", 2**63 - 1)
    handle = h.OperatorStreamStateHandle((), stream)
    subtasks = tuple(OperatorSubtaskState(i, managed_operator=handle) for i in range(2))
    operator = OperatorState("00" * 16, 2, 128, subtasks)
    (damaged / "_metadata").write_bytes(write_metadata(CheckpointMetadata(3, 1, (operator,))))
    found = {Path(s.path).name: s for s in find_snapshots(tmp_path).snapshots}
    assert (found[whole.name].is_complete, found[damaged.name].is_complete) == (None, False)
    assert found[damaged.name].size == (damaged / "_metadata").stat().st_size
    assert sp.arrow.snapshots(str(tmp_path)).num_rows == 2


def test_a_snapshot_itself_is_found_whatever_its_name() -> None:
    [found] = find_snapshots(SAVEPOINT).snapshots
    assert (found.path, found.kind, found.job_id, found.is_complete) == (str(SAVEPOINT), "savepoint", None, None)


def test_a_directory_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotASnapshotError, match="nowhere is not a directory"):
        find_snapshots(tmp_path / "nowhere")


def test_the_newest_is_first(tmp_path: Path) -> None:
    for name, seconds in (("b", 1), ("c", 3), ("a", 2), ("chk-9", 2), ("chk-10", 2)):
        shutil.copytree(SAVEPOINT, tmp_path / name)
        if name.startswith("chk"):
            (tmp_path / name / "_metadata").write_bytes(b"damaged, so that the name has the number")
        os.utime(tmp_path / name / "_metadata", (seconds, seconds))
    (tmp_path / "chk-11").mkdir()
    found = find_snapshots(tmp_path)
    assert [Path(s.path).name for s in found.snapshots] == ["c", "chk-10", "chk-9", "a", "b", "chk-11"]
    assert found.unsearched == []


def test_metadata_is_read_again_if_its_time_changes(tmp_path: Path) -> None:
    shutil.copytree(SAVEPOINT, tmp_path / "one")
    metadata = tmp_path / "one" / "_metadata"
    os.utime(metadata, (5, 5))
    known = find_snapshots(tmp_path).snapshots
    metadata.write_bytes(b"damaged")
    os.utime(metadata, (5, 5))
    assert find_snapshots(tmp_path, read_before=known).snapshots == known
    os.utime(metadata, (6, 6))
    [damaged] = find_snapshots(tmp_path, read_before=known).snapshots
    assert damaged.is_complete is False
    metadata.write_bytes((SAVEPOINT / "_metadata").read_bytes())
    os.utime(metadata, (6, 6))
    assert [s.is_complete for s in find_snapshots(tmp_path, read_before=[damaged]).snapshots] == [None]


def test_directories_that_are_too_deep_are_named(tmp_path: Path) -> None:
    deep = tmp_path / "1" / "2" / "3"
    shutil.copytree(SAVEPOINT, deep / "one")
    (deep / "other" / "shared").mkdir(parents=True)
    by_depth = {depth: find_snapshots(tmp_path, depth=depth) for depth in range(5)}
    assert {depth: len(found.snapshots) for depth, found in by_depth.items()} == {0: 0, 1: 0, 2: 0, 3: 0, 4: 1}
    assert by_depth[0].unsearched == [str(tmp_path / "1")]
    assert sorted(by_depth[3].unsearched) == [str(deep / "one"), str(deep / "other")]
    assert by_depth[4].unsearched == []


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    below = os.path.join(tmp_path, os.fsdecode(b"caf\xe9"), "savepoint-abcdef-0123456789ab")
    shutil.copytree(SAVEPOINT, below)
    for directory in (str(tmp_path), below):
        with pytest.raises(
            MissingFileError, match=r"caf\\xe9.* cannot be listed: its name is not UTF-8, so tables cannot hold it"
        ):
            find_snapshots(directory)
        with pytest.raises(
            MissingFileError, match=r"caf\\xe9.* cannot be listed: its name is not UTF-8, so tables cannot hold it"
        ):
            files_below(directory, Storage())
        with pytest.raises(MissingFileError, match=r"caf\\xe9.* cannot be listed"):
            sp.find(below, text="amelia")


def test_files_of_an_unfinished_snapshot_may_have_any_name(tmp_path: Path) -> None:
    unfinished = tmp_path / JOB / "chk-7"
    unfinished.mkdir(parents=True)
    Path(os.path.join(unfinished, os.fsdecode(b"part\xe9"))).write_bytes(b"12345")
    (found,) = find_snapshots(tmp_path).snapshots
    assert (found.size, found.time is None) == (5, False)
