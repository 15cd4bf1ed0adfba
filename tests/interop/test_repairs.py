"""Repairs as the report of a check prints them: real Flink starts the new job from the repaired savepoint, with all values."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from tests.interop import flink
from tests.interop.job_pair_tables import Operator, operator, state
from tests.interop.pair_campaign import execute
from tests.interop.selection import EVERY_CASE

pytestmark = [pytest.mark.interop, pytest.mark.one_engine("conversions of states need no session")]

SETUPS = (("1.20.5", "rocksdb"), ("2.3.0", "hashmap"), ("2.3.0", "forst"))
MORE_SETUPS = (("2.3.0", "rocksdb"),)
PACKAGE = "repaired"
SAME_CLASSES = {
    "Inner": "public class Inner { public long x; public String y; }",
    "Full": "public class Full { public int a; public String b; public double n; public Inner named; }",
    "Outer": "public class Outer { public Named named; public int n; }",
}
OLD_CLASSES = {
    "Old": "public class Old { public int a; public String b; }",
    "Named": "public class Named { public int a; public String b; }",
    "Id": "public class Id { public int a; public int hashCode() { return a; } public boolean equals(Object o) "
    "{ return o instanceof Id && ((Id) o).a == a; } }",
    "Status": "public enum Status { OPEN, SENT }",
    "Order": "public class Order { public Status status; public int n; }",
    **SAME_CLASSES,
}
NEW_CLASSES = {
    "New": "public class New { public long a; public String b; }",
    "Named": "public class Named { public int a; public String c; }",
    "Id": "public class Id { public int a; public String b; public int hashCode() { return a; } public boolean equals(Object o) "
    "{ return o instanceof Id && ((Id) o).a == a; } }",
    "Status": "public enum Status { OPEN, SHIPPED }",
    "Order": "public class Order { public Status status; public int n; }",
    **SAME_CLASSES,
}
CLASSES = {"old": OLD_CLASSES, "new": NEW_CLASSES}


@dataclass(frozen=True)
class Case:
    """An old job, the new job with the entries that it has after the repair, and the first command of the advice.

    The new job has no repair in Flink versions, and with state backends (``as_is``), that take the old savepoint as it is.
    """

    name: str
    old: tuple[Operator, ...]
    new: tuple[Operator, ...]
    command: str
    since: str = "3"
    limit: int = 128
    loses: bool = False
    as_is: str = ""


FULL = {"a": 1, "b": "x", "n": 2.5, "named": {"x": 5, "y": "z"}}


def pojo(name: str) -> str:
    return f"POJO<{PACKAGE}.{name}>"


def value(type_: str, *values: Any, **more: Any) -> dict[str, Any]:
    entries = [{"key": key, "value": one} for key, one in zip("ab", values, strict=False)]
    return state("v", more.pop("kind", "VALUE"), type_, entries, **more)


TIMERS = state(
    "timers", "EVENT_TIMER", None, [{"key": "5", "namespace": "VoidNamespace", "timestamp": 9}], namespace_type="VOID_NAMESPACE"
)
LONGS = value("LONG", 7, 8)
KEYED = [{"key": "5", "value": 7}, {"key": "6", "value": 8}]


def of_numbers(*states: dict[str, Any]) -> list[dict[str, Any]]:
    """Return states whose keys are numbers."""
    return [{**one, "entries": [{**entry, "key": int(entry["key"])} for entry in one["entries"]]} for one in states]


BY_TEXT = ({**LONGS, "entries": KEYED}, TIMERS)
CASES = (
    Case("another uid", operator(LONGS, uid="before"), operator(LONGS, uid="after"), "rename-uid"),
    Case("time-to-live is taken away", operator(LONGS | {"ttl": True}), operator(LONGS), "with-ttl", "2.2"),
    Case("time-to-live is added", operator(LONGS), operator(LONGS | {"ttl": True}), "with-ttl", "2.2"),
    Case("a wider number", operator(value("INT", 7, 8)), operator(LONGS), "convert-state"),
    Case("a number as text", operator(LONGS), operator(value("STRING", "7", "8")), "convert-state"),
    Case(
        "a moved class with a wider field",
        operator(value(pojo("Old"), {"a": 1, "b": "x"})),
        operator(value(pojo("New"), {"a": 1, "b": "x"})),
        "convert-state",
    ),
    Case(
        "a renamed field",
        operator(value(pojo("Named"), {"a": 1, "b": "x"})),
        operator(value(pojo("Named"), {"a": 1, "c": "x"})),
        "convert-state",
    ),
    Case(
        "a renamed constant",
        operator(value(pojo("Order"), {"status": "SENT", "n": 1})),
        operator(value(pojo("Order"), {"status": "SHIPPED", "n": 1})),
        "convert-state",
    ),
    Case(
        "a list of wider numbers",
        operator(value("INT", [1, 2], kind="LIST")),
        operator(value("LONG", [1, 2], kind="LIST")),
        "convert-state",
    ),
    Case("a value becomes a list", operator(LONGS), operator(value("LONG", [7], [8], kind="LIST")), "convert-state"),
    Case(
        "a field of the keys of a map",
        operator(value("LONG", [[{"a": 1}, 7]], kind="MAP", map_key_type=pojo("Id"))),
        operator(value("LONG", [[{"a": 1, "b": None}, 7]], kind="MAP", map_key_type=pojo("Id"))),
        "convert-state",
        as_is="hashmap",
    ),
    Case(
        "a POJO becomes Kryo",
        operator(value(pojo("Full"), FULL)),
        operator(value(f"KRYO<{PACKAGE}.Full>", FULL)),
        "convert-state",
    ),
    Case(
        "Kryo becomes a POJO",
        operator(value(f"KRYO<{PACKAGE}.Full>", FULL)),
        operator(value(pojo("Full"), FULL)),
        "convert-state",
    ),
    Case(
        "Kryo becomes a POJO in a map",
        operator(value(f"KRYO<{PACKAGE}.Full>", [["k", FULL]], kind="MAP", map_key_type="STRING")),
        operator(value(pojo("Full"), [["k", FULL]], kind="MAP", map_key_type="STRING")),
        "convert-state",
    ),
    Case(
        "a POJO becomes Kryo in a list",
        operator(value(pojo("Full"), [FULL, FULL], kind="LIST")),
        operator(value(f"KRYO<{PACKAGE}.Full>", [FULL, FULL], kind="LIST")),
        "convert-state",
    ),
    Case(
        "a renamed field in a POJO in a list",
        operator(value(pojo("Outer"), [{"named": {"a": 1, "b": "x"}, "n": 2}], kind="LIST")),
        operator(value(pojo("Outer"), [{"named": {"a": 1, "c": "x"}, "n": 2}], kind="LIST")),
        "convert-state",
    ),
    Case("other keys", operator(*of_numbers(*BY_TEXT), key="LONG"), operator(*BY_TEXT), "convert-state"),
    Case(
        "a list of the operator becomes a union",
        operator(state("l", "OPERATOR_LIST", "LONG", [1, 2]), key=None),
        operator(state("l", "UNION_LIST", "LONG", [1, 2]), key=None),
        "convert-state",
    ),
    Case(
        "broadcast state",
        operator(state("r", "BROADCAST", "INT", [{"key": "k", "value": 1}], map_key_type="STRING"), key=None),
        operator(state("r", "BROADCAST", "LONG", [{"key": "k", "value": 1}], map_key_type="STRING"), key=None),
        "convert-state",
    ),
    Case("another max parallelism", operator(LONGS), operator(LONGS), "set-max-parallelism", limit=64),
    Case("a value that can't be kept", operator(value("STRING", "x")), operator(value("LONG")), "drop-state", loses=True),
)
EXCHANGED = Case(
    "exchanged uids",
    (*operator(LONGS, uid="o"), *operator(value("LONG", 1, 2), uid="p")),
    (*operator(LONGS, uid="p"), *operator(value("LONG", 1, 2), uid="o")),
    "",
)


def asked(case: Case, which: str, directory: Path, backend: str, savepoint: Path | None = None) -> dict[str, Any]:
    """Return the request for a job that fills its states, or restores them."""
    format_ = "native" if backend == "forst" else "canonical"
    return flink.request(
        case.old if which == "old" else case.new,
        savepoint,
        backend=backend,
        parallelism=1,
        max_parallelism=128 if which == "old" else case.limit,
        filled=savepoint is None,
        snapshots=[format_],
        snapshots_to=directory / which,
    )


def path_of(answer: dict[str, Any]) -> Path:
    assert "error" not in answer, answer["error"][:3000]
    (path,) = answer["snapshots"].values()
    return Path(path)


def repaired(
    case: Case, source: Path, job: Path, directory: Path, version: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Check a savepoint against a job, execute the steps of the advice, and return the last savepoint."""
    directory.mkdir()
    monkeypatch.chdir(directory)
    uids = sorted({one["uid"] for one in (*case.old, *case.new)})
    signature = sp.signature(job, uids=uids)
    Path("job.json").write_text(str(signature), "utf-8")
    report = sp.check_job(source, "job.json", flink=version, backend=backend)  # type: ignore[arg-type]
    steps: Sequence[str] = report.steps
    if case is EXCHANGED:
        steps = [f"state-processor rename-uid {source} OUT --mapping '{json.dumps({'o': 'p', 'p': 'o'})}'"]
    elif version >= case.since:
        return source
    saved = ["export"] if case.loses else []
    commands = [*saved, case.command or "rename-uid"]
    assert [shlex.split(step, comments=True)[1] for step in steps] == commands, (case.name, str(report))
    assert ("loses" in steps[-1]) == case.loses, steps
    return execute(steps, directory)


