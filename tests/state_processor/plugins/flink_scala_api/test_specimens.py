"""Bytes and hash codes of the serializers of flink-scala-api: ``specimens.jsonl``.

The library is not in the package indexes. Its published source (2.3) was compiled with Scala 2.13.18 and Flink 2.3.0, without
the derivation of types by macros.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from state_processor.serializers import DecodeOptions, read_serializer_snapshot
from state_processor.support.errors import CorruptSnapshotError, StateProcessorError, UnsupportedFormatError
from tests.serializers.harness import check_payloads, check_snapshot, compiles

SPECIMENS: dict[str, dict[str, Any]] = {
    line["name"]: line for line in map(json.loads, Path(__file__).with_name("specimens.jsonl").read_text("utf-8").splitlines())
}
OPTIONS = DecodeOptions()

A, B = {"_1": "a", "_2": 5}, {"_1": "b", "_2": 1 << 40}
NAME = "com.acme."
NO_EVENT = {"Purchase": None, "View": None}
UUID = "4daf2791-abbe-420f-9594-f57ded1fee8c"
COLUMNS: dict[str, list[Any]] = {
    "click": [A, {"_1": None, "_2": -1}, None],
    "point": [{"_1": 1, "_2": 1.5}, None],
    "holder": [
        {"_1": {"_1": 2, "_2": 0.5}, "_2": ["x", "y"], "_3": 7},
        {"_1": None, "_2": [], "_3": None},
    ],
    "empty": [{}, None],
    "event": [
        {"_class": f"{NAME}Purchase", "Purchase": {"_1": "12.50", "_2": UUID}, "View": None},
        {"_class": f"{NAME}View", "Purchase": None, "View": {"_1": B}},
        {"_class": f"{NAME}Heartbeat$", **NO_EVENT},
        {"_class": f"{NAME}Gone", **NO_EVENT},
        None,
    ],
    "nullable": [{"_1": {"_1": 3, "_2": 2.5}, "_2": 4}, {"_1": None, "_2": 5}],
    "tuple": [{"_1": "k", "_2": 3}],
    "list": [[1, 2], []],
    "vector": [[{"_1": "c", "_2": 1}]],
    "set": [["q"]],
    "buffer": [["r", "s"], None],
    "sorted-set": [["a", "b"], None],
    "reversed-set": [["b", "a"]],
    "map": [[("k", {"_1": "d", "_2": 2})], []],
    "mapped": ["w"],
    "big-int": ["123456789012345678901"],
    "uuid": [UUID],
    "option": ["o", None],
    "either": [{"left": 7, "right": None}, {"left": None, "right": "r"}],
    "object": ["Heartbeat"],
    "unit": [None],
    "duration": [
        {"length": 5, "unit": "SECONDS"},
        {"length": None, "unit": "INFINITE"},
        {"length": None, "unit": "MINUS_INFINITE"},
        None,
    ],
    "finite-duration": [{"length": 250, "unit": "MILLISECONDS"}],
    "offset-date-time": [
        {"date_time": "2024-02-29T08:30:00.500", "offset_seconds": 7200},
        {"date_time": None, "offset_seconds": None},
    ],
}
HASHED = {"click", "point", "empty", "tuple", "option", "either", "object", "uuid"}


def _values(name: str) -> list[bytes]:
    return [bytes.fromhex(value) for value in SPECIMENS[name]["values"]]


@pytest.mark.parametrize("name", SPECIMENS)
def test_specimen(name: str) -> None:
    data = bytes.fromhex(SPECIMENS[name]["snapshot"])
    snapshot = read_serializer_snapshot(data, name)
    assert snapshot.to_bytes() == data
    check_snapshot(snapshot)
    serializer = snapshot.restore_serializer()
    assert serializer.snapshot().to_bytes() == data
    options = DecodeOptions(nanos="string") if name == "offset-date-time" else OPTIONS
    values = check_payloads(serializer, _values(name), options)
    shown = [serializer.to_column(value, options) for value in values]
    assert [shown_as(v) for v in shown] == COLUMNS[name]
    assert compiles(serializer)
    if name in HASHED:
        present = [(v, h) for v, column, h in zip(values, shown, SPECIMENS[name]["hashes"], strict=True) if column is not None]
        assert [serializer.hash_code(value) for value, _ in present] == [expected for _, expected in present]


def shown_as(value: Any) -> Any:
    """A column's value, with times as text."""
    return value


@pytest.mark.parametrize("name", SPECIMENS)
def test_truncated_bytes(name: str) -> None:
    data = bytes.fromhex(SPECIMENS[name]["snapshot"])
    for end in range(len(data)):
        with pytest.raises(StateProcessorError):
            read_serializer_snapshot(data[:end], name)
    serializer = read_serializer_snapshot(data, name).restore_serializer()
    for value in _values(name):
        for end in range(len(value)):
            with pytest.raises((CorruptSnapshotError, UnsupportedFormatError)):
                serializer.deserialize(value[:end])
