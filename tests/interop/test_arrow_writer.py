"""Real Flink restores a savepoint that was written, and changed, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import state_processor as sp
from tests.interop import flink

T = sp.Types
KEYS = list(range(-3, 300))
TIMERS_AT = 1_900_000_000_000

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_flink_restores_what_was_written_without_spark(backend: str, tmp_path: Path) -> None:
    history = [[f"{k} × tea"] * (k % 4) for k in KEYS]
    items = [[(f"item {i}", k * i) for i in range(k % 3)] for k in KEYS]
    rows = pa.table(
        {
            "key": pa.array(KEYS, pa.int64()),
            "total": pa.array([k * 1_000_000_007 for k in KEYS], pa.int64()),
            "history": pa.array(history, pa.list_(pa.string())),
            "items": pa.array(items, pa.map_(pa.string(), pa.int64())),
        }
    )
    states = {"total": T.LONG(), "history": sp.ListState(T.STRING()), "items": sp.MapState(T.STRING(), T.LONG())}
    writer = sp.arrow.SavepointWriter.new(flink_version="1.20").with_keyed_state(
        "new", rows.to_reader(), states=states, parallelism=2
    )
    writer.with_timers("new", [{"key": k, "timestamp": TIMERS_AT + k} for k in KEYS])
    writer.with_list_state("lists", "pending", [{"value": "restock tea"}, {"value": "restock €"}])
    writer.with_union_state("lists", "offsets", [{"value": 7}])
    writer.with_broadcast_state("lists", "discounts", [{"key": "tea", "value": 0.5}, {"key": "mug", "value": 0.0}])
    writer.write(tmp_path / "first")
    changed = sp.arrow.SavepointWriter.from_existing(tmp_path / "first")
    changed.update_keyed_state("new", "total", [{"key": 5, "value": -5}, {"key": 1000, "value": 1}])
    changed.delete_keys("new", [{"key": 7}]).write(tmp_path / "second")

    totals = {k: k * 1_000_000_007 for k in KEYS if k != 7} | {5: -5, 1000: 1}
    common = {"key_type": "LONG", "ttl": False}
    keyed = [
        {
            **common,
            "name": "total",
            "kind": "VALUE",
            "value_type": "LONG",
            "entries": [{"key": k, "value": v} for k, v in totals.items()],
        },
        {
            **common,
            "name": "history",
            "kind": "LIST",
            "value_type": "STRING",
            "entries": [{"key": k, "value": v} for k, v in zip(KEYS, history, strict=True) if v and k != 7],
        },
        {
            **common,
            "name": "items",
            "kind": "MAP",
            "map_key_type": "STRING",
            "value_type": "LONG",
            "entries": [
                {"key": k, "value": [list(pair) for pair in v]} for k, v in zip(KEYS, items, strict=True) if v and k != 7
            ],
        },
        {
            "key_type": "LONG",
            "name": "user-timers",
            "kind": "EVENT_TIMER",
            "namespace_type": "VOID_NAMESPACE",
            "entries": [{"key": k, "namespace": "VoidNamespace", "timestamp": TIMERS_AT + k} for k in KEYS if k != 7],
        },
    ]
    plain = [
        {"name": "pending", "kind": "OPERATOR_LIST", "value_type": "STRING", "entries": ["restock tea", "restock €"]},
        {"name": "offsets", "kind": "UNION_LIST", "value_type": "LONG", "entries": [7]},
        {
            "name": "discounts",
            "kind": "BROADCAST",
            "map_key_type": "STRING",
            "value_type": "DOUBLE",
            "entries": [{"key": "tea", "value": 0.5}, {"key": "mug", "value": 0.0}],
        },
    ]
    expected = [{"uid": "new", "key_type": "LONG", "states": keyed}, {"uid": "lists", "key_type": None, "states": plain}]
    (answer,) = flink.restore("1.20.5", [flink.request(expected, tmp_path / "second", backend=backend, max_parallelism=128)])
    assert "error" not in answer, answer["error"][:2000]
    assert flink.entries(answer["operators"]) == flink.entries(expected)
