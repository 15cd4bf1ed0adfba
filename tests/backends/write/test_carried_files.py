from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.streams import streams_in_files
from state_processor.backends.read.snapshot_checks import check_files
from state_processor.backends.write.carried_files import is_moved, refer_to_claimed
from state_processor.support.errors import WriteError
from tests.claimed_checkpoints import SAVEPOINT, claimed_checkpoint


def test_files_are_referred_to_where_they_are(tmp_path: Path) -> None:
    savepoint = tmp_path / SAVEPOINT
    checkpoint = claimed_checkpoint(tmp_path / "checkpoints", savepoint)
    names = {path.name for path in checkpoint.iterdir()}
    before = open_snapshot(checkpoint)
    assert check_files(before).claimed == {str(savepoint): 12}
    assert not is_moved(before)
    refer_to_claimed(before)
    after = open_snapshot(checkpoint)
    assert check_files(after).is_restorable
    assert {path.name for path in checkpoint.iterdir()} == names
    old, new = (list(streams_in_files(snapshot.metadata.operators)) for snapshot in (before, after))
    changed = [(one, other) for one, other in zip(old, new, strict=True) if one != other]
    assert changed == [(one, h.FileStateHandle(one.size, f"file:{savepoint}/{one.path}")) for one, _ in changed]
    assert len(changed) == 12
    refer_to_claimed(after)
    assert open_snapshot(checkpoint).metadata == after.metadata


def test_a_checkpoint_that_was_moved(tmp_path: Path) -> None:
    """Flink would look for its other files where they were."""
    checkpoint = claimed_checkpoint(tmp_path / "checkpoints", tmp_path / "checkpoints" / SAVEPOINT)
    shutil.move(tmp_path / "checkpoints", tmp_path / "moved")
    moved = tmp_path / "moved" / checkpoint.relative_to(tmp_path / "checkpoints")
    content = (moved / "_metadata").read_bytes()
    with pytest.raises(WriteError, match=r"was moved: .*\nMove it back"):
        refer_to_claimed(open_snapshot(moved))
    assert (moved / "_metadata").read_bytes() == content
