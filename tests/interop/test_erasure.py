"""Random erasures from savepoints of Flink: real Flink restores the rest, and no byte of a file has what was erased.

``STATE_PROCESSOR_EVERY_CASE=1`` tries 200 instead of 6.
"""

from __future__ import annotations

import copy
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.backends.analysis.stored_bytes import all_parts, contents
from state_processor.backends.metadata.snapshot import open_snapshot
from tests.corpus import FIXTURES, packed_cases
from tests.interop import flink
from tests.interop.selection import EVERY_CASE

pytestmark = pytest.mark.interop

SEEDS = range(200) if EVERY_CASE else (0, 1, 8, 39, 77, 116)
VERSIONS = ("1.20.5", "2.3.0")
SOURCES = ("hashmap-canonical", "hashmap-native", "rocksdb-canonical", "rocksdb-native", "rocksdb-incremental")
TARGETS = (
    ("canonical", None, "hashmap"),
    ("canonical", None, "rocksdb"),
    ("native", "rocksdb", "rocksdb"),
    ("native", "hashmap", "hashmap"),
)
ACTIONS = ("keys", "parts", "fields")
PARTS = ("elements", "entries")


@dataclass(frozen=True)
class Case:
    """An erasure: the savepoint, the text, the actions, and the format of the result."""

    seed: int
    version: str
    source: str
    action: str
    text: str
    target: tuple[str, str | None, str]
    expected: list[dict[str, Any]]
    by_key: bool = False
    """Whether the text is given as a key. No other key has it."""

    @property
    def sought(self) -> dict[str, str]:
        return {"key" if self.by_key else "text": self.text}

    @property
    def path(self) -> Path:
        (metadata,) = (FIXTURES / self.version / f"orders-{self.source}").rglob("_metadata")
        return metadata.parent

    @property
    def remove(self) -> tuple[str, ...]:
        return PARTS if self.action == "parts" else (self.action,)


def case_of(seed: int) -> Case:
    chosen = random.Random(seed)
    version, source = VERSIONS[seed % 2], SOURCES[seed // 2 % len(SOURCES)]
    operators = json.loads((FIXTURES / version / f"orders-{source}" / "expected.json").read_text("utf-8"))["operators"]
    states = {state["name"]: state for operator in operators for state in operator["states"]}
    action, target = chosen.choice(ACTIONS), chosen.choice(TARGETS)
    texts = {
        "keys": [entry["key"] for entry in states["total"]["entries"]],
        "parts": [key for entry in states["items"]["entries"] for key, _ in entry["value"]],
        "fields": [entry["value"]["address"]["city"] for entry in states["profile"]["entries"] if entry["value"]["address"]],
    }
    text = chosen.choice(sorted(set(texts[action])))
    keys = {e["key"] for state in states.values() if "key_type" in state for e in state["entries"] if text in json_of(e)}
    by_key = action == "keys" and keys == {text} and chosen.random() < 0.5
    return Case(seed, version, source, action, text, target, without(operators, action, text), by_key)


def without(operators: list[dict[str, Any]], action: str, text: str) -> list[dict[str, Any]]:
    """What Flink has to find after an erasure."""
    left = copy.deepcopy(operators)
    for operator in left:
        states = operator["states"]
        keys = {e["key"] for state in states if operator["key_type"] for e in state["entries"] if text in json_of(e)}
        for state in states:
            if action == "keys" and operator["key_type"]:
                state["entries"] = [entry for entry in state["entries"] if entry["key"] not in keys]
            elif action == "parts":
                state["entries"] = [kept for entry in state["entries"] if (kept := without_parts(entry, text)) is not None]
            elif action == "fields" and state["name"] == "profile":
                for entry in state["entries"]:
                    address = entry["value"]["address"]
                    if address and text in (address["city"] or ""):
                        address["city"] = None
    return left


def without_parts(entry: Any, text: str) -> Any:
    if text not in json_of(entry):
        return entry
    if isinstance(entry, dict) and isinstance(entry["value"], list):
        value = [part for part in entry["value"] if text not in json_of(part)]
        return {**entry, "value": value} if value else None
    return None


def json_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def bytes_with(path: Path, text: str) -> int:
    """Occurrences in the files as they are stored, and decompressed."""
    pattern = text.encode()
    stored = sum(file.read_bytes().count(pattern) for file in path.rglob("*") if file.is_file())
    return stored + sum(part.tobytes().count(pattern) for part in all_parts(contents(open_snapshot(path))))


@pytest.mark.parametrize("version", VERSIONS)
def test_flink_restores_what_is_left(version: str, tmp_path: Path) -> None:
    cases = [case for seed in SEEDS if (case := case_of(seed)).version == version]
    for case in cases:
        format, backend, _ = case.target
        report = sp.erase(case.path, tmp_path / str(case.seed), **case.sought, remove=case.remove, format=format, backend=backend)
        assert report.is_clean, f"{case}\n{report}"
        assert report.removed, case
        assert bytes_with(tmp_path / str(case.seed), case.text) == 0, case
    requests = [flink.request(case.expected, tmp_path / str(case.seed), backend=case.target[2]) for case in cases]
    for case, answer in zip(cases, flink.restore(version, requests), strict=True):
        assert "error" not in answer, f"{case}\n{answer['error'][:3000]}"
        found, expected = flink.entries(answer["operators"]), flink.entries(case.expected)
        assert {name: found[name] for name in expected if found[name] != expected[name]} == {}, case


KINDS = {
    "windows-kinds-rocksdb-native": ("user-3", "rocksdb"),
    "windows-kinds-rocksdb-incremental": ("user-4", "rocksdb"),
    "keyed-all-rocksdb-changelog": ("plain#9", "rocksdb"),
    "asynchronous-forst-incremental": ("plain#13", "forst"),
}
"""Kinds of state and of checkpoints with a key to erase, and the backend of the result."""


def test_a_key_leaves_windows_changelogs_and_states_of_forst(tmp_path: Path) -> None:
    requests, wanted = [], []
    for name, (key, backend) in KINDS.items():
        (case,) = packed_cases(f"2.3.0/{name}")
        target = tmp_path / name
        report = sp.erase(case.snapshot, target, key=key, remove="keys", format="native", backend=backend)
        assert report.removed, name
        assert report.remaining == [], name
        if "changelog" not in name:  # a changelog has no tables that can stay
            assert all(row["kept"] for row in report.rewritten), name
            assert {row["check"] for row in report.looked_up} >= {"the keys were looked up"}, name
        operators = copy.deepcopy(case.expected["operators"])
        for operator in operators:
            for state in operator["states"] if operator["key_type"] == "STRING" else ():
                state["entries"] = [entry for entry in state["entries"] if entry["key"] != key]
        sizes = {name: case.facts[name] for name in ("parallelism", "max_parallelism")}
        requests.append(flink.request(operators, target, backend=backend, **sizes))
        wanted.append(flink.entries(operators))
    for name, expected, answer in zip(KINDS, wanted, flink.restore("2.3.0", requests), strict=True):
        assert "error" not in answer, f"{name}: {answer['error'][:3000]}"
        found = flink.entries(answer["operators"])
        assert {state: found[state] for state in expected if found[state] != expected[state]} == {}, name
