"""Null values of map state with time-to-live: real Flink restores each entry, and its own savepoints hold them again.

Nothing but Flink's answers tells whether an entry is there: it drops one whose value is null itself without a word.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import state_processor as sp
from tests.interop import flink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

T = sp.Types
BACKENDS = ("hashmap", "rocksdb")
MAPS = {key: {"kept": f"page {key}", "gone": None} if key % 2 else {"gone": None} for key in range(20)}
CHANGES = {("kept", 1): None, ("gone", 2): "back", ("more", 3): None, ("only", 100): None}
DELETED = [(5, "gone"), (4, "gone")]
STATES = {"seen": True, "plain": False}
"""Map states, and whether they have time-to-live."""


def expected(maps: dict[int, dict[str, str | None]]) -> list[dict[str, Any]]:
    entries = [{"key": key, "value": [list(pair) for pair in held.items()]} for key, held in maps.items() if held]
    common = {"kind": "MAP", "key_type": "LONG", "map_key_type": "STRING", "value_type": "STRING"}
    states = [{"name": name, **common, "ttl": ttl, "entries": copy.deepcopy(entries)} for name, ttl in STATES.items()]
    return [{"uid": "visits", "key_type": "LONG", "states": states}]


def written(spark: SparkSession, target: Path) -> list[dict[str, Any]]:
    """A savepoint from nothing."""
    rows = [(key, held, held) for key, held in MAPS.items()]
    frame = spark.createDataFrame(rows, "key bigint, seen map<string,string>, plain map<string,string>")
    states = {name: sp.MapState(T.STRING(), T.STRING(), ttl=ttl) for name, ttl in STATES.items()}
    sp.SavepointWriter.new(spark).with_keyed_state("visits", frame, states=states).write(target)
    return expected(MAPS)


def updated(spark: SparkSession, base: str, target: Path) -> list[dict[str, Any]]:
    """Changes of state from Flink: added nulls, and removed entries."""
    writer = sp.SavepointWriter.from_existing(spark, base)
    changes = [(key, name, value) for (name, key), value in CHANGES.items()]
    for state in STATES:
        frame = spark.createDataFrame(changes, "key bigint, map_key string, map_value string")
        writer.update_keyed_state("visits", state, frame)
        writer.delete_map_entries("visits", state, spark.createDataFrame(DELETED, "key bigint, map_key string"))
    writer.write(target)
    maps = copy.deepcopy(MAPS)
    for key, name in DELETED:
        del maps[key][name]
    for (name, key), value in CHANGES.items():
        maps.setdefault(key, {})[name] = value
    return expected(maps)


def restored(version: str, operators: list[dict[str, Any]], target: Path, **options: Any) -> list[dict[str, Any]]:
    requests = [
        flink.request(operators, target, backend=b, savepoint_to=target.parent / f"{target.name}-{b}", **options)
        for b in BACKENDS
    ]
    answers = flink.restore(version, requests)
    for backend, answer in zip(BACKENDS, answers, strict=True):
        assert "error" not in answer, f"{version}, {backend}: {answer['error'][:3000]}"
        assert flink.entries(answer["operators"]) == flink.entries(operators), f"{version}, {backend}"
    return answers


def read(spark: SparkSession, path: str) -> list[dict[str, Any]]:
    reader = sp.SavepointReader.read(spark, path)
    maps = [{row.key: row.value for row in reader.read_keyed_state("visits", state, flatten=False).collect()} for state in STATES]
    assert maps[0] == maps[1]
    assert all(row._last_access is not None for row in reader.read_keyed_state("visits", "seen", metadata=True).collect())
    return expected(maps[0])


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_flink_keeps_entries_whose_value_is_null(spark: SparkSession, tmp_path: Path, version: str) -> None:
    operators = written(spark, tmp_path / "new")
    for backend, answer in zip(BACKENDS, restored(version, operators, tmp_path / "new"), strict=True):
        assert flink.entries(read(spark, answer["savepoint"])) == flink.entries(operators), backend
    native = restored(version, operators, tmp_path / "new", format="native")
    target = tmp_path / "updated"
    changed = updated(spark, native[1]["savepoint"], target)
    for backend, answer in zip(BACKENDS, restored(version, changed, target), strict=True):
        assert flink.entries(read(spark, answer["savepoint"])) == flink.entries(changed), backend
