"""Restores savepoints with real Flink, on a cluster inside one JVM, and returns what Flink read from them.

It needs a JDK of version 17 or newer, and Flink 1.20 or newer: the directory in the variable ``FLINK_HOME``, or the one of the
package ``apache-flink-libraries`` (``pip install 'state-processor[planner]'``). ``java/RestoredJob.java`` has the job.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import state_processor as sp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_JAVA = Path(__file__).resolve().parent / "java"
# The rights that Flink's own start scripts give the JVM.
_OPENED = ("java.lang", "java.lang.reflect", "java.net", "java.nio", "sun.nio.ch", "java.text", "java.time", "java.util")
_FLAGS = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # the JVMs end before more of it pays off

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
    """Restore a savepoint with Flink, return what it read, and take another savepoint.

    Raises
    ------
        RuntimeError: Flink refused the savepoint; the message is Flink's.
    """
    result = _run(savepoint, "\n".join("\t".join(map(str, state)) for state in _states(savepoint)))
    operators: dict[str, dict[str, Any]] = {}
    for state in result["states"]:
        operators.setdefault(state["uid"], {"uid": state["uid"], "states": []})["states"].append(state)
    return Restored(list(operators.values()), result["savepoint"])


def count_orders(savepoint: str | Path, start: int, end: int, customers: int) -> str:
    """Let a Flink job continue from a savepoint, count the orders of some numbers by customer, and return its next savepoint.

    Raises
    ------
        RuntimeError: Flink refused the savepoint; the message is Flink's.
    """
    return str(_run(savepoint, "", "count", str(start), str(end), str(customers))["savepoint"])


def _run(savepoint: str | Path, states: str, *arguments: str) -> dict[str, Any]:
    """Run the job, and return its result. The next savepoint gets a directory beside the savepoint."""
    path = Path(savepoint).resolve()
    work = Path(tempfile.mkdtemp(dir=path.parent))
    (work / "states").write_text(states, "utf-8")
    job = ("RestoredJob", str(path), str(work), *(arguments or [str(work / "states")]))
    class_path = os.pathsep.join([_classes().name, _jars()])
    _call("java", *_FLAGS, *_QUICK, "-Xmx1g", "-cp", class_path, *job)
    return dict(json.loads((work / "restored.json").read_text("utf-8")))


@cache
def _classes() -> tempfile.TemporaryDirectory[str]:
    """Compile the job once, and return the directory of its classes. It is deleted at the end of the notebook."""
    classes = tempfile.TemporaryDirectory()
    sources = map(str, sorted(_JAVA.rglob("*.java")))
    _call("javac", *(f"-J{flag}" for flag in _QUICK), "-cp", _jars(), "-d", classes.name, "-nowarn", *sources)
    return classes


def _jars() -> str:
    return f"{_flink_home()}/lib/*"


def _flink_home() -> Path:
    home = os.environ.get("FLINK_HOME")
    spec = find_spec("pyflink")
    places = [home] if home else list((spec and spec.submodule_search_locations) or ())
    for place in places:
        if any(Path(place).glob("lib/flink-dist*.jar")):
            return Path(place)
    raise RuntimeError("set FLINK_HOME to the directory of a Flink, or pip install 'state-processor[planner]'")


def _call(program: str, *arguments: str) -> None:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(program, path=f"{home}/bin" if home else None)
    if found is None:
        raise RuntimeError(f"no {program}: install a JDK, or set JAVA_HOME")
    done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)


def _states(savepoint: str) -> list[tuple[Any, ...]]:
    """Describe the states to the job."""
    described = []
    for state in sp.arrow.states(savepoint).to_pylist():
        name, value_type = state["state_name"], state["value_type"]
        for prefix in _TIMER_NAMES:
            name = name.removeprefix(prefix)
        map_key = state["map_key_type"] if state["namespace_type"] is not None else state["key_type"]
        value = value_type[len("TTL<") : -1] if state["ttl"] else value_type
        described.append((state["operator_uid"], name, state["state_kind"], state["ttl"], map_key or "", value or ""))
    return described


def _table(rows: Any, like: DataFrame) -> DataFrame:
    return like.sparkSession.createDataFrame([_shaped(row, like.schema) for row in rows], like.schema)


def _shaped(value: Any, wanted: DataType) -> Any:
    """Turn a value of JSON into what Spark takes for a type."""
    from pyspark.sql.types import ArrayType, DateType, MapType, StructType

    if value is None:
        return None
    match wanted:
        case StructType():
            return tuple(_shaped(value.get(field.name), field.dataType) for field in wanted.fields)
        case ArrayType():
            return [_shaped(v, wanted.elementType) for v in value]
        case MapType():
            return {_shaped(k, wanted.keyType): _shaped(v, wanted.valueType) for k, v in value.items()}
        case DateType():
            return date.fromisoformat(value)
    return value
