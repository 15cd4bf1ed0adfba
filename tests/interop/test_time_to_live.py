"""States that get or lose time-to-live, and states without expired values: real Flink restores them as the job declares them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from tests.corpus import FIXTURES
from tests.interop import flink

pytestmark = pytest.mark.interop

FORMATS: dict[str, dict[str, str]] = {
    "hashmap": {"format": "canonical"},
    "rocksdb": {"format": "native", "backend": "rocksdb"},
}
ADDED, TAKEN = ("total", "history", "items"), "session"


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_flink_restores_states_whose_time_to_live_changed(version: str, tmp_path: Path) -> None:
    fixture = FIXTURES / version / "orders-rocksdb-native"
    (metadata,) = fixture.rglob("_metadata")
    operators = json.loads((fixture / "expected.json").read_text("utf-8"))["operators"]
    swapped, expired = copy.deepcopy(operators), copy.deepcopy(operators)
    for state in states_of(swapped):
        state["ttl"] = state["name"] in ADDED if state["name"] in (*ADDED, TAKEN) else state.get("ttl", False)
    (session,) = (state for state in states_of(expired) if state["name"] == TAKEN)
    session["entries"] = []
    requests, wanted = [], []
    for backend, chosen in FORMATS.items():
        writer = sp.arrow.SavepointWriter.from_existing(metadata.parent).with_ttl("orders", TAKEN, False)
        for name in ADDED:
            writer.with_ttl("orders", name)
        writer.write(tmp_path / f"swapped-{backend}", **chosen)
        gone = sp.arrow.SavepointWriter.from_existing(metadata.parent).expire("orders", TAKEN, "1ms", "2030-01-01")
        gone.write(tmp_path / f"expired-{backend}", **chosen)
        touched = sp.arrow.SavepointWriter.from_existing(metadata.parent).touch("orders", TAKEN)
        touched.write(tmp_path / f"touched-{backend}", **chosen)
        for name, expected in (("swapped", swapped), ("expired", expired), ("touched", operators)):
            requests.append(flink.request(expected, tmp_path / f"{name}-{backend}", backend=backend))
            wanted.append(expected)
    for expected, request, answer in zip(wanted, requests, flink.restore(version, requests), strict=True):
        assert "error" not in answer, f"{request['savepoint']}\n{answer['error'][:3000]}"
        found, entries = flink.entries(answer["operators"]), flink.entries(expected)
        assert {name: found[name] for name in entries if found[name] != entries[name]} == {}, request["savepoint"]


def states_of(operators: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [state for operator in operators for state in operator["states"]]
