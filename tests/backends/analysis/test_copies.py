"""Differences of snapshots that were copied or replaced: recorded paths and sizes are not proof of equal bytes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import state_processor as sp
from tests.state_processor.samples import ORDERS_PATH

INCREMENTAL = Path("tests/fixtures/1.20.5/orders-rocksdb-incremental").resolve()


def checkpoint(root: Path) -> Path:
    return next(p.parent for p in root.rglob("_metadata"))


def rows(*snapshots: Path, full: bool) -> list[dict[str, object]]:
    return sp.arrow.diff(*snapshots, "orders", "total", full=full).read_all().to_pylist()


def test_two_copies_have_files_of_their_own(tmp_path: Path) -> None:
    one, other = (Path(shutil.copytree(INCREMENTAL, tmp_path / name)) for name in ("one", "other"))
    assert rows(checkpoint(one), checkpoint(other), full=False) == rows(checkpoint(one), checkpoint(other), full=True) == []
    one, other = (Path(shutil.copytree(INCREMENTAL, tmp_path / name)) for name in ("sound", "damaged"))
    for table in checkpoint(other).parent.glob("shared/*"):
        content = bytearray(table.read_bytes())
        content[: len(content) // 2] = bytes(len(content) // 2)
        table.write_bytes(content)
    for full in (True, False):
        with pytest.raises(sp.CorruptSnapshotError):
            rows(checkpoint(one), checkpoint(other), full=full)


def test_a_checkpoint_shares_files_with_itself() -> None:
    found = checkpoint(INCREMENTAL)
    (summary,) = [r for r in sp.arrow.diff_summary(found, found, "orders").to_pylist() if r["state_name"] == "total"]
    assert (summary["method"], summary["bytes_read"]) == ("incremental", 0)


def test_a_reader_of_a_replaced_snapshot_says_so(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    shutil.copytree(ORDERS_PATH, path)
    reader = sp.open(path)
    shutil.rmtree(path)
    sp.arrow.SavepointWriter.from_existing(ORDERS_PATH).delete_keys("orders", [{"key": "amelia"}]).write(path)
    with pytest.raises(sp.MissingFileError, match=r"was replaced since it was opened: .* Open it again"):
        reader.read_keyed_state("orders", "total").read_all()
    shutil.rmtree(path)
    with pytest.raises(sp.MissingFileError, match="does not exist"):
        reader.read_keyed_state("orders", "total").read_all()
