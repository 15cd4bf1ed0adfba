"""Jobs without uids and their new versions: matched, renamed, and restored by real Flink, which shows who gets whose state.

``python -m tests.interop.jobs_without_uids`` tries all jobs with all versions, and prints a table.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import state_processor as sp
from state_processor import cli
from state_processor.applications.jobs.matching import OperatorMatches
from tests.interop import flink, flink_jars

VERSIONS = ("1.20.5", "2.3.0")
PACKAGE = "uidless"
_GROWN = f"POJO<{PACKAGE}.Grown>"
_OLD = {"Grown": f"package {PACKAGE};\npublic class Grown {{ public int a; }}"}
_NEW = {"Grown": f"package {PACKAGE};\npublic class Grown {{ public int a; public String b; }}"}

Operator = dict[str, Any]
State = Callable[[str], dict[str, Any]]
"""Returns a state with entries that are those of one operator alone, from the name of the operator."""


def value(name: str, type_: str = "LONG", kind: str = "VALUE") -> State:
    """Return a value state, or a list of one element."""

    def of(label: str) -> dict[str, Any]:
        found = {"LONG": zlib.crc32(label.encode()), "STRING": label, _GROWN: {"a": zlib.crc32(label.encode()) % 1000}}[type_]
        entry = {"key": "a", "value": [found] if kind == "LIST" else found}
        return {"name": name, "kind": kind, "value_type": type_, "entries": [entry], "ttl": False}

    return of


def entries(name: str, kind: str = "MAP") -> State:
    """Return a map, or broadcast state."""

    def of(label: str) -> dict[str, Any]:
        entry = {"key": label, "value": 1} if kind == "BROADCAST" else {"key": "a", "value": [[label, 1]]}
        types = {"map_key_type": "STRING", "value_type": "LONG"}
        return {"name": name, "kind": kind, **types, "entries": [entry], "ttl": False}

    return of


def elements(name: str, kind: str = "OPERATOR_LIST") -> State:
    """Return list state of an operator."""
    return lambda label: {"name": name, "kind": kind, "value_type": "STRING", "entries": [label], "ttl": False}


def timers(name: str) -> State:
    """Return timers."""

    def of(label: str) -> dict[str, Any]:
        entry = {"key": "a", "timestamp": 1 << 40 | zlib.crc32(label.encode())}
        return {"name": name, "kind": "EVENT_TIMER", "namespace_type": "VOID_NAMESPACE", "entries": [entry], "ttl": False}

    return of


def op(label: str, *states: State, after: Sequence[int] = (), name: str | None = None, key: str | None = "STRING") -> Operator:
    """Return an operator; the label is its uid in the new version, and its name by default."""
    found = [state(label) for state in states]
    keyed = any(state["kind"] not in ("OPERATOR_LIST", "UNION_LIST", "BROADCAST") for state in found)
    types = {"key_type": key} if keyed else {}
    return {"uid": label, **types, "states": found, "inputs": list(after), "name": name or label}


@dataclass(frozen=True)
class Job:
    """A job without uids, and its new version with uids.

    Parameters
    ----------
    name
        What changes.
    old, new
        The operators of both versions.
    open
        The operators whose match has to be left open, because nothing tells them apart.
    named
        Whether the new version has uids; else its ids follow from its graph as well.
    """

    name: str
    old: tuple[Operator, ...]
    new: tuple[Operator, ...]
    open: frozenset[str] = frozenset()
    named: bool = True


TOTAL, SEEN, ITEMS, LAST = value("total"), value("seen", "STRING"), entries("items"), value("last", "LONG", "LIST")
_GIVEN = "KeyedProcess"
"""A name that Flink gives to operators."""
_TWO = (op("count", TOTAL), op("dedup", SEEN))
_ALIKE = (op("left", TOTAL), op("right", TOTAL))
_UNNAMED = (op("left", TOTAL, name=_GIVEN), op("right", TOTAL, name=_GIVEN))
_CHAIN = (op("parse"), op("count", TOTAL, after=[0]), op("format", after=[1]), op("dedup", SEEN, after=[2]))
_LONGER = (op("parse"), op("clean", after=[0]), *({**o, "inputs": [place + 1]} for place, o in enumerate(_CHAIN[1:])))
_SHARED = (op("rules", entries("rules", "BROADCAST")), op("shared", elements("s", "UNION_LIST")))
_SINKS = (op("sink a", elements("pending")), op("sink b", elements("pending")))


def _renamed(operators: Sequence[Operator], **names: str) -> tuple[Operator, ...]:
    return tuple({**operator, "name": names.get(operator["uid"], operator["name"])} for operator in operators)


JOBS = (
    Job("uids are set", _TWO, _TWO),
    Job("an operator is inserted", _CHAIN, _LONGER),
    Job("states are equal, names differ", _ALIKE, _ALIKE),
    Job("states and names are equal", _UNNAMED, _UNNAMED, frozenset({"left", "right"})),
    Job("names contradict states", _TWO, _renamed(_TWO, count="dedup", dedup="count"), frozenset({"count", "dedup"})),
    Job("an operator is removed", _LONGER, _CHAIN),
    Job("names are those that Flink gives", *2 * (_renamed(_TWO, count=_GIVEN, dedup=_GIVEN),)),
    Job("operators change places", _TWO, _TWO[::-1]),
    Job("operators of one shape change places", _ALIKE, _ALIKE[::-1]),
    Job("all operators are renamed", _TWO, _renamed(_TWO, count="totals", dedup="unique")),
    Job("alike operators are renamed", _ALIKE, _renamed(_ALIKE, left="one", right="two"), frozenset({"left", "right"})),
    Job("one of two alike is renamed", _ALIKE, _renamed(_ALIKE, left="one"), frozenset({"left"})),
    Job("a state is added", _TWO, (op("count", TOTAL, ITEMS), _TWO[1])),
    Job("an operator with state is added", _TWO, (*_TWO, op("more", LAST))),
    Job("an alike operator is added", _ALIKE, (*_ALIKE, op("third", TOTAL))),
    Job("a POJO grows", *2 * ((op("count", TOTAL), op("store", value("profile", _GROWN))),)),
    Job("sinks with equal lists", _SINKS, _SINKS[::-1]),
    Job("broadcast state and a union list", _SHARED, _SHARED),
    Job("timers", *2 * ((op("count", TOTAL, timers("t")), op("later", TOTAL, timers("u"))),)),
    Job("branches join", *2 * ((op("a", TOTAL), op("b", SEEN), op("joined", ITEMS, after=[0, 1])),)),
    Job("the new version has no uids either", _CHAIN, _CHAIN, named=False),
    Job("without uids, an operator is inserted", _CHAIN, _LONGER, frozenset({"count", "dedup"}), named=False),
    Job("states move to one operator", _TWO, (op("both", TOTAL, SEEN),), frozenset({"both"})),
)
"""The first five are tried by the tests."""


_LENIENT = dict.fromkeys(
    ("execution.savepoint.ignore-unclaimed-state", "execution.state-recovery.ignore-unclaimed-state"), "true"
)
"""The setting that drops state without an operator, in Flink 1 and 2."""


@dataclass(frozen=True)
class Result:
    """What operators of a new version got: their own state, no state, or the state of another operator."""

    job: Job
    version: str
    matches: OperatorMatches
    right: frozenset[str]
    open: frozenset[str]
    wrong: frozenset[str]

    def __str__(self) -> str:
        parts = {"right": self.right, "open": self.open, "WRONG": self.wrong}
        said = ", ".join(f"{name} {', '.join(sorted(labels))}" for name, labels in parts.items() if labels)
        facts = "; ".join(f"{row['confidence']}: {row['evidence']}" for row in self.matches.rows())
        return f"{self.version}, {self.job.name}: {said} | {facts}"


def results(jobs: Sequence[Job], version: str, directory: Path) -> Iterator[Result]:
    """Yield the results of jobs with a version of Flink."""
    before, after = ([flink.generated_classes(version, PACKAGE, texts)] for texts in (_OLD, _NEW))
    snapshots: dict[str, Any] = {"snapshots": ["canonical"], "filled": True}
    olds = [[{**o, "anonymous": True} for o in job.old] for job in jobs]
    news = [[{**o, "anonymous": not job.named} for o in job.new] for job in jobs]
    empty = [[_empty(operator) for operator in operators] for operators in news]
    written = _answers(version, [flink.request(o, **snapshots, snapshots_to=directory / "old") for o in olds], before)
    described = _answers(version, [flink.request(o, **snapshots, snapshots_to=directory / "new") for o in empty], after)
    asked, found = [], []
    for number, (old, new, operators) in enumerate(zip(written, described, news, strict=True)):
        graph, path = directory / f"graph-{number}.json", directory / f"matched-{number}"
        new_graph, mapping = directory / f"new-graph-{number}.json", directory / f"mapping-{number}.json"
        graph.write_text(old["plan"], "utf-8")
        new_graph.write_text(new["plan"], "utf-8")
        savepoint = old["snapshots"]["canonical"]
        matches = sp.match_operators(savepoint, new["snapshots"]["canonical"], graph=graph, new_graph=new_graph)
        found.append(matches)
        if matches.mapping:
            mapping.write_text(matches.to_json(), "utf-8")
            with redirect_stdout(StringIO()):
                assert cli.main(["rename-uid", savepoint, str(path), "--mapping", str(mapping)]) == 0
        asked.append(flink.request(operators, path if matches.mapping else savepoint, settings=_LENIENT if matches.open else {}))
    for job, matches, answer in zip(jobs, found, _answers(version, asked, after), strict=True):
        yield _result(job, version, matches, answer["operators"])


def _empty(operator: Operator) -> Operator:
    return {**operator, "states": [{**state, "entries": []} for state in operator["states"]]}


def _answers(version: str, requests: Sequence[Mapping[str, Any]], class_path: Sequence[Path]) -> list[dict[str, Any]]:
    answers = flink.restore(version, requests, class_path=class_path)
    for answer in answers:
        assert "error" not in answer, answer["error"][:3000]
    return answers


def _result(job: Job, version: str, matches: OperatorMatches, operators: Sequence[Operator]) -> Result:
    """Compare what the operators of the new version have with what they had in the old one."""
    before = {o["uid"]: {s["name"]: _texts(s) for s in o["states"]} for o in job.old}
    right, left, wrong = set(), set(), set()
    for operator in operators:
        label = operator["uid"]
        states = {s["name"]: _texts(s) for s in operator["states"]}
        mine = before.get(label, {})
        if not any(states.values()):
            if any(mine.values()) or label in job.open:
                left.add(label)
        elif all(not texts or texts == mine.get(name) for name, texts in states.items()):
            right.add(label)
        else:
            wrong.add(label)
    return Result(job, version, matches, frozenset(right), frozenset(left), frozenset(wrong))


def _texts(state: Mapping[str, Any]) -> list[str]:
    """The entries as text; of a POJO, the fields that both versions have."""
    if state.get("value_type", "").startswith("POJO"):
        return [f"{entry['key']}: {entry['value']['a']}" for entry in state["entries"]]
    without_namespace = ({**e, "namespace": None} if isinstance(e, dict) else e for e in state["entries"])
    return sorted(json.dumps(entry, sort_keys=True) for entry in without_namespace)


def main(words: Sequence[str]) -> int:
    """Try the jobs whose names contain one of the words, or all, and return the number of operators with state of others."""
    chosen = [job for job in JOBS if not words or any(word in job.name for word in words)]
    right = left = wrong = 0
    flink_jars.CACHE.mkdir(exist_ok=True)
    for version in VERSIONS:
        with tempfile.TemporaryDirectory(prefix="uidless-", dir=flink_jars.CACHE) as directory:
            for result in results(chosen, version, Path(directory)):
                print(result, flush=True)
                right, left, wrong = right + len(result.right), left + len(result.open), wrong + len(result.wrong)
    print(f"{len(chosen)} jobs, {len(VERSIONS)} versions: {right} right, {left} open, {wrong} wrong")
    return wrong


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
