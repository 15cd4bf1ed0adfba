"""Real Flink restores savepoints that we wrote from Arrow columns, and finds every entry that we put in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.write.assembly import commit_savepoint, metadata_version
from state_processor.backends.write.staging import Staging
from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.core.rows import TupleSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.runtime.namespaces import TimerSerializer, VoidNamespaceSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from tests.backends.operator_files import OperatorColumnsWriter, SubtaskHandles, new_operator
from tests.interop import flink, flink_jars
from tests.interop.rewriting import carry, rewrite, write_keyed

FIXTURES = flink_jars.ROOT / "tests" / "fixtures"
ADDRESS = "io.stateprocessor.interop.Address"
LONG, INT, DOUBLE, STRING = NumberSerializer("LONG"), NumberSerializer("INT"), NumberSerializer("DOUBLE"), StringSerializer()
VOID = VoidNamespaceSerializer()
NOW = 1_900_000_000_000

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(("version", "parallelism"), [("1.20.5", 3), ("2.3.0", 1)])
def test_every_state_of_the_fixtures(version: str, parallelism: int, tmp_path: Path) -> None:
    """All types, kinds of state, namespaces: decoded to columns, encoded, restored by both backends."""
    requests, expectations = [], []
    for fixture in sorted((FIXTURES / version).glob("*-hashmap-*")):
        expected = json.loads((fixture / "expected.json").read_text("utf-8"))
        target = tmp_path / fixture.name
        rewrite(fixture / expected["snapshot_dir"], target, parallelism, metadata_version(version))
        for backend in ("hashmap", "rocksdb"):
            requests.append(
                flink.request(expected["operators"], target, backend=backend, max_parallelism=expected["max_parallelism"])
            )
            expectations.append((fixture.name, expected))
    assert requests
    for (name, expected), answer in zip(expectations, flink.restore(version, requests), strict=True):
        assert "error" not in answer, f"{name}: {answer['error'][:2000]}"
        assert flink.entries(answer["operators"]) == flink.entries(expected["operators"]), name


@pytest.mark.parametrize(
    ("version", "parallelism", "max_parallelism"), [("1.20.5", 3, None), ("2.3.0", 1, 500), ("2.3.0", 5, 7), ("1.20.5", 2, 300)]
)
def test_states_are_taken_over_as_bytes(version: str, parallelism: int, max_parallelism: int | None, tmp_path: Path) -> None:
    """From every format, to another parallelism and to another max parallelism."""
    requests, expectations = [], []
    for fixture in sorted((FIXTURES / version).glob("*")):
        expected = json.loads((fixture / "expected.json").read_text("utf-8"))
        target, groups = tmp_path / fixture.name, max_parallelism or expected["max_parallelism"]
        carry(fixture / expected["snapshot_dir"], target, parallelism, groups, metadata_version(version))
        requests.append(flink.request(expected["operators"], target, backend="hashmap", max_parallelism=groups))
        expectations.append((fixture.name, expected))
    assert requests
    for (name, expected), answer in zip(expectations, flink.restore(version, requests), strict=True):
        assert "error" not in answer, f"{name}: {answer['error'][:2000]}"
        assert flink.entries(answer["operators"]) == flink.entries(expected["operators"]), name


def state(name: str, kind: str, value: Any, map_key: Any = None) -> StateDescription:
    return StateDescription.of(name, kind, LONG, VOID, map_key, value)


ADDRESSES = PojoSerializer.of(ADDRESS, {"street": STRING, "city": STRING, "zip": INT})
NEW_STATES = {
    "total": state("total", "VALUE", LONG),
    "address": state("address", "VALUE", ADDRESSES),
    "history": state("history", "LIST", STRING),
    "items": state("items", "MAP", LONG, STRING),
    "session": state("session", "VALUE", TtlSerializer.of(STRING)),
    "timers": StateDescription.of("_timer_state/event_user-timers", "EVENT_TIMER", LONG, VOID, None, TimerSerializer(LONG, VOID)),
}
OPERATOR_STATES = {
    "pending": StateDescription.of("pending", "OPERATOR_LIST", value=STRING),
    "offsets": StateDescription.of("offsets", "UNION_LIST", value=TupleSerializer([STRING, LONG])),
    "discounts": StateDescription.of("discounts", "BROADCAST", key=STRING, value=DOUBLE),
}


def columns(**arrays: Any) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict(arrays)]


def new_savepoint(target: Path, version: str | None, parallelism: int, max_parallelism: int, keys: int) -> list[dict[str, Any]]:
    """A bootstrapped savepoint, and its expected content in Flink."""
    ids = list(range(-3, keys - 3))
    addresses = [{"street": f"Mill Lane {k}", "city": None if k % 5 == 0 else "Kraków", "zip": k} for k in ids]
    history = [[f"{k} × tea"] * (k % 4) for k in ids]
    items = [[(f"item {i}", None if i == 2 else k * i) for i in range(k % 3)] for k in ids]
    address_type = ADDRESSES.arrow_type(DecodeOptions())
    rows = {
        "total": columns(key=ids, value=[k * 1_000_000_007 for k in ids]),
        "address": columns(key=ids, value=pa.array(addresses, address_type)),
        "history": columns(key=ids, value=pa.array(history, pa.list_(pa.string()))),
        "items": columns(key=ids, value=pa.array(items, pa.map_(pa.string(), pa.int64()))),
        "session": columns(key=ids, value=[f"s-{k}" for k in ids]),
        "timers": columns(key=ids, timestamp=[NOW + k for k in ids]),
    }
    staging = Staging(str(target), "bootstrap")
    staging.prepare()
    states = [(NEW_STATES[name], batches) for name, batches in rows.items()]
    keyed = write_keyed(staging, operator_id("new"), states, parallelism, max_parallelism, last_access=NOW)
    lists = {}
    for subtask in range(parallelism):
        sink = staging.open(staging.file_name(operator_id("lists"), "operator", subtask))
        writer = OperatorColumnsWriter(sink, list(OPERATOR_STATES.values()))
        if subtask == 0:
            writer.add_list("pending", pa.array(["restock tea", "restock €"]))
            writer.add_list("offsets", pa.array([{"f0": "stock-0", "f1": 7}]))
        writer.add_broadcast("discounts", pa.array(["tea", "mug"]), pa.array([0.5, 0.0]))
        lists[subtask] = writer.close()
    operators = [
        new_operator("new", parallelism, max_parallelism, {i: SubtaskHandles(keyed=h) for i, h in keyed.items()}),
        new_operator("lists", parallelism, max_parallelism, {i: SubtaskHandles(operator=h) for i, h in lists.items()}),
    ]
    commit_savepoint(staging, operators, version=metadata_version(version))
    common = {"key_type": "LONG", "ttl": False}
    totals, sessions = _entries(ids, [k * 1_000_000_007 for k in ids]), _entries(ids, [f"s-{k}" for k in ids])
    expected = [
        {**common, "name": "total", "kind": "VALUE", "value_type": "LONG", "entries": totals},
        {
            **common,
            "name": "address",
            "kind": "VALUE",
            "value_type": f"POJO<{ADDRESS}>",
            "entries": _entries(ids, [{"@class": ADDRESS, **a} for a in addresses]),
        },
        {**common, "name": "history", "kind": "LIST", "value_type": "STRING", "entries": _entries(ids, history)},
        {
            **common,
            "name": "items",
            "kind": "MAP",
            "map_key_type": "STRING",
            "value_type": "LONG",
            "entries": _entries(ids, [[list(pair) for pair in m] for m in items]),
        },
        {**common, "ttl": True, "name": "session", "kind": "VALUE", "value_type": "STRING", "entries": sessions},
        {
            "key_type": "LONG",
            "name": "user-timers",
            "kind": "EVENT_TIMER",
            "namespace_type": "VOID_NAMESPACE",
            "entries": [{"key": k, "namespace": "VoidNamespace", "timestamp": NOW + k} for k in ids],
        },
    ]
    plain = [
        {"name": "pending", "kind": "OPERATOR_LIST", "value_type": "STRING", "entries": ["restock tea", "restock €"]},
        {"name": "offsets", "kind": "UNION_LIST", "value_type": "TUPLE<STRING,LONG>", "entries": [["stock-0", 7]]},
        {
            "name": "discounts",
            "kind": "BROADCAST",
            "map_key_type": "STRING",
            "value_type": "DOUBLE",
            "entries": [{"key": "tea", "value": 0.5}, {"key": "mug", "value": 0.0}],
        },
    ]
    return [{"uid": "new", "key_type": "LONG", "states": expected}, {"uid": "lists", "key_type": None, "states": plain}]


def _entries(keys: list[int], values: list[Any]) -> list[dict[str, Any]]:
    return [{"key": k, "value": v} for k, v in zip(keys, values, strict=True) if v != []]


@pytest.mark.parametrize(
    ("written_for", "restored_by", "parallelism", "max_parallelism"),
    [("1.20", "1.20.5", 2, 128), (None, "2.3.0", 3, 1000), ("2.3", "2.3.0", 1, 128)],
)
def test_bootstrapped_savepoint(
    written_for: str | None, restored_by: str, parallelism: int, max_parallelism: int, tmp_path: Path
) -> None:
    expected = new_savepoint(tmp_path / "savepoint", written_for, parallelism, max_parallelism, keys=500)
    requests = [
        flink.request(expected, tmp_path / "savepoint", backend=backend, max_parallelism=max_parallelism)
        for backend in ("hashmap", "rocksdb")
    ]
    for answer in flink.restore(restored_by, requests):
        assert "error" not in answer, answer["error"][:2000]
        assert flink.entries(answer["operators"]) == flink.entries(expected)
