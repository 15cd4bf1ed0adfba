"""Whether the files of snapshots are there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import state_processor as sp
from tests.state_processor.samples import ORDERS_PATH


def test_a_snapshot_is_complete_if_every_file_has_its_size(tmp_path: Path) -> None:
    for name in ("whole", "without", "shorter"):
        shutil.copytree(ORDERS_PATH, tmp_path / name)
    one = next(f.name for f in Path(ORDERS_PATH).iterdir() if f.name != "_metadata")
    (tmp_path / "without" / one).unlink()
    (tmp_path / "shorter" / one).write_bytes((tmp_path / "whole" / one).read_bytes()[:-1])
    found = {Path(s.path).name: s.is_complete for s in sp.list_snapshots(tmp_path)}
    assert found == {"whole": True, "without": False, "shorter": False}
    assert {s.is_complete for s in sp.list_snapshots(tmp_path, check=False)} == {None}
    table = sp.arrow.snapshots(tmp_path).to_pylist()
    assert {Path(row["path"]).name: row["is_complete"] for row in table} == found


def test_what_is_too_deep_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(ORDERS_PATH, tmp_path / "1" / "2" / "one")
    for call in (sp.list_snapshots, sp.arrow.snapshots):
        assert len(call(tmp_path)) == 1
        assert caplog.messages == []
        assert len(call(tmp_path, depth=2)) == 0
        assert caplog.messages == [
            f"1 directory more than 2 levels down was not searched, such as {tmp_path}/1/2/one; depth=3 searches deeper"
        ]
        caplog.clear()
    with pytest.raises(sp.OptionError, match="depth=-1: expected a number"):
        sp.list_snapshots(tmp_path, depth=-1)
