"""Kinds of operators of Flink SQL are found from names and types of states."""

from __future__ import annotations

import pytest

from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.catalog import operator_kinds, states
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
