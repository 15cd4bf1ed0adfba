"""Snapshots that are left after removals are restored by Flink: checkpoints that claim others and share their files, rescaled."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from tests.interop import expectations as e
from tests.interop import flink
from tests.interop.written_cases import CLAIMED, FIXTURES

pytestmark = pytest.mark.interop

VERSIONS = ("1.20.5", "2.3.0")
INCREMENTAL = dict.fromkeys(("state.backend.incremental", "execution.checkpointing.incremental"), "true")
MERGED = dict.fromkeys(("state.checkpoints.file-merging.enabled", "execution.checkpointing.file-merging.enabled"), "true")
CHANGELOG = dict.fromkeys(("state.backend.changelog.enabled", "state.changelog.enabled"), "true")
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


def written_by_claims(
    version: str, checkpoints: Path, everything: Path, parallelisms: Sequence[int], settings: Mapping[str, str]
) -> dict[Path, e.Operators]:
    """Let jobs claim the checkpoints of one another; all checkpoints stay. A changelog begins with the second job."""
    fixture = FIXTURES / version / "orders-rocksdb-native"
    operators: e.Operators = json.loads((fixture / "expected.json").read_text("utf-8"))["operators"]
    start = fixture / "savepoint"
    written: dict[Path, e.Operators] = {}
    for round_, parallelism in enumerate(parallelisms):
        request = flink.request(
            operators,
            start,
            backend="rocksdb",
            parallelism=parallelism,
            steps=steps(round_),
            savepoint_to=checkpoints,
            format="incremental",
            settings=INCREMENTAL | (CLAIMED | settings if written else {}),
            printed=False,
        )
        (answer,) = flink.restore(version, [request], changelogs=checkpoints)
        assert "error" not in answer, answer["error"][:3000]
        start = Path(answer["savepoint"])
        operators = e.repeated(e.after(operators, steps(round_)), "UNION_LIST", parallelism)
        written[start] = operators
        shutil.copytree(checkpoints, everything, dirs_exist_ok=True)
    shutil.copytree(everything, checkpoints, dirs_exist_ok=True)  # Flink has removed the checkpoints that jobs claimed
    assert all(path.exists() for path in written)
    return written


def check_restored(version: str, written: Mapping[Path, e.Operators], changelogs: Path, settings: Mapping[str, str]) -> None:
    """Restore snapshots with Flink, and compare all entries."""
    requests = [
        flink.request(operators, path, backend="rocksdb", parallelism=2, settings=settings) for path, operators in written.items()
    ]
    for operators, answer in zip(written.values(), flink.restore(version, requests, changelogs=changelogs), strict=True):
        assert "error" not in answer, answer["error"][:3000]
        wanted, found = flink.entries(operators), flink.entries(answer["operators"])
        assert {state: found[state] for state in wanted if found[state] != wanted[state]} == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_snapshots_that_are_left_are_restored(version: str, tmp_path: Path) -> None:
    checkpoints = tmp_path / "a+b=c,d;e@f&g'(h)!$" / "checkpoints"
    written = written_by_claims(version, checkpoints, tmp_path / "everything", (2, 2, 3, 3), {})
    first, second, third, last = written
    users = {tuple(sorted(use.snapshots)) for use in sp.files(checkpoints)}
    for pair in ((first, second), (third, last)):  # a job with another parallelism writes all of its files
        assert tuple(sorted(map(str, pair))) in users
    aged(tmp_path)

    def restores(*snapshots: Path) -> None:
        check_restored(version, {path: written[path] for path in snapshots}, tmp_path / "restored", {})

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


def is_disposed(path: Path) -> bool:
    """Remove a snapshot, unless others use files in its directory."""
    with suppress(sp.WriteError):
        return sp.dispose(path, delete=True).removed
    return False


def test_removals_of_changelogs_in_any_order(tmp_path: Path) -> None:
    version, draw, checkpoints = "2.3.0", random.Random(1), tmp_path / "checkpoints"
    # Flink 2.3.0 restores wrong values from a changelog after a change of the parallelism
    written = written_by_claims(version, checkpoints, tmp_path / "everything", (2, 2, 2), CHANGELOG)
    check_restored(version, written, tmp_path / "restored", CHANGELOG)
    assert any(len(use.snapshots) == 3 for use in sp.files(checkpoints))
    aged(tmp_path)
    while written:
        removed = next(path for path in draw.sample(list(written), len(written)) if is_disposed(path))
        del written[removed]
        sp.orphans(checkpoints, delete=True)
        check_restored(version, written, tmp_path / "restored", CHANGELOG)
    assert {Path(use.path).parent.name for use in sp.files(checkpoints)} <= {"shared"}


def test_removals_of_merged_files_in_any_order(tmp_path: Path) -> None:
    """The checkpoints of a job that ran, with another parallelism later; Flink has subsumed others."""
    version, draw, checkpoints = "2.3.0", random.Random(2), tmp_path / "checkpoints"
    sizes = {"interval": 300, "retained": 3, "keys": 300, "rate": 2000}
    flink.run_with_checkpoints(version, checkpoints, tmp_path / "savepoints", runs="2:1500,3:1500", settings=MERGED, **sizes)
    left = sorted(path.parent for path in checkpoints.glob("*/chk-*/_metadata"))
    assert len(left) >= 4
    (tmp_path / "savepoints").mkdir(exist_ok=True)
    uses = [use for use in sp.files(checkpoints) if len(use.snapshots) > 1]
    assert uses
    aged(tmp_path)
    written = dict(zip(left, restored_totals(version, left), strict=True))
    assert len({str(content) for content in written.values()}) > 2
    while left:
        if draw.randrange(3):
            gone = [next(path for path in draw.sample(left, len(left)) if is_disposed(path))]
        else:
            gone = [Path(path) for path in sp.retain(checkpoints, keep=draw.randrange(1, 3), delete=True).snapshots]
        left = [path for path in left if path not in gone]
        # a job whose checkpoints are gone may have been claimed: its merged files need the word that all directories are searched
        sp.orphans(checkpoints, also=[tmp_path / "savepoints"], delete=True)
        for path, found in zip(left, restored_totals(version, left), strict=True):
            assert found == written[path]


def restored_totals(version: str, snapshots: Sequence[Path]) -> list[Any]:
    """Restore checkpoints of ``RunningJob`` with Flink, and return their entries."""
    states = [
        {"name": "total", "kind": "VALUE", "value_type": "LONG"},
        {"name": "items", "kind": "MAP", "map_key_type": "STRING", "value_type": "LONG"},
    ]
    operators = [{"uid": "totals", "key_type": "LONG", "states": states}]
    ignoring = dict.fromkeys(
        ("execution.savepoint.ignore-unclaimed-state", "execution.state-recovery.ignore-unclaimed-state"), "true"
    )
    requests = [flink.request(operators, path, backend="rocksdb", settings=MERGED | ignoring) for path in snapshots]
    answers = flink.restore(version, requests) if requests else []
    assert [answer["error"][:3000] for answer in answers if "error" in answer] == []
    return [flink.entries(answer["operators"]) for answer in answers]
