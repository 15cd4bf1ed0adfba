"""Snapshots that are left after removals are restored by Flink: checkpoints that claim others and share their files, rescaled."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

import state_processor as sp
from tests.interop import expectations as e
from tests.interop import flink
from tests.interop.written_cases import CLAIMED, FIXTURES

pytestmark = pytest.mark.interop

VERSIONS = ("1.20.5", "2.3.0")
INCREMENTAL = dict.fromkeys(("state.backend.incremental", "execution.checkpointing.incremental"), "true")
TWO_DAYS = 2 * 24 * 3600


def steps(round_: int) -> list[dict[str, object]]:
    return [
        {"operator": "orders", "state": "total", "key": "amelia", "value": round_},
        {"operator": "orders", "state": "items", "key": f"newcomer {round_}", "value": ["scarf", round_]},
    ]


def aged(directory: Path) -> None:
    then = time.time() - TWO_DAYS
    for file in directory.rglob("*"):
        os.utime(file, (then, then))


@pytest.mark.parametrize("version", VERSIONS)
def test_snapshots_that_are_left_are_restored(version: str, tmp_path: Path) -> None:
    fixture = FIXTURES / version / "orders-rocksdb-native"
    operators: e.Operators = json.loads((fixture / "expected.json").read_text("utf-8"))["operators"]
    start, checkpoints = fixture / "savepoint", tmp_path / "checkpoints"
    everything = tmp_path / "everything"
    written: dict[Path, e.Operators] = {}
    for round_, parallelism in enumerate((2, 2, 3, 3)):
        request = flink.request(
            operators,
            start,
            backend="rocksdb",
            parallelism=parallelism,
            steps=steps(round_),
            savepoint_to=checkpoints,
            format="incremental",
            settings=INCREMENTAL | (CLAIMED if written else {}),
            printed=False,
        )
        (answer,) = flink.restore(version, [request])
        assert "error" not in answer, answer["error"][:3000]
        start = Path(answer["savepoint"])
        operators = e.repeated(e.after(operators, steps(round_)), "UNION_LIST", parallelism)
        written[start] = operators
        shutil.copytree(checkpoints, everything, dirs_exist_ok=True)
    shutil.copytree(everything, checkpoints, dirs_exist_ok=True)  # Flink has removed the checkpoints that jobs claimed
    first, second, third, last = written
    assert all(path.exists() for path in written)
    users = {tuple(sorted(use.snapshots)) for use in sp.files(checkpoints)}
    for pair in ((first, second), (third, last)):  # a job with another parallelism writes all of its files
        assert tuple(sorted(map(str, pair))) in users
    aged(tmp_path)

    def restores(*snapshots: Path) -> None:
        requests = [flink.request(written[path], path, backend="rocksdb", parallelism=2) for path in snapshots]
        for path, answer in zip(snapshots, flink.restore(version, requests), strict=True):
            assert "error" not in answer, answer["error"][:3000]
            wanted, found = flink.entries(written[path]), flink.entries(answer["operators"])
            assert {state: found[state] for state in wanted if found[state] != wanted[state]} == {}

    assert sp.orphans(checkpoints, delete=True).removed
    restores(*written)
    assert sp.dispose(first, delete=True).shared_files > 0
    assert sp.dispose(third, delete=True).shared_files > 0
    assert not first.exists()
    assert not third.exists()
    restores(second, last)
    assert sp.orphans(checkpoints, delete=True).removed
    sp.retain(checkpoints, keep=1, delete=True)
    restores(second, last)
    assert sp.dispose(second, delete=True).shared_files == 0
    restores(last)
    assert sp.dispose(last, delete=True).outside == ()
    assert [use.path for use in sp.files(checkpoints) if "/shared/" in use.path] == []
