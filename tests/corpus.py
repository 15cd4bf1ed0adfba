"""Compares read values with the ``expected.json`` of a snapshot.

The fixtures of this repository and the external corpus have such a file; its values come from the job's input, not from reading
the snapshot back. ``nanos="string"`` and ``row_kind=True`` are assumed: they lose nothing.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from state_processor.serializers.core.basic import NumberSerializer, StringSerializer
from state_processor.serializers.core.pojo_fields import register_pojo_class
from state_processor.serializers.kryo.user_classes import register_kryo_class
from tests.archives import unpacked

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "tests" / "fixtures"
CORPUS = Path(os.environ.get("STATE_PROCESSOR_CORPUS") or ROOT / ".." / "shared" / "corpus").resolve()
_JDBC_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}")

# What a user has to tell, because no snapshot does: the fields of a class that Kryo wrote, and of a POJO's subclass that
# the heap backend met only after it had written the header.
register_kryo_class("fixtures.Maybe", {"attempts": NumberSerializer("INT"), "value": StringSerializer()}, final=True)
register_pojo_class("fixtures.Square", {"label": StringSerializer(), "side": NumberSerializer("LONG")}, "fixtures.Shape")


@dataclass(frozen=True)
class Case:
    """One snapshot and its expected content."""

    directory: Path

    @property
    def name(self) -> str:
        return f"{self.directory.parent.name}/{self.directory.name}"

    @property
    def id(self) -> str:
        """The name; tests distinguish cases of the external corpus from own cases with the same name."""
        return f"corpus:{self.name}" if self.directory.is_relative_to(CORPUS) else self.name

    @property
    def traits(self) -> tuple[str, str]:
        """The job and format, and the version of Flink. Some tests need each of both in one case only."""
        return self.directory.name, self.directory.parent.name

    @property
    def expected(self) -> dict[str, Any]:
        return json.loads((self.directory / "expected.json").read_text())

    @property
    def facts(self) -> Mapping[str, Any]:
        """The expected content except operators: format, backend, path of the snapshot."""
        return _facts(self.directory)

    @property
    def snapshot(self) -> str:
        return str(self.directory / self.facts["snapshot_dir"])


@cache
def _facts(directory: Path) -> Mapping[str, Any]:
    """Read them once: contents are large, and each test asks for a few of these."""
    expected = Case(directory).expected
    return {name: value for name, value in expected.items() if name not in ("operators", "inputs")}


def cases(root: Path, pattern: str = "*") -> list[Case]:
    """Snapshots with expected content below a folder of versions, by a glob on ``version/case``."""
    return [Case(p.parent) for p in sorted(root.glob("*/*/expected.json")) if p.parent.match(pattern)]


def packed_cases(pattern: str = "*") -> list[Case]:
    """Those of the repository's archives."""
    return cases(unpacked(), pattern)


def own_cases(pattern: str = "*") -> list[Case]:
    """The repository's fixtures."""
    return cases(FIXTURES, pattern) + packed_cases(pattern)


def corpus_cases(pattern: str = "*") -> list[Case]:
    """Those of the external corpus, where it is."""
    return cases(CORPUS / "generated", pattern) if CORPUS.is_dir() else []


def all_cases(pattern: str = "*") -> list[Case]:
    """The repository's fixtures and, where it is, the external corpus."""
    return own_cases(pattern) + corpus_cases(pattern)


