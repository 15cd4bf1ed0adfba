"""Kinds of operators are found from names and types of states; jobs that were submitted as text, from plans compiled later."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from pathlib import Path

import pytest

import state_processor as sp
from state_processor.applications.flink_sql.descriptions import QueryMatches, match_query, with_query
from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.backends.metadata.snapshot import Snapshot, open_snapshot
from state_processor.backends.read.catalog import operator_kinds, states
from state_processor.support.errors import OptionError
from tests.archives import unpacked

SIMILAR = {
    "global-group-aggregate": "group-aggregate",
    "incremental-group-aggregate": "group-aggregate",
    "global-window-aggregate": "window-aggregate",
    "changelog-normalize": "deduplicate or changelog-normalize",
    "deduplicate": "deduplicate or changelog-normalize",
}
"""Kinds that have the same states."""


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_kinds_equal_those_of_the_plan(version: str) -> None:
    seen = set()
    for query in sorted((unpacked("sql") / version).iterdir()):
        snapshot = open_snapshot(query / "savepoint")
        plan = CompiledPlan.parse((query / "plan.json").read_text("utf-8"))
        kinds = operator_kinds(snapshot)
        listed = {row["operator_uid_hash"]: row["operator_kind"] for row in states(snapshot).to_pylist()}
        assert listed.items() <= kinds.items()
        for uid_hash, kind in kinds.items():
            expected = plan.operators[uid_hash].transformation
            assert kind in (expected, SIMILAR.get(expected) if version == "1.20.5" else None), query.name
            seen.add(expected)
    assert len(seen) >= 15


def test_operators_of_the_data_stream_api_have_no_kind() -> None:
    snapshot = open_snapshot("tests/fixtures/2.3.0/orders-rocksdb-canonical/savepoint")
    assert set(operator_kinds(snapshot).values()) <= {"source", "sink writer"}


VERSIONS = ("1.20.5", "2.3.0")
STORED = [(version, path.name) for version in VERSIONS for path in sorted((unpacked("sql-text") / version).iterdir())]


NAMED = {
    "upsert-materialize": ("SinkMaterializer",),
    "constraint-validator": ("ConstraintEnforcer",),
    "timestamp-inserter": ("StreamRecordTimestampInserter",),
    "rank": ("Rank", "Limit", "SortLimit"),
}
"""Names of operators that do not have the name of their node."""


def text_query(version: str, name: str) -> tuple[Path, Path]:
    query = unpacked("sql-text") / version / name
    return query / "savepoint", query / "plan.json"


def plan_of(path: Path) -> CompiledPlan:
    return CompiledPlan.parse(path.read_text("utf-8"))


def matched(savepoint: Path, plan: Path) -> QueryMatches:
    return match_query(open_snapshot(savepoint), plan_of(plan))


@pytest.mark.parametrize(("version", "name"), STORED)
def test_all_operators_have_the_ids_that_follow_from_the_plan(version: str, name: str) -> None:
    found = matched(*text_query(version, name))
    assert found.by_id
    assert [one.operator.operator_id for one in found.matches if one.plan_operator is None] == []
    if version == "2.3.0":  # Flink's own names of the operators
        names = {}
        for one in found.matches:
            assert one.plan_operator is not None
            shown, number = re.fullmatch(r"(?:Source: |Sink: )?(.+)\[(\d+)\]", one.operator.name or "").groups()
            node = one.plan_operator.node
            kinds = {"source": ("orders", "customers", "homes", "late_orders", "late_customers"), "sink": ("results",)} | NAMED
            camel = "".join(part.capitalize() for part in node.kind.split("-"))
            assert shown in kinds.get(one.plan_operator.transformation, (camel,)), (one.operator.name, one.plan_operator.uid)
            names.setdefault(int(number), set()).add(node.id)
        assert [sorted(ids) for _, ids in sorted(names.items())] == [[n] for n in sorted(set().union(*names.values()))]
    savepoint, plan = text_query(version, name)
    states = sp.arrow.states(savepoint, plan=plan).to_pylist()
    assert [row for row in states if row["operator_uid"] is None] == []


def without_ids(snapshot: Snapshot) -> Snapshot:
    """The snapshot of a job with another shape: all ids differ."""
    operators = tuple(
        replace(o, operator_id=f"{n:032x}", name=o.name) for n, o in enumerate(snapshot.metadata.operators, start=1)
    )
    return replace(snapshot, metadata=replace(snapshot.metadata, operators=operators))


@pytest.mark.parametrize(("version", "name"), STORED)
def test_operators_of_another_shape_are_matched_by_structure_and_never_wrongly(version: str, name: str) -> None:
    savepoint, plan = text_query(version, name)
    snapshot = open_snapshot(savepoint)
    right = [one.plan_operator for one in match_query(snapshot, plan_of(plan)).matches]
    found = match_query(without_ids(snapshot), plan_of(plan))
    assert not found.by_id
    for one, expected in zip(found.matches, right, strict=True):
        assert expected is not None
        assert one.plan_operator is None or one.plan_operator.uid == expected.uid, one
        if one.candidates:
            assert expected.uid in {candidate.uid for candidate in one.candidates}
    stateful = [one for one in found.matches if one.operator.state_size and one.plan_operator is None]
    assert [one for one in stateful if len(one.candidates) < 2 and "distinct values have" not in one.evidence[-1]] == []


@pytest.mark.parametrize(("connector", "has_uid"), [("iceberg", False), ("paimon", False), ("kafka", True)])
def test_sinks_without_uids_keep_their_ids(connector: str, has_uid: bool) -> None:
    savepoint, path = text_query("2.3.0", "left-join")
    content = json.loads(path.read_text("utf-8"))
    content["nodes"][-1]["dynamicTableSink"]["table"]["resolvedTable"]["options"] = {"connector": connector}
    found = match_query(open_snapshot(savepoint), CompiledPlan.parse(json.dumps(content)))
    assert found.by_id
    (sink,) = (one for one in found.matches if "results" in (one.operator.name or ""))
    assert (sink.plan_operator is not None) == has_uid
    assert has_uid or sink.evidence == (f"a sink of {connector} does not get uids from a plan",)
    assert all(one.plan_operator is not None for one in found.matches if one is not sink)


def test_ambiguous_operators_keep_their_ids_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    savepoint, plan = text_query("1.20.5", "left-join")
    with caplog.at_level(logging.WARNING, "state_processor"):
        named = with_query(without_ids(open_snapshot(savepoint)), plan_of(plan))
    (uid,) = (o.uid for o in named.metadata.operators if o.uid)
    assert uid.endswith("_join")
    assert sum("keeps its id; operators of the plan that fit" in record.getMessage() for record in caplog.records) == 2


def test_the_plan_of_another_query_is_refused() -> None:
    savepoint, _ = text_query("1.20.5", "left-join")
    _, plan = text_query("1.20.5", "tumbling")
    with pytest.raises(OptionError, match="does not have the operators"):
        sp.arrow.operators(savepoint, plan=plan)


def test_match_gives_the_mapping_of_ids_to_uids() -> None:
    savepoint, plan = text_query("1.20.5", "left-join")
    found = sp.match_operators(savepoint, plan)
    assert found.open == ()
    assert {one.confidence for one in found.matches} == {"certain"}
    uids = {row["operator_uid"] for row in sp.arrow.operators(savepoint, plan=plan).to_pylist()}
    assert set(found.mapping.values()) == uids
    evidence = {one.new: one.evidence for one in found.matches}
    assert {facts for new, facts in evidence.items() if (new or "").endswith("_join")} == {
        ("the id follows from the plan", "the states fit")
    }


def test_operators_are_also_found_by_their_recorded_ids() -> None:
    savepoint, plan = text_query("1.20.5", "left-join")
    mapping = sp.match_operators(savepoint, plan).mapping
    ((recorded, uid),) = ((old, new) for old, new in mapping.items() if new.endswith("_join"))
    named, plain = (
        [row for batch in sp.arrow.read_state(savepoint, operator, "left-records", plan=plan) for row in batch.to_pylist()]
        for operator in (uid, recorded)
    )
    assert named == plain
    assert named[0]["key"].keys() == {"customer"}


def test_a_written_savepoint_has_the_uids_of_the_plan(tmp_path: Path) -> None:
    savepoint, plan = text_query("1.20.5", "left-join")
    sp.arrow.SavepointWriter.from_existing(savepoint, plan=plan).write(tmp_path / "new")
    written = open_snapshot(tmp_path / "new").metadata.operators
    assert {o.operator_id for o in written} == plan_of(plan).operators.keys() & {o.operator_id for o in written}
    with pytest.raises(OptionError, match=r"none of the operators of the savepoint.*open the savepoint with plan="):
        sp.arrow.SavepointWriter.from_existing(savepoint).check_query_migration(plan, plan)
    assert sp.arrow.SavepointWriter.from_existing(savepoint, plan=plan).check_query_migration(plan, plan).impossible == ()


def test_the_plan_of_another_version_is_matched_by_id_or_structure() -> None:
    for name in sorted(path.name for path in (unpacked("sql-text") / "1.20.5").iterdir()):
        savepoint, own = text_query("1.20.5", name)
        _, newer = text_query("2.3.0", name)
        right = {one.operator.operator_id: one.plan_operator for one in matched(savepoint, own).matches}
        for one in matched(savepoint, newer).matches:
            expected = right[one.operator.operator_id]
            assert expected is not None
            if one.plan_operator is not None:
                assert one.plan_operator.transformation == expected.transformation, (name, one)
