"""Tables that follow a job while Flink runs it, restores it and removes its old checkpoints equal its savepoint in the end.

``python -m tests.faults.following`` is the long form, with many kills.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.following import follow_a_job

pytestmark = pytest.mark.interop

RUNS = "2:3000,3:3000"


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_tables_equal_the_savepoint(version: str, tmp_path: Path) -> None:
    kinds = ("delta", "iceberg", "parquet")
    found = follow_a_job(version, tmp_path, RUNS, kinds=kinds, retained=3, seed=7, most=3, keys=200, rate=300)
    logs = {kind: follower.log.read_text("utf-8", "replace")[-2000:] for kind, follower in found.items()}
    assert {kind: follower.problems for kind, follower in found.items()} == {kind: [] for kind in kinds}, logs
    assert all(follower.kills for follower in found.values())
