"""Real Flink restores the fixtures and finds what their expected.json says, in every state, key and namespace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interop import flink, flink_jars

FIXTURES = flink_jars.ROOT / "tests" / "fixtures"

pytestmark = pytest.mark.interop


def load(version: str, pattern: str = "*") -> list[tuple[Path, dict[str, Any]]]:
    found = [
        (path.parent, json.loads(path.read_text("utf-8"))) for path in sorted(FIXTURES.glob(f"{version}/{pattern}/expected.json"))
    ]
    assert found, f"no fixtures {version}/{pattern}"
    return found


@pytest.mark.parametrize(
    ("written_by", "restored_by", "pattern", "backend", "parallelism"),
    [
        ("1.20.5", "1.20.5", "*", None, 2),
        ("2.3.0", "2.3.0", "*", None, 2),
        ("1.20.5", "2.3.0", "*-canonical", "rocksdb", 3),
    ],
)
def test_flink_finds_what_is_expected(
    written_by: str, restored_by: str, pattern: str, backend: str | None, parallelism: int
) -> None:
    # Flink finds a checkpoint's files only where it wrote them; those were compared when they were made.
    fixtures = [fixture for fixture in load(written_by, pattern) if fixture[1]["format"] != "checkpoint"]
    requests = [
        flink.request(
            expected["operators"],
            directory / expected["snapshot_dir"],
            backend=backend or expected["backend"],
            parallelism=parallelism,
            max_parallelism=expected["max_parallelism"],
        )
        for directory, expected in fixtures
    ]
    for (directory, expected), answer in zip(fixtures, flink.restore(restored_by, requests), strict=True):
        assert "error" not in answer, f"{directory.name}: {answer['error'][:2000]}"
        assert flink.entries(answer["operators"]) == flink.entries(expected["operators"]), directory.name


def test_steps_and_savepoint(tmp_path: Path) -> None:
    """What the tests of the writer rely on: a restored job goes on, and its savepoint holds the changes."""
    ((directory, expected),) = load("2.3.0", "orders-hashmap-canonical")
    steps = [
        {"operator": "orders", "state": "total", "key": "amelia", "value": 1},
        {"operator": "orders", "state": "history", "key": "amelia", "value": "1 × scarf"},
        {"operator": "orders", "state": "items", "key": "newcomer", "value": ["scarf", 5]},
        {"operator": "orders", "state": "session", "key": "anders", "value": None},
        {"operator": "orders", "state": "(event timer)", "key": "newcomer", "value": 2_000_000_000_000},
        {"operator": "catalog", "state": "pending", "value": "restock scarf"},
    ]
    common: dict[str, Any] = {"max_parallelism": expected["max_parallelism"]}
    (first,) = flink.restore(
        "2.3.0",
        [
            flink.request(
                expected["operators"], directory / "savepoint", steps=steps, savepoint_to=tmp_path, format="native", **common
            )
        ],
    )
    (second,) = flink.restore("2.3.0", [flink.request(expected["operators"], first["savepoint"], **common)])
    before, after = flink.entries(first["operators"]), flink.entries(second["operators"])
    changed = {name: (set(before[name]) - set(after[name]), set(after[name]) - set(before[name])) for name in before}
    assert before == flink.entries(expected["operators"])
    assert {name[1]: change for name, change in changed.items() if any(change)} == {
        "total": ({'{"key": "amelia", "value": 3950}'}, {'{"key": "amelia", "value": 1}'}),
        "history": (
            {'{"key": "amelia", "value": ["1 × teapot"]}'},
            {'{"key": "amelia", "value": ["1 × teapot", "1 × scarf"]}'},
        ),
        "items": (set(), {'{"key": "newcomer", "value": [["scarf", 5]]}'}),
        "session": ({'{"key": "anders", "value": "s-15838"}'}, set()),
        "user-timers": (set(), {'{"key": "newcomer", "namespace": "VoidNamespace", "timestamp": 2000000000000}'}),
        "pending": (set(), {'"restock scarf"'}),
    }


def test_refusal_is_reported() -> None:
    ((directory, expected),) = load("2.3.0", "orders-hashmap-canonical")
    (orders, *others) = json.loads(json.dumps(expected["operators"]))
    orders["states"][0]["value_type"] = "STRING"  # total is a LONG
    (answer,) = flink.restore("2.3.0", [flink.request([orders, *others], directory / "savepoint")])
    assert "StateMigrationException" in answer["error"]
