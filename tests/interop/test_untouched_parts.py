"""Read, change, write of POJOs whose collections Kryo wrote: real Flink restores them, and its next savepoint has the same."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import baskets
from tests.interop import flink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

VERSION = "1.20.5"
BACKENDS = ("hashmap", "rocksdb")
OURS = "io.stateprocessor.interop.Basket"


def _renamed(value: Any) -> Any:
    """The printed value with other owners in all baskets."""
    if isinstance(value, list):
        return [_renamed(part) for part in value]
    if isinstance(value, dict) and value.get("@class") == OURS:
        return value | {"owner": None if value["owner"] is None else value["owner"] + "!"}
    return value


def _grown(value: dict[str, Any]) -> dict[str, Any]:
    """The printed basket with additional codes and items, unless they are empty; sets print sorted by text."""
    codes, items = value["codes"], value["items"]
    more = {} if codes is None else {"codes": sorted([*codes, 5], key=str)}
    return value | more | ({} if items is None else {"items": [*items, "last"]})


@pytest.fixture(scope="module", params=[baskets.HEAP, baskets.ROCKSDB], ids=["heap", "rocksdb"])
def fixture(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_changed_baskets(fixture: Path, spark: SparkSession, tmp_path: Path) -> None:
    expected = json.loads((fixture / "expected.json").read_text("utf-8"))["operators"]
    base = fixture / "savepoint"
    targets = {name: tmp_path / name for name in ("renamed", "grown")}
    baskets.with_other_owners(spark, base, flatten=fixture == baskets.ROCKSDB).write(targets["renamed"])
    baskets.with_more(spark, base).write(targets["grown"])
    wanted = {name: copy.deepcopy(expected) for name in targets}
    for name, operators in wanted.items():
        (states,) = (operator["states"] for operator in operators if operator["uid"] == "baskets")
        for state in states:
            for entry in state["entries"]:
                if name == "renamed" and "value" in entry:
                    entry["value"] = _renamed(entry["value"])
                elif name == "grown" and state["name"] == "basket":
                    entry["value"] = _grown(entry["value"])
    requests = [
        flink.request(wanted[name], target, backend=backend, savepoint_to=tmp_path / f"{name}-{backend}")
        for name, target in targets.items()
        for backend in BACKENDS
    ]
    answers = iter(flink.restore(VERSION, requests))
    for name, target in targets.items():
        for backend in BACKENDS:
            answer = next(answers)
            assert "error" not in answer, answer["error"][:3000]
            found, entries = flink.entries(answer["operators"]), flink.entries(wanted[name])
            assert {state: found[state] for state in entries if found[state] != entries[state]} == {}, backend
            for state in baskets.STATES:
                assert _classes(Path(answer["savepoint"]), state) == _classes(target, state), (backend, state)


def _classes(path: Path, state: str) -> dict[bytes, dict[str, str]]:
    """The classes of what Kryo wrote, by key and field."""
    found = {}
    for place, value in baskets.values(path, state).items():
        basket = baskets.basket_of(state, value)
        found[place] = {n: v.node.class_name for n, v in basket.items() if getattr(v, "node", None) is not None}
    return found
