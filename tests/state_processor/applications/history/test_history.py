"""Sizes of states over several snapshots."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import state_processor as sp
from state_processor import cli
from tests.corpus import FIXTURES
from tests.state_processor.written_checkpoints import JOB, UID, take, take_regional

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


def copied(source: Path, target: Path, hours: float) -> None:
    shutil.copytree(source, target)
    os.utime(target / "_metadata", (hours * 3600, hours * 3600))


@pytest.mark.parametrize("form", ["hashmap-native", "hashmap-canonical", "rocksdb-native", "rocksdb-canonical"])
def test_key_groups(form: str) -> None:
    snapshot = FIXTURES / "2.3.0" / f"orders-{form}" / "savepoint"
    rows = [r for r in sp.history(snapshot, by="key_group").to_pylist() if r["operator_uid"] == "orders"]
    assert {r["max_parallelism"] for r in rows} == {128}
    of_all = {r["key_group"]: r["size_in_bytes"] for r in rows if r["state_name"] is None}
    report = sp.arrow.size_report(snapshot, "orders", by="key_group").to_pylist()
    assert {r["key_group"] for r in report} <= of_all.keys()
    states = {r["state_name"]: r["size_in_bytes"] for r in sp.history(snapshot).to_pylist() if r["operator_uid"] == "orders"}
    if form == "rocksdb-native":
        for name in states.keys() - {None}:
            parts = [r["size_in_bytes"] for r in rows if r["state_name"] == name]
            assert sum(parts) == pytest.approx(states[name], abs=1)
        entries = sum(r["entries_estimate"] for r in rows if r["state_name"] == "total")
        assert entries == pytest.approx(50, abs=1)
        return
    assert {r["state_name"] for r in rows} == {None}
    assert {r["stored_as"] for r in rows} == {"canonical" if "canonical" in form else "key groups"}
    assert sum(of_all.values()) < states[None]
    content = {r["key_group"]: r["size_in_bytes"] for r in report}
    overheads = {group: size - content.get(group, 0) for group, size in of_all.items()}
    assert min(overheads.values()) > 0
    assert max(overheads, key=lambda group: of_all[group]) == max(content, key=lambda group: content[group])


def test_jobs_of_the_same_time_are_compared_with_themselves(tmp_path: Path) -> None:
    first, second = "a" * 32, "b" * 32
    for hours, job, name in ((1, first, "chk-1"), (2, second, "chk-1"), (3, first, "chk-2"), (4, second, "chk-2")):
        copied(NATIVE, tmp_path / job / name, hours)
    rows = [r for r in sp.history(tmp_path).to_pylist() if r["state_name"] == "total"]
    assert [r["job_id"] for r in rows] == [first, second, first, second]
    assert [r["bytes_per_hour"] for r in rows] == [None, None, 0, 0]
    shutil.rmtree(tmp_path / second / "chk-1")
    rows = [r for r in sp.history(tmp_path).to_pylist() if r["state_name"] == "total"]
    assert [r["bytes_per_hour"] for r in rows] == [None, 0, 0]  # the second job follows the first


def test_snapshots_that_are_stored_in_other_ways_are_not_compared(tmp_path: Path) -> None:
    copied(NATIVE, tmp_path / "first", 1)
    copied(FIXTURES / "2.3.0" / "orders-rocksdb-canonical" / "savepoint", tmp_path / "second", 2)
    rows = [r for r in sp.history(tmp_path).to_pylist() if r["operator_uid"] == "orders" and r["state_name"] is None]
    assert [(r["stored_as"], r["bytes_per_hour"]) for r in rows] == [("tables", None), ("canonical", None)]


def test_by_has_two_values() -> None:
    with pytest.raises(sp.OptionError, match="by='key': expected one of state, key_group"):
        sp.history(NATIVE, by="key")


def test_regional_checkpoints_name_the_earliest_checkpoint_that_they_have_state_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    take(tmp_path / JOB, 1)
    take(tmp_path / JOB, 2, {"amelia": 5})
    take_regional(tmp_path / JOB, 2, earlier=1)
    for by in ("state", "key_group"):
        rows = sp.history(tmp_path, by=by).to_pylist()
        mixed = {(r["checkpoint_id"], r["operator_uid"]) for r in rows if r["reference_checkpoint_id"] == 1}
        assert mixed == {(2, UID)}
        assert {r["reference_checkpoint_id"] for r in rows} == {None, 1}
    assert cli.main(["history", str(tmp_path)]) == 0
    assert "checkpoint 2 mixes several times" in "".join(capsys.readouterr())


def test_growth_names_regional_checkpoints(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        take(tmp_path / JOB, number, {"amelia": number})
    take_regional(tmp_path / JOB, 2, earlier=1)
    evidence = {row["operator_uid"]: row["evidence"] for row in sp.growth(tmp_path, at_least=3).to_pylist()}
    assert evidence[UID].endswith(", checkpoint 2 mixes several times")
    assert [uid for uid, text in evidence.items() if "several times" in text] == [UID]
