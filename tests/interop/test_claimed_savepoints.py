"""Flink does not restore checkpoints of a job that claimed a native savepoint of Flink (FLINK-39964), until they are repaired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import state_processor as sp
from state_processor import cli
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.streams import reused_files
from tests.interop import expectations as e
from tests.interop import flink
from tests.interop.restored_cases import differences
from tests.interop.selection import in_turn
from tests.interop.written_cases import CLAIMED, FIXTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

VERSIONS = ("1.20.5", "2.3.0")
INCREMENTAL = dict.fromkeys(("state.backend.incremental", "execution.checkpointing.incremental"), "true")
"""Only of such jobs do checkpoints share the files of RocksDB with a native savepoint."""
CHANGELOG = dict.fromkeys(("state.backend.changelog.enabled", "state.changelog.enabled"), "true")
STEPS = [
    {"operator": "orders", "state": "total", "key": "amelia", "value": 1},
    {"operator": "orders", "state": "items", "key": "newcomer", "value": ["scarf", 5]},
]
PARALLELISM = 2


def fixture(version: str) -> tuple[Path, e.Operators]:
    directory = FIXTURES / version / "orders-rocksdb-native"
    return directory / "savepoint", json.loads((directory / "expected.json").read_text("utf-8"))["operators"]


def snapshot_of(version: str, operators: e.Operators, start: Path, directory: Path, **options: Any) -> Path:
    """Start a job with a snapshot, and take another one."""
    changelogs = options.pop("changelogs", None)
    request = flink.request(operators, start, savepoint_to=directory, parallelism=PARALLELISM, **{"backend": "rocksdb"} | options)
    (answer,) = flink.restore(version, [request], changelogs=changelogs)
    assert "error" not in answer, answer["error"][:3000]
    return Path(answer["savepoint"])


def native_savepoint(version: str, directory: Path, backend: str = "rocksdb") -> tuple[Path, e.Operators]:
    start, operators = fixture(version)
    written = snapshot_of(version, operators, start, directory, backend=backend, format="native", settings=INCREMENTAL)
    return written, e.repeated(operators, "UNION_LIST", PARALLELISM)


def claimed(version: str, operators: e.Operators, savepoint: Path, directory: Path, **options: Any) -> tuple[Path, e.Operators]:
    """Have a job claim a snapshot and change some state, and return its first checkpoint."""
    options |= {"format": "incremental", "settings": CLAIMED | options.get("settings", {}), "steps": STEPS, "printed": False}
    checkpoint = snapshot_of(version, operators, savepoint, directory, **options)
    assert checkpoint.name.startswith("chk-")
    return checkpoint, e.repeated(e.after(operators, STEPS), "UNION_LIST", PARALLELISM)


def restored(version: str, operators: e.Operators, *snapshots: Path, **options: Any) -> list[dict[str, Any]]:
    changelogs = options.pop("changelogs", None)
    requests = [flink.request(operators, snapshot, **{"backend": "rocksdb"} | options) for snapshot in snapshots]
    return flink.restore(version, requests, changelogs=changelogs)


def check_all_is_there(answer: dict[str, Any], operators: e.Operators) -> None:
    assert "error" not in answer, answer["error"][:3000]
    wanted, found = flink.entries(operators), flink.entries(answer["operators"])
    assert sum(map(len, wanted.values())) > 50
    assert {state: found[state] for state in wanted if found[state] != wanted[state]} == {}


PLACES = ("beside the job", "elsewhere")


@pytest.mark.parametrize(
    ("version", "place"), [(version, place) for n, version in enumerate(VERSIONS) for place in in_turn(PLACES, n)]
)
def test_flink_restores_a_checkpoint_that_was_repaired(
    version: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    savepoints = tmp_path / ("checkpoints" if place == "beside the job" else "savepoints")
    savepoint, before = native_savepoint(version, savepoints)
    checkpoint, operators = claimed(version, before, savepoint, tmp_path / "checkpoints")
    (refusal,) = restored(version, operators, checkpoint)
    assert f"FileNotFoundException: {checkpoint}/" in refusal["error"]

    allowed = [] if place == "beside the job" else ["--allow", str(savepoints)]
    if not allowed:
        assert list(differences(checkpoint, operators)) == []
    assert cli.main(["validate", str(checkpoint), *allowed]) == 1
    message = "Flink can't restore this checkpoint (its bug FLINK-39964): 12 files are in the savepoint that the job claimed"
    assert f"{message}, {savepoint}, and Flink looks for them in {checkpoint}" in capsys.readouterr().out
    assert cli.main(["validate", str(checkpoint), "--repair", *allowed]) == 0
    assert str(savepoint) in capsys.readouterr().out
    assert cli.main(["validate", str(checkpoint), "--values", "--allow", str(savepoint)]) == 0

    for answer in (*restored(version, operators, checkpoint), *restored(version, operators, checkpoint, parallelism=3)):
        check_all_is_there(answer, operators)
    following = snapshot_of(version, operators, checkpoint, tmp_path / "following")
    check_all_is_there(restored(version, operators, following)[0], e.repeated(operators, "UNION_LIST", PARALLELISM))
    again, operators = claimed(version, operators, checkpoint, tmp_path / "checkpoints")
    assert not reused_files(open_snapshot(again).metadata)
    check_all_is_there(restored(version, operators, again)[0], operators)


def patched(spark: SparkSession, base: Path, target: Path, **options: Any) -> None:
    writer = sp.SavepointWriter.from_existing(spark, base)
    writer.update_keyed_state("orders", "total", spark.createDataFrame([("amelia", 100)], "key string, value long"))
    writer.write(target, **options)


WAYS: dict[str, dict[str, Any]] = {
    "canonical": {},
    "native": {"format": "native", "backend": "rocksdb"},
    "with shared files": {"format": "native", "backend": "rocksdb", "share_files": True},
}


@pytest.mark.parametrize("version", VERSIONS)
def test_savepoints_of_this_package_can_be_claimed(version: str, spark: SparkSession, tmp_path: Path) -> None:
    base, operators = native_savepoint(version, tmp_path / "savepoints")
    operators = e.changed(operators, "orders", "total", {"amelia": 100})
    for name, options in WAYS.items():
        target, directory = tmp_path / name.replace(" ", "-"), tmp_path / f"checkpoints-{name[:4]}"
        patched(spark, base, target, **options)
        checkpoint, after = claimed(version, operators, target, directory)
        assert not reused_files(open_snapshot(checkpoint).metadata), name
        check_all_is_there(restored(version, after, checkpoint)[0], after)
        again, after = claimed(version, after, checkpoint, directory)
        check_all_is_there(restored(version, after, again)[0], after)


def test_a_job_with_a_changelog_begins_with_any_savepoint(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It refers to all files of a savepoint that it claims, whoever wrote the savepoint in whichever format."""
    version, target = "2.3.0", tmp_path / "checkpoints" / "savepoint"
    start, operators = fixture(version)
    patched(spark, start, target)
    operators = e.changed(operators, "orders", "total", {"amelia": 100})
    options: dict[str, Any] = {"changelogs": tmp_path / "checkpoints", "settings": CHANGELOG}
    checkpoint, after = claimed(version, operators, target, tmp_path / "checkpoints", **options)
    (refusal,) = restored(version, after, checkpoint, **options)
    assert f"FileNotFoundException: {checkpoint}/" in refusal["error"]
    assert cli.main(["validate", str(checkpoint), "--allow", str(tmp_path / "checkpoints")]) == 1
    assert f"2 files are in the savepoint that the job claimed, {target}, " in capsys.readouterr().out
    assert cli.main(["validate", str(checkpoint), "--repair", "--allow", str(target)]) == 0
    check_all_is_there(restored(version, after, checkpoint, **options)[0], after)
    again, after = claimed(version, after, checkpoint, tmp_path / "checkpoints", **options)
    check_all_is_there(restored(version, after, again, **options)[0], after)
