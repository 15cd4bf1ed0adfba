"""Queries without Spark: the check of a migration, and the order of rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from tests.archives import unpacked


def test_a_migration_is_checked_without_spark() -> None:
    old, new = (unpacked("sql") / "2.3.0" / name for name in ("group-aggregate", "retracting"))
    writer = sp.arrow.SavepointWriter.from_existing(old / "savepoint", plan=old / "plan.json")
    report = writer.check_query_migration(old / "plan.json", new / "plan.json")
    first = "for the new query: 3 unchanged, 1 converted, 1 new, 0 left out, 0 impossible"
    assert str(report).splitlines()[0] == first
    with pytest.raises(sp.OptionError, match="no query was migrated; call migrate_query first"):
        writer.query_migration_report()


def last_rows(came: pa.Array) -> tuple[str, Any]:
    """A plan that keeps the last row by processing time, and a writer of rows with an order."""
    plan = json.loads((unpacked("sql") / "2.3.0" / "first-row" / "plan.json").read_text("utf-8"))
    for node in plan["nodes"]:
        if node["type"] == "stream-exec-deduplicate_1":
            node["keepLastRow"] = True
    ids = pa.array(range(len(came)), pa.int64())
    rows = pa.table({"id": ids, "customer": pa.repeat("ada", len(came)), "amount": ids, "came": came})
    return json.dumps(plan), sp.arrow.SavepointWriter.new().bootstrap_query(plan, "deduplicate", rows)


def test_an_order_by_the_fields_of_a_struct(tmp_path: Path) -> None:
    """As in Spark: a null is before values, in fields of fields too."""
    came = [{"hour": i // 3, "place": {"of hour": None if i % 3 == 2 else i % 3}} for i in range(12)]
    plan, writer = last_rows(pa.array(came))
    writer.write(tmp_path / "s")
    (uid,) = sp.arrow.operators(tmp_path / "s", plan=plan).column("operator_uid").to_pylist()
    rows = [row for b in sp.arrow.read_state(tmp_path / "s", uid, "deduplicate-state", plan=plan) for row in b.to_pylist()]
    assert [row["value"]["id"] for row in rows] == [10]


@pytest.mark.parametrize(
    ("came", "told"),
    [
        (pa.array([[1], [2]]), "column 'came' is array<bigint>, which says no order of rows; give a number or a time"),
        (pa.array([{"x": [("a", 1)]}], pa.struct([("x", pa.map_(pa.string(), pa.int64()))])), "which says no order of rows"),
        (pa.array([1.0, float("nan")]), "column came: a row has no time"),
    ],
)
def test_orders_that_are_none(came: pa.Array, told: str) -> None:
    with pytest.raises(sp.InvalidRowError, match=f"deduplicate: .*{told}"):
        last_rows(came)
