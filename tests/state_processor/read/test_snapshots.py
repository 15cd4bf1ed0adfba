"""Whether the files of snapshots are there."""

from __future__ import annotations

import shutil
from pathlib import Path

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
    assert sp.arrow.snapshots(tmp_path)["is_complete"].to_pylist() == [False, True, False]