def timestamp_ms(value: Any) -> Any:
    """A point in time as the milliseconds that expected contents give windows in."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value.replace("Z", "+00:00"))
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return ("-" if value < 0 else "") + "Infinity" if math.isinf(value) else value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if value.tzinfo else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return value


def as_expected(actual: Any, expected: Any) -> Any:
    """What we read, in the notation of expected contents; ``expected`` tells structs apart that look the same."""
    if actual is None or type(actual) in (int, bool):  # most values
        return actual
    if isinstance(actual, dict):
        return _struct(actual, expected)
    if isinstance(actual, list):
        return _list(actual, expected)
    if isinstance(expected, int) and isinstance(actual, (str, datetime)):
        return timestamp_ms(actual)  # Avro's logical types are expected as their base types
    if isinstance(actual, Decimal) and isinstance(expected, str):
        unscaled = int(actual.scaleb(-actual.as_tuple().exponent))
        return unscaled.to_bytes((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True).hex()
    if isinstance(actual, str) and isinstance(expected, (list, dict)):
        return _from_json(json.loads(actual))  # collections that Kryo wrote: the types of their elements are unknown
    if isinstance(actual, str) and isinstance(expected, str) and _JDBC_TIMESTAMP.fullmatch(expected):
        return expected if _as_jdbc(actual) == expected.rstrip("0") else actual
    return _plain(actual)


def _from_json(value: Any) -> Any:
    if isinstance(value, dict) and "@class" not in value:
        return sorted(([k, _from_json(v)] for k, v in value.items()), key=sort_key)
    return value


def _as_jdbc(instant: str) -> str:
    """The ISO text that we give as ``java.sql.Timestamp`` is written in expected contents, without zeros at the end."""
    day, _, time = instant.removesuffix("Z").partition("T")
    return f"{day} {time}".rstrip("0") if "." in time else f"{day} {time}."


def _struct(actual: dict[str, Any], expected: Any) -> Any:
    if isinstance(expected, list):  # a tuple
        values = list(actual.values())
        return [as_expected(v, e) for v, e in zip(values, expected, strict=True)] if len(values) == len(expected) else values
    if not isinstance(expected, dict):  # one branch of an Avro union
        present = [v for v in actual.values() if v is not None]
        return as_expected(present[0], expected) if len(present) == 1 else actual
    if "fields" in expected and "kind" in expected:
        fields = [v for n, v in actual.items() if n != "row_kind"]
        like = expected["fields"] if len(fields) == len(expected["fields"]) else [None] * len(fields)
        paired = zip(fields, like, strict=True)
        return {"kind": actual.get("row_kind"), "fields": [as_expected(v, e) for v, e in paired]}
    if expected.keys() <= {"left", "right"}:
        side = next(iter(expected))
        return {n: as_expected(v, expected.get(n)) for n, v in actual.items() if n == side or v is not None}
    if expected.keys() == {"start", "end"}:
        return {n: timestamp_ms(v) for n, v in actual.items()}
    if expected.keys() == {"timestamp", "record"}:
        return {n: timestamp_ms(actual[n]) if n == "timestamp" else as_expected(actual[n], expected[n]) for n in expected}
    converted = {n: as_expected(v, expected.get(n)) for n, v in actual.items() if n != "_class"}
    # A column of a class hierarchy has the fields of all classes; fields of other classes have to be null.
    converted = {n: v for n, v in converted.items() if n in expected or v is not None}
    for marker in ("@class", "@avro"):
        if marker in expected:
            converted[marker] = actual.get("_class") or expected[marker]
    return converted


def _list(actual: list[Any], expected: Any) -> Any:
    if isinstance(expected, dict) and "bits" in expected:
        return expected | {"bits": actual}
    if actual and isinstance(actual[0], tuple):  # a map
        wanted = expected if isinstance(expected, list) else []
        by_key = {sort_key(pair[0]): pair for pair in wanted if isinstance(pair, list) and len(pair) == 2}
        pairs = []
        for key, value in actual:
            shaped = as_expected(key, wanted[0][0] if by_key else None)
            like = by_key.get(sort_key(shaped), [None, None])
            pairs.append([as_expected(key, like[0]), as_expected(value, like[1])])
        return sorted(pairs, key=sort_key)
    like = expected if isinstance(expected, list) and len(expected) == len(actual) else [None] * len(actual)
    return [as_expected(a, e) for a, e in zip(actual, like, strict=True)]


_SORTED = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str, check_circular=False)


def sort_key(value: Any) -> str:
    """A text that equal values share, whatever the order of their fields."""
    return _SORTED.encode(value)


def differences(rows: list[dict[str, Any]], state: dict[str, Any]) -> list[str]:
    """What differs between rows as read (``flatten=False``) and a state's expected entries."""
    expected = {_identity(e): e for e in state["entries"]}
    found: dict[str, dict[str, Any]] = {}
    problems = []
    example = state["entries"][0] if state["entries"] else {}
    for row in rows:
        identity = _identity(_place(row, example, state))
        if identity in found:
            problems.append(f"twice: {identity}")
        found[identity] = _entry(row, expected.get(identity, example), state)
    problems += [f"missing: {i}" for i in expected.keys() - found.keys()]
    problems += [f"unexpected: {i}" for i in found.keys() - expected.keys()]
    for identity in expected.keys() & found.keys():
        one, other = (_comparable(e, state) for e in (expected[identity], found[identity]))
        if one != other:
            problems.append(f"{identity}: expected {one}, found {other}")
    return problems


def _comparable(entry: dict[str, Any], state: dict[str, Any]) -> str:
    value = entry.get("value")
    is_map = state["kind"] == "MAP" or str(state.get("value_type", "")).startswith("MAP<")
    if isinstance(value, list) and (state.get("unordered_elements") or is_map):
        entry = entry | {"value": sorted(value, key=sort_key)}
    return sort_key(entry)


def _identity(entry: dict[str, Any]) -> str:
    return sort_key([entry.get("key"), entry.get("namespace"), entry.get("timestamp")])


def _entry(row: dict[str, Any], like: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    entry = _place(row, like, state)
    if not state["kind"].endswith("TIMER"):
        entry["value"] = as_expected(row["value"], like.get("value"))
    return entry


def _place(row: dict[str, Any], like: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """The part of an entry that identifies it."""
    place: dict[str, Any] = {"key": as_expected(row["key"], like.get("key"))}
    if "namespace" in like:
        namespace = row.get("window", row.get("namespace"))
        named = like["namespace"]
        place["namespace"] = named if namespace is None and isinstance(named, str) else as_expected(namespace, named)
    if state["kind"].endswith("TIMER"):
        place["timestamp"] = row["timestamp"]
    return place


def bag(values: list[Any]) -> list[str]:
    """Values whose order means nothing, comparable."""
    return sorted(sort_key(v) for v in values)


def states_of(case: Case) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each expected operator with each of its states that has a kind."""
    for operator in case.expected["operators"]:
        for state in operator.get("states", []):
            if "kind" in state:
                yield operator, state
