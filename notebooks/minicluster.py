"""Restores savepoints with real Flink, on a cluster inside one JVM, and tells what Flink read from them.

The job has the operators and states that the savepoint has, and does nothing but write down what it finds. Its Java sources
are in ``tests/interop``. The first run fetches Flink's jars from the package index; a JDK has to be there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, DateType, MapType, StructType

import state_processor as sp

sys.path.append(str(Path(__file__).resolve().parents[1]))

from tests.interop import flink  # found since the line above

VERSION = "2.3.0"

_TIMER_NAMES = ("_timer_state/event_", "_timer_state/processing_")
_KEYED = ("VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING")


@dataclass(frozen=True)
class Restored:
    """What Flink found in a savepoint.

    Attributes
    ----------
        operators: each with its states, and these with their entries.
        savepoint: the savepoint that Flink took afterwards.
    """

    operators: list[dict[str, Any]]
    savepoint: str

    def states(self) -> list[dict[str, Any]]:
        """Return how many entries Flink found, for each state."""
        return [
            {"operator": o["uid"], "state": s["name"], "kind": s["kind"], "entries": len(s["entries"])}
            for o in self.operators
            for s in o["states"]
        ]

    def keyed_state(self, uid: str, like: DataFrame) -> DataFrame:
        """Return what Flink found in the keyed states of an operator, with the schema of a DataFrame: a row per key."""
        rows: dict[str, dict[str, Any]] = {}
        for state in self._states(uid):
            for entry in state["entries"] if state["kind"] in _KEYED else ():
                rows.setdefault(str(entry["key"]), {"key": entry["key"]})[state["name"]] = entry["value"]
        return _table(rows.values(), like)

    def entries(self, uid: str, kind: str, like: DataFrame) -> DataFrame:
        """Return what Flink found in the state of a kind that an operator has one of, with the schema of a DataFrame."""
        (state,) = (s for s in self._states(uid) if s["kind"] == kind)
        return _table(state["entries"], like)

    def _states(self, uid: str) -> list[dict[str, Any]]:
        (states,) = (o["states"] for o in self.operators if o["uid"] == uid)
        return list(states)


def restore(savepoint: str) -> Restored:
    """Restore a savepoint with Flink, have it tell what it read, and then take a savepoint of its own.

    Raises
    ------
        RuntimeError: Flink refused the savepoint; the message is Flink's.
    """
    parent = Path(savepoint).resolve().parent
    (answer,) = flink.restore(VERSION, [flink.request(_operators(savepoint), savepoint, savepoint_to=parent)])
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return Restored(answer["operators"], answer["savepoint"])


def count_orders(savepoint: str | Path, start: int, end: int, customers: int) -> str:
    """Have a Flink job go on from a savepoint, count the orders of some numbers by customer, and return its next savepoint.

    Raises
    ------
        FlinkError: Flink refused the savepoint; the message is Flink's.
    """
    path = Path(savepoint).resolve()
    numbers = {"from": start, "until": end, "keys": customers}
    request = {"job": "totals", "savepoint": str(path), "to": str(path.parent), "backend": "rocksdb", **numbers}
    (answer,) = flink.streamed(VERSION, [request])
    return str(answer["savepoint"])


def _operators(savepoint: str) -> list[dict[str, Any]]:
    """Describe the operators that have state to the Java side."""
    operators: dict[str, dict[str, Any]] = {}
    for state in sp.arrow.states(savepoint).to_pylist():
        uid, is_keyed = state["operator_uid"], state["namespace_type"] is not None
        operator = operators.setdefault(uid, {"uid": uid, "key_type": None, "states": []})
        if is_keyed:
            operator["key_type"] = state["key_type"]
        operator["states"].append(_state(state, is_keyed))
    return list(operators.values())


def _state(state: Mapping[str, Any], is_keyed: bool) -> dict[str, Any]:
    name, value_type = state["state_name"], state["value_type"]
    for prefix in _TIMER_NAMES:
        name = name.removeprefix(prefix)
    described = {
        "name": name,
        "kind": state["state_kind"],
        "map_key_type": state["map_key_type"] if is_keyed else state["key_type"],
        "value_type": value_type[len("TTL<") : -1] if state["ttl"] else value_type,
        "namespace_type": state["namespace_type"],
        "ttl": state["ttl"],
    }
    return {k: v for k, v in described.items() if v is not None}


def _table(rows: Any, like: DataFrame) -> DataFrame:
    return like.sparkSession.createDataFrame([_shaped(row, like.schema) for row in rows], like.schema)


def _shaped(value: Any, wanted: DataType) -> Any:
    """Turn a value of JSON into what Spark takes for a type."""
    if value is None:
        return None
    match wanted:
        case StructType():
            fields = value if isinstance(value, list) else [value.get(name) for name in wanted.names]
            return tuple(_shaped(v, f.dataType) for v, f in zip(fields, wanted.fields, strict=True))
        case ArrayType():
            return [_shaped(v, wanted.elementType) for v in value]
        case MapType():
            return {_shaped(k, wanted.keyType): _shaped(v, wanted.valueType) for k, v in value}
        case DateType():
            return date.fromisoformat(value)
    return value
