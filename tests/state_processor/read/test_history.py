"""Sizes of states over several snapshots."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import state_processor as sp
from state_processor import cli
from tests.corpus import FIXTURES

NATIVE = FIXTURES / "2.3.0" / "orders-rocksdb-native" / "savepoint"


def test_sizes_and_growth_of_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(NATIVE)
    writer.update_keyed_state("orders", "total", [{"key": f"newcomer {i}", "value": i} for i in range(100)])
    shutil.copytree(NATIVE, tmp_path / "first")
    writer.write(tmp_path / "second", format="native", backend="rocksdb")
    for hours, name in ((1, "first"), (3, "second")):
        os.utime(tmp_path / name / "_metadata", (hours * 3600, hours * 3600))
    rows = {(Path(r["path"]).name, r["operator_uid"], r["state_name"]): r for r in sp.history(tmp_path).to_pylist()}
    old, new = rows["first", "orders", "total"], rows["second", "orders", "total"]
    assert old["entries_estimate"] == 50
    assert new["entries_estimate"] == 150
    assert old["bytes_per_hour"] is None
    assert new["bytes_per_hour"] == pytest.approx((new["size_in_bytes"] - old["size_in_bytes"]) / 2)
    assert new["size_in_bytes"] > old["size_in_bytes"] > 0
    assert rows["second", "orders", "items"]["bytes_per_hour"] == 0
    whole = rows["first", "orders", None]
    assert whole["entries_estimate"] is None
    assert whole["size_in_bytes"] > sum(r["size_in_bytes"] for (s, _, n), r in rows.items() if s == "first" and n is not None)
    assert rows["first", "catalog", None]["size_in_bytes"] > 0
    assert cli.main(["history", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["time", "checkpoint_id", "operator", "state_name", "size", "per_hour", "entries_estimate"]
    (total,) = [line.split() for line in lines if " total " in line and "03:00" in line]
    assert total[-1] == "150"
    assert total[-2].startswith("+")
