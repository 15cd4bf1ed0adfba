"""The max parallelism of one operator: real Flink compares it with the vertex that runs the operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.cli import main
from tests.interop import flink

pytestmark = pytest.mark.interop

BUFFER = {"name": "buffer", "kind": "OPERATOR_LIST", "value_type": "STRING"}
COUNTS = {"name": "counts", "kind": "VALUE", "key_type": "LONG", "value_type": "STRING", "ttl": False}
CHAINED = [
    {"uid": "writer", "key_type": None, "states": [{**BUFFER, "entries": ["a", "b", "c"]}]},
    {"uid": "coordinator", "key_type": None, "inputs": [0], "non_parallel": True, "states": [{**BUFFER, "entries": ["x", "y"]}]},
]
KEYED = [
    {"uid": uid, "key_type": "LONG", "states": [{**COUNTS, "entries": [{"key": k, "value": f"{uid} {k}"} for k in range(300)]}]}
    for uid in ("first", "second")
]


def taken(version: str, operators: list[dict[str, Any]], to: Path, parallelism: int) -> Path:
    """A savepoint of a job with these states."""
    asked = flink.request(operators, parallelism=parallelism, filled=True, snapshots=["canonical"], snapshots_to=to)
    (answer,) = flink.restore(version, [asked])
    assert "error" not in answer, answer["error"][:2000]
    return Path(answer["snapshots"]["canonical"])


def restored(version: str, operators: list[dict[str, Any]], savepoint: Path, parallelism: int, **more: Any) -> dict[str, Any]:
    (answer,) = flink.restore(version, [flink.request(operators, savepoint, parallelism=parallelism, **more)])
    return answer


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_a_coordinator_that_leaves_its_chain(version: str, tmp_path: Path) -> None:
    source = taken(version, CHAINED, tmp_path / "source", 1)
    assert "Cannot map operator" in restored(version, CHAINED, source, 2)["error"]
    every, one = tmp_path / "every", tmp_path / "one"
    assert main(["set-max-parallelism", str(source), str(every), "1"]) == 0
    assert "Cannot map operator" in restored(version, CHAINED, every, 2)["error"]
    assert main(["set-max-parallelism", str(source), str(one), "1", "--uid", "coordinator"]) == 0
    answer = restored(version, CHAINED, one, 2)
    assert "error" not in answer, answer["error"][:2000]
    assert flink.entries(answer["operators"]) == flink.entries(CHAINED)


@pytest.mark.parametrize(("version", "backend"), [("1.20.5", "rocksdb"), ("2.3.0", "hashmap")])
def test_key_groups_of_one_operator(version: str, backend: str, tmp_path: Path) -> None:
    source = taken(version, KEYED, tmp_path / "source", 2)
    writer = sp.arrow.SavepointWriter.from_existing(source).with_max_parallelism(1000, "second")
    summary = writer.write(tmp_path / "new")
    assert {o.carried: o.max_parallelism for o in summary.operators if o.size_in_bytes} == {
        True: 128,
        False: 1000,
    }
    jobs = [KEYED[0], {**KEYED[1], "max_parallelism": 1000}]
    answer = restored(version, jobs, tmp_path / "new", 3, backend=backend)
    assert "error" not in answer, answer["error"][:2000]
    assert flink.entries(answer["operators"]) == flink.entries(KEYED)
    assert "with max parallelism 1000" in restored(version, KEYED, tmp_path / "new", 3, backend=backend)["error"]
