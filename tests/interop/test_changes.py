"""Differences of incremental checkpoints that Flink wrote: by the files that one of them lacks, and in full."""

from __future__ import annotations

import json
import random
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from tests.interop import expectations as e
from tests.interop import flink
from tests.interop.written_cases import CLAIMED, FIXTURES

pytestmark = pytest.mark.interop

INCREMENTAL = dict.fromkeys(("state.backend.incremental", "execution.checkpointing.incremental"), "true")
MANY_TABLES = {
    "state.backend.rocksdb.writebuffer.size": "64kb",
    "state.backend.rocksdb.compaction.level.target-file-size-base": "4kb",
}
PARALLELISM = (2, 2, 2, 2, 2, 3)
MERGED = dict.fromkeys(
    (f"{options}.file-merging.enabled" for options in ("state.checkpoints", "execution.checkpointing")), "true"
)
CHANGELOG = dict.fromkeys(("state.backend.changelog.enabled", "state.changelog.enabled"), "true")
MATERIALIZED = dict.fromkeys(
    (f"{options}.periodic-materialize.interval" for options in ("state.backend.changelog", "state.changelog")), "50 ms"
)


def steps(rng: random.Random, keys: list[str]) -> list[dict[str, Any]]:
    """Random changes of values, maps, lists and timers; ``None`` clears the state of a key."""

    def step(state: str, value: Any) -> dict[str, Any]:
        return {"operator": "orders", "state": state, "key": rng.choice(keys), "value": value}

    found = [step("total", rng.choice((None, rng.randrange(9)))) for _ in range(rng.randrange(12))]
    found += [step("items", [rng.choice(("scarf", "mug", "tray")), rng.randrange(9)]) for _ in range(rng.randrange(12))]
    found += [step("items", None) for _ in range(rng.randrange(3))]
    found += [step("history", rng.choice((None, "1 × scarf", "2 × mug"))) for _ in range(rng.randrange(8))]
    found += [step("session", rng.choice((None, f"s-{rng.randrange(9)}"))) for _ in range(rng.randrange(8))]
    found += [step("(event timer)", rng.randrange(1 << 40, 1 << 41)) for _ in range(rng.randrange(5))]
    return found


def changes(old: Path, new: Path, state: str, full: bool) -> list[str]:
    return sorted(repr(row) for batch in sp.arrow.diff(old, new, "orders", state, full) for row in batch.to_pylist())


@pytest.mark.parametrize(("version", "backend"), [("1.20.5", "rocksdb"), ("2.3.0", "rocksdb"), ("2.3.0", "forst")])
def test_checkpoints_of_random_changes(version: str, backend: str, tmp_path: Path) -> None:
    rng = random.Random(f"{version} {backend}")
    fixture = FIXTURES / version / "orders-rocksdb-native"
    operators: e.Operators = json.loads((fixture / "expected.json").read_text("utf-8"))["operators"]
    start = fixture / "savepoint" if backend == "rocksdb" else None  # ForSt does not restore files of others
    checkpoints, everything = tmp_path / "checkpoints", tmp_path / "everything"
    keys = ["amelia", "anders", "beatriz", "clara", "zoë", *(f"newcomer {i}" for i in range(40))]
    written: list[Path] = []
    for parallelism in PARALLELISM:
        request = flink.request(
            operators,
            start,
            backend=backend,
            parallelism=parallelism,
            steps=steps(rng, keys),
            savepoint_to=checkpoints,
            format="incremental",
            settings=INCREMENTAL | MANY_TABLES | (CLAIMED if written else {}),
            printed=False,
        )
        (answer,) = flink.restore(version, [request])
        assert "error" not in answer, answer["error"][:3000]
        start = Path(answer["savepoint"])
        written.append(start)
        shutil.copytree(checkpoints, everything, dirs_exist_ok=True)
    shutil.copytree(everything, checkpoints, dirs_exist_ok=True)  # Flink has removed the checkpoints that jobs claimed
    found, read, stored = 0, 0, 0
    for old, new in [*pairwise(written), (written[0], written[-2]), (written[-1], written[0])]:
        summary = {row["state_name"]: row for row in sp.arrow.diff_summary(old, new, "orders").to_pylist()}
        assert summary["total"]["method"] == "incremental"
        if written[-1] not in (old, new):  # the last job has another parallelism, and shares no file
            read += sum(row["bytes_read"] for row in summary.values())
            stored += sum(row["bytes_stored"] for row in summary.values())
        for state, row in summary.items():
            incremental = changes(old, new, state, full=False)
            assert incremental == changes(old, new, state, full=True), f"{state}, {old} and {new}"
            assert len(incremental) == row["inserts"] + row["deletes"] + row["updates"]
            found += len(incremental)
    assert found > 100
    assert read < stored or backend == "forst"  # tables of few entries are read whole


@pytest.mark.parametrize(("backend", "kind"), [("rocksdb", MERGED), ("rocksdb", CHANGELOG), ("hashmap", CHANGELOG)])
def test_merged_files_and_changelogs(backend: str, kind: dict[str, str], tmp_path: Path) -> None:
    version, rng = "2.3.0", random.Random(f"{backend} {kind}")
    fixture = FIXTURES / version / f"orders-{backend}-native"
    operators: e.Operators = json.loads((fixture / "expected.json").read_text("utf-8"))["operators"]
    checkpoints, everything, start = tmp_path / "checkpoints", tmp_path / "everything", fixture / "savepoint"
    keys = ["amelia", "anders", "beatriz", "clara", "zoë", *(f"newcomer {i}" for i in range(40))]
    written: list[Path] = []
    for settings in (INCREMENTAL, CLAIMED | kind, CLAIMED | kind | MATERIALIZED, CLAIMED | kind):
        request = flink.request(
            operators,
            start,
            backend=backend,
            steps=steps(rng, keys),
            savepoint_to=checkpoints,
            format="incremental",
            settings=settings | MANY_TABLES,
            printed=False,
        )
        (answer,) = flink.restore(version, [request], changelogs=checkpoints)
        assert "error" not in answer, answer["error"][:3000]
        start = Path(answer["savepoint"])
        written.append(start)
        shutil.copytree(checkpoints, everything, dirs_exist_ok=True)
    shutil.copytree(everything, checkpoints, dirs_exist_ok=True)  # Flink has removed the checkpoints that jobs claimed
    methods, found = [], 0
    for old, new in [*pairwise(written), (written[-1], written[1])]:
        for row in sp.arrow.diff_summary(old, new, "orders").to_pylist():
            state = row["state_name"]
            incremental = changes(old, new, state, full=False)
            assert incremental == changes(old, new, state, full=True), f"{state}, {old} and {new}"
            assert len(incremental) == row["inserts"] + row["deletes"] + row["updates"]
            found += len(incremental)
            if state == "total":
                methods.append(row["method"])
    assert found > 60
    assert methods.count("incremental") >= (4 if backend == "rocksdb" else 1)
