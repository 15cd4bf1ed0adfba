"""The fixtures for the tests of this package, and their content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

import state_processor as sp

FIXTURES = Path(__file__).parents[1] / "fixtures"
ORDERS = FIXTURES / "2.3.0" / "orders-hashmap-canonical"
TYPES = FIXTURES / "2.3.0" / "types-hashmap-canonical"
WINDOWS = FIXTURES / "2.3.0" / "windows-hashmap-canonical"
ORDERS_OF_1 = FIXTURES / "1.20.5" / "orders-hashmap-canonical"
"""The same of a Flink that records hashes of uids only."""
ORDERS_PATH = str(ORDERS / "savepoint")
TYPES_PATH = str(TYPES / "savepoint")
WINDOWS_PATH = str(WINDOWS / "savepoint")


def expected_state(directory: Path, uid: str, name: str) -> dict[str, Any]:
    """A state of ``expected.json``."""
    expected = json.loads((directory / "expected.json").read_text("utf-8"))
    (operator,) = (o for o in expected["operators"] if o["uid"] == uid)
    return next(s for s in operator["states"] if s["name"] == name)


def expected_values(directory: Path, uid: str, name: str) -> dict[str, Any]:
    """Values by key of a keyed state whose keys are text or numbers."""
    return {e["key"]: e["value"] for e in expected_state(directory, uid, name)["entries"]}


def savepoint_with_mentions(path: Path, person: str = "zoë@example.com") -> Path:
    """Write a savepoint that mentions a person in each kind of state: 4 keyed and 3 operator states."""
    writer = sp.arrow.SavepointWriter.new(flink_version="2.0")
    entry = sp.Types.ROW_NAMED(["name", "tags"], [sp.Types.STRING(), sp.Types.LIST(sp.Types.STRING())])
    rows = [{"key": n, "value": {"name": f"user{n}", "tags": ["x", person] if n == 3 else []}} for n in range(10)]
    writer.with_keyed_state("people", rows, states={"value": sp.ValueState(entry)}, key_type=sp.Types.LONG())
    named = pa.schema([("key", pa.int64()), ("friends", pa.map_(pa.string(), pa.int64()))])
    friends = [{"key": n, "friends": [(person, n)] if n == 4 else [("bob", 12345)]} for n in range(10)]
    of_friends = {"friends": sp.MapState(sp.Types.STRING(), sp.Types.LONG())}
    writer.with_keyed_state("friends", pa.Table.from_pylist(friends, named), states=of_friends, key_type=sp.Types.LONG())
    timers = [{"key": person, "timestamp": 99_999, "domain": "event_time", "service": "t"}]
    writer.with_keyed_state("timed", [{"key": person, "seen": True}], states={"seen": sp.ValueState(sp.Types.BOOLEAN())})
    writer.with_timers("timed", timers)
    writer.with_list_state("sink", "pending", [{"value": f"for {person}"}, {"value": "for bob"}], sp.Types.STRING())
    writer.with_union_state("sink", "shared", [{"value": person.encode("utf-16-be")}], sp.Types.BYTES())
    writer.with_broadcast_state("sink", "rules", [{"key": 1, "value": person}], sp.Types.LONG(), sp.Types.STRING())
    writer.write(path)
    return path
