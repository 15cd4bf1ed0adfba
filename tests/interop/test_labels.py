"""Savepoints that are labelled for another version of Flink: real Flink restores what passes the check, and not the rest."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.write.assembly import release_for
from state_processor.write.build import SavepointBuild
from state_processor.write.plan.restorability import RegisteredStates
from tests.corpus import Case, own_cases
from tests.interop import flink

pytestmark = pytest.mark.interop

TIMERS = {"EVENT_TIMER": "_timer_state/event_", "PROCESSING_TIMER": "_timer_state/processing_"}
CASES = ("keyed-all-hashmap-canonical", "orders-hashmap-canonical", "windows-kinds-*-canonical")
REFUSED = ("value-kryo-bitset", "value-pojo-account", "account")
"""States with Kryo or collections in POJOs. Flink refuses them, or reads other values."""


def labelled(case: Case, label: str, target: Path, chosen: set[tuple[str, str]]) -> list[dict[str, Any]]:
    """Write a savepoint with some states; return their operators."""
    writer = sp.arrow.SavepointWriter.from_existing(case.snapshot, flink_version=label)
    operators = []
    for operator in copy.deepcopy(case.expected["operators"]):
        left = [s for s in operator["states"] if (operator["uid"], stored(s)) not in chosen]
        if len(left) == len(operator["states"]):
            writer.remove_operator(operator["uid"])
            continue
        for state in left:
            writer.remove_state(operator["uid"], stored(state))
        operators.append({**operator, "states": [s for s in operator["states"] if s not in left]})
    writer.write(target)
    return operators


def stored(state: dict[str, Any]) -> str:
    return TIMERS.get(state["kind"], "") + state["name"]


def states_of(case: Case) -> set[tuple[str, str]]:
    return {(o["uid"], stored(s)) for o in case.expected["operators"] for s in o["states"]}


def obstructed(case: Case, label: str) -> set[tuple[str, str]]:
    snapshot = open_snapshot(case.snapshot)
    uids = {sp.OperatorIdentifier.for_uid(o["uid"]).uid_hash: o["uid"] for o in case.expected["operators"]}
    found = RegisteredStates.of(snapshot).obstacles(release_for(label))
    return {(uids.get(o.operator, o.operator), o.state) for o in found}


@pytest.mark.parametrize(("written", "restoring"), [("1.20.5", "2.3.0"), ("2.3.0", "1.20.5")])
def test_what_passes_the_check_is_restored(written: str, restoring: str, tmp_path: Path) -> None:
    label = restoring.rpartition(".")[0]
    cases = [case for pattern in CASES for case in own_cases(f"{written}/{pattern}")]
    requests, expected = [], []
    for number, case in enumerate(cases):
        operators = labelled(case, label, tmp_path / str(number), states_of(case) - obstructed(case, label))
        for backend in ("hashmap", "rocksdb"):
            requests.append(
                flink.request(operators, tmp_path / str(number), backend=backend, max_parallelism=case.facts["max_parallelism"])
            )
            expected.append((case.name, operators))
    assert len(requests) >= 6
    for (name, operators), answer in zip(expected, flink.restore(restoring, requests), strict=True):
        assert "error" not in answer, f"{name}: {answer['error'][:2000]}"
        assert flink.entries(answer["operators"]) == flink.entries(operators), name


def test_tables_of_a_later_rocksdb_are_written_again(tmp_path: Path) -> None:
    (case,) = own_cases("2.3.0/orders-rocksdb-native")
    writer = sp.arrow.SavepointWriter.from_existing(case.snapshot, flink_version="1.20")
    summary = writer.write(tmp_path / "new", format="native", backend="rocksdb")
    assert {o.rewritten for o in summary.operators if o.uid == "orders"} == {("Flink 1 does not read tables of Flink 2",)}
    (answer,) = flink.restore("1.20.5", [flink.request(case.expected["operators"], tmp_path / "new", backend="rocksdb")])
    assert "error" not in answer, answer["error"][:2000]
    assert flink.entries(answer["operators"]) == flink.entries(case.expected["operators"])


@pytest.mark.parametrize(("written", "restoring"), [("1.20.5", "2.3.0"), ("2.3.0", "1.20.5")])
def test_what_does_not_pass_is_not_restored(
    written: str, restoring: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = restoring.rpartition(".")[0]
    (case,) = own_cases(f"{written}/keyed-all-hashmap-canonical")
    monkeypatch.setattr(SavepointBuild, "_check_release", lambda build: None)
    requests, expected = [], []
    for uid, state in sorted(obstructed(case, label)):
        if state in REFUSED:
            operators = labelled(case, label, tmp_path / state, {(uid, state)})
            requests.append(flink.request(operators, tmp_path / state, max_parallelism=case.facts["max_parallelism"]))
            expected.append(operators)
    assert len(requests) == len(REFUSED)
    for operators, answer in zip(expected, flink.restore(restoring, requests), strict=True):
        assert "error" in answer or flink.entries(answer["operators"]) != flink.entries(operators)
