"""The same logical state gives the same table, whatever backend and format it was written in."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import pytest

from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.stored_operator import find_operator, operator_states
from tests import corpus
from tests.backends.corpus.test_corpus import CASES, TIMER_NAMES, Reading
from tests.interop.selection import covering

_OPERATOR_KINDS = ("OPERATOR_LIST", "UNION_LIST", "BROADCAST")
_BACKENDS = ("canonical", "heap", "rocksdb", "forst", "changelog", "raw")


def families() -> dict[str, list[corpus.Case]]:
    """Cases with the same content, by the name of the first."""
    found: dict[tuple[str, ...], list[corpus.Case]] = defaultdict(list)
    for case in CASES:
        states = [
            corpus.sort_key([o["uid"] or o.get("uid_hash"), s["name"], s["kind"], s["entries"]])
            for o, s in corpus.states_of(case)
            if s["kind"] not in _OPERATOR_KINDS
        ]
        if states:
            found[case.directory.parent.name, *sorted(states)].append(case)
    return {cases[0].id: cases for cases in found.values()}


FAMILIES = families()


def traits(pair: tuple[corpus.Case, corpus.Case]) -> set[str | bool]:
    """The traits of the second case, and where it is from."""
    case = pair[1]
    return {*case.traits, case.id.startswith("corpus:")}


PAIRS = covering([(cases[0], other) for cases in FAMILIES.values() for other in cases[1:]], traits)
"""Another test compares the rows of all cases, which are not flattened, with what their jobs put in."""


@cache
def tables(case: corpus.Case) -> dict[tuple[str, str], list[str]]:
    """The rows of each keyed state and timer queue, in an order of their own."""
    reading = Reading(case, ReadOptions.of(nanos="string", row_kind=True))
    found = {}
    for operator in case.expected["operators"]:
        for state in operator.get("states", []):
            if "kind" not in state or state["kind"] in _OPERATOR_KINDS:
                continue
            name = TIMER_NAMES.get(state["kind"], "") + state["name"]
            rows = reading.rows(operator, name)
            if state.get("unordered_elements"):
                rows = [{n: v for n, v in row.items() if n != "list_index"} for row in rows]
            found[operator["uid"] or operator["uid_hash"], name] = sorted(repr(_ordered(row)) for row in rows)
    return found


def _ordered(value: Any) -> Any:
    """The order in a map is an accident of hashing."""
    if isinstance(value, dict):
        return {n: _ordered(v) for n, v in value.items()}
    if isinstance(value, list):
        inner = [_ordered(v) for v in value]
        return sorted(inner, key=repr) if inner and isinstance(inner[0], tuple) else inner
    return tuple(_ordered(v) for v in value) if isinstance(value, tuple) else value


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda c: c.id)
def test_all_formats_of_a_case_give_the_same_tables(one: corpus.Case, other: corpus.Case) -> None:
    expected, found = tables(one), tables(other)
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []


@pytest.mark.parametrize("case", [c for c in CASES if "snapshot_dir" in c.facts], ids=lambda c: c.id)
def test_every_expected_state_is_listed_with_kind_and_backend(case: corpus.Case) -> None:
    snapshot = open_snapshot(case.snapshot)
    for operator in case.expected["operators"]:
        listed = operator_states(snapshot, find_operator(snapshot, operator["uid"], operator.get("uid_hash")))
        for state in operator.get("states", []):
            if "kind" in state:
                found = listed[TIMER_NAMES.get(state["kind"], "") + state["name"]]
                assert found.kind == state["kind"]
                assert found.backend in (("operator",) if state["kind"] in _OPERATOR_KINDS else _BACKENDS)
                if "-forst-" in case.id and state["kind"] not in _OPERATOR_KINDS:
                    on_heap = operator.get("asynchronous", False) and state["kind"] in TIMER_NAMES
                    assert found.backend == ("raw" if on_heap else "forst")
                if "-rocksdb-" in case.id:
                    assert found.backend != "forst"