@pytest.mark.parametrize(("version", "backend"), (*SETUPS, *MORE_SETUPS) if EVERY_CASE else SETUPS)
def test_flink_restores_what_the_advice_repairs(
    version: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_cases = (*CASES, EXCHANGED)
    cases = [
        case for case in all_cases if backend == "rocksdb" or (case.command == "convert-state" and backend not in case.as_is)
    ]
    places = [tmp_path / str(number) for number in range(len(cases))]

    def run(which: str, starts: Sequence[Path | None]) -> list[dict[str, Any]]:
        texts = {name: f"package {PACKAGE};\n{text}" for name, text in CLASSES[which].items()}
        triples = zip(cases, places, starts, strict=True)
        requests = [asked(case, which, place, backend, start) for case, place, start in triples]
        return flink.restore(version, requests, class_path=[flink.generated_classes(version, PACKAGE, texts)])

    none = [None] * len(cases)
    pairs = zip(cases, map(path_of, run("old", none)), map(path_of, run("new", none)), places, strict=True)
    paths = [(case, old, new, place / "repaired") for case, old, new, place in pairs]
    starts = [repaired(*path, version, backend, monkeypatch) for path in paths]
    for case, answer in zip(cases, run("new", starts), strict=True):
        assert "error" not in answer, (case.name, answer["error"][:3000])
        expected, found = flink.entries(case.new), without_classes(flink.entries(answer["operators"]))
        assert {name: found.get(name) for name in expected} == expected, case.name


def without_classes(entries: dict[tuple[str, str, str], list[str]]) -> dict[tuple[str, str, str], list[str]]:
    """Return entries without the classes of their values."""
    return {name: [re.sub(r'"@class": "[^"]*", ', "", entry) for entry in given] for name, given in entries.items()}
