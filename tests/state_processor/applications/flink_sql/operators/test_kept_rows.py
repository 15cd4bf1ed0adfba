"""Rows that joins, deduplications and sinks keep, of a query in the state of another query."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from state_processor.applications.flink_sql.state_changes import StateSuccession
from state_processor.errors import StateMigrationError
from tests.state_processor.applications.flink_sql.plan_edits import (
    LITERAL,
    ROW,
    TS,
    Plan,
    before,
    changed,
    changes_of,
    columns,
    node,
    old_node,
    plan_of,
)


def test_columns_of_joins() -> None:
    added = columns(
        "join", lambda given: [given[2], *given, TS], f"{ROW.replace('ROW<', 'ROW<`again` BIGINT, ')}, `ts` TIMESTAMP(3)>"
    )

    def moved(plan: Plan) -> None:
        added(plan)
        node(plan, "join")["joinSpec"]["leftKeys"] = [2]

    change = changed("inner-join", "join", moved)
    row = change["left-records"].rows["map_key"]
    assert [f.source for f in row.fields] == [2, 0, 1, 2, None]
    assert row.notes == ("column ts is new, and null",)
    assert not change["left-records"].merges
    assert change["right-records"].rows["map_key"].is_same
    fewer = columns("join", lambda given: given[1:], "ROW<`customer` VARCHAR(2147483647), `amount` BIGINT>")

    def removed(plan: Plan) -> None:
        fewer(plan)
        node(plan, "join")["joinSpec"]["leftKeys"] = [0]

    change = changed("left-join", "join", removed)
    assert change["left-records"].notes == ("column id is dropped",)
    assert change["left-records"].merges


def test_columns_of_rows_that_are_kept() -> None:
    added = f"{ROW}, `ts` TIMESTAMP(3)>"
    top = changed("top", "rank", columns("rank", lambda given: [*given, TS], added))["data-state-with-append"]
    assert [f.source for f in top.rows["value"].fields] == [0, 1, 2, None]


def test_new_columns_of_rows_retracted_by_all_columns_are_refused() -> None:
    old, new = plan_of("retracting"), plan_of("retracting")
    # the totals of customers come to a top-N that takes rows back
    for plan in (old, new):
        aggregate = node(plan, "group-aggregate")
        for name in ("grouping", "aggCalls", "aggCallNeedRetractions", "needRetraction"):
            aggregate.pop(name)
        aggregate |= {
            "type": "stream-exec-rank_1",
            "rankType": "ROW_NUMBER",
            "partition": {"fields": [0]},
            "orderBy": {"fields": [{"index": 1, "isAscending": True, "nullIsLast": False}]},
            "rankRange": {"type": "Constant", "start": 1, "end": 2},
            "rankStrategy": {"type": "Retract"},
            "outputType": "ROW<`n` BIGINT NOT NULL, `total` BIGINT>",
        }
    calc, passing = before(new, "rank")
    calc["projection"].append({"kind": "INPUT_REF", "inputIndex": 0, "type": "VARCHAR(2147483647)"})
    for one in (calc, *passing, node(new, "rank")):
        one["outputType"] = "ROW<`n` BIGINT NOT NULL, `total` BIGINT, `customer` VARCHAR(2147483647)>"
    with pytest.raises(StateMigrationError, match="would not be found without the values of the new columns"):
        changes_of(old, new).changes(old_node(old, "rank"))


def first_row(waits: bool, more: Sequence[Plan] = ()) -> Plan:
    plan = plan_of("last-row")
    if more:
        fields = [*before(plan, "deduplicate")[0]["outputType"]["fields"], *more]
        columns("deduplicate", lambda given: [*given, LITERAL], {"type": "ROW", "fields": fields})(plan)
    node(plan, "deduplicate").update(keepLastRow=False, isRowtime=True, generateUpdateBefore=not waits, outputInsertOnly=waits)
    return plan


def test_a_first_row_that_waits_for_its_time_is_in_another_state() -> None:
    old, new = first_row(waits=False), first_row(waits=True)
    change = changes_of(old, new).changes(old_node(old, "deduplicate"))["deduplicate-state"]
    assert (emitted := change.successor) is not None
    assert (emitted.name, emitted.columns, emitted.replaces) == ("already-emitted-state-boolean", {"value": True}, True)
    assert "does not retract it if an earlier row arrives later" in change.notes[0]
    with pytest.raises(StateMigrationError, match="Flink would restore the savepoint without an error"):
        changes_of(new, old).changes(old_node(new, "deduplicate"))
    wider = first_row(waits=True, more=[{"name": "one", "fieldType": "INT"}])
    old = first_row(waits=True)
    changes = changes_of(old, wider).changes(old_node(old, "deduplicate"))
    assert [f.source for f in changes["waiting-to-emit-on-timer"].rows["value"].fields] == [0, 1, 2, 3, None]


def materialized(*positions: int | None, upsert: Sequence[int] = (), strategy: str = "LEGACY") -> Plan:
    """Return a sink with columns of the original at some positions, or new ones."""
    plan = plan_of("materialized")
    sink = node(plan, "sink")
    given = [{"name": "city", "dataType": "VARCHAR(2147483647) NOT NULL"}, {"name": "total", "dataType": "BIGINT"}]
    more = {"name": "more", "dataType": "BIGINT"}
    schema = sink["dynamicTableSink"]["table"]["resolvedTable"]["schema"]
    schema["columns"] = [more if at is None else given[at] for at in positions]
    sink |= {"inputUpsertKey": list(upsert), "upsertMaterializeStrategy": strategy}
    calc, _ = before(plan, "sink")
    added = {"kind": "CALL", "internalName": "$+$1", "operands": [LITERAL], "type": "BIGINT"}
    calc["projection"] = [added if at is None else calc["projection"][at] for at in positions]
    fields = ", ".join(f"`{one['name']}` {one['dataType'].removesuffix(' NOT NULL')}" for one in schema["columns"])
    calc["outputType"] = f"ROW<{fields}>"
    return plan


def test_columns_of_materialized_sinks_go_on() -> None:
    def changes(old: Plan, new: Plan) -> dict[str, StateSuccession]:
        return dict(changes_of(old, new).changes(old_node(old, "sink")))

    found = changes(materialized(0, 1, upsert=[0]), materialized(1, None, 0, upsert=[2]))
    assert [f.source for f in found["values"].rows["value"].fields] == [1, None, 0]
    assert found["values"].notes == ("column more is new, and null",)
    assert [found[name] for name in ("list", "sqnToNodeState")] == [found["values"]] * 2
    assert "rowToSqnState" not in found
    assert changes(materialized(0, 1), materialized(0))["values"].notes == ("column total is dropped",)
    with pytest.raises(StateMigrationError, match=r"column more is new, and null.*, but not a known key"):
        changes(materialized(0, 1), materialized(0, 1, None))
    with pytest.raises(StateMigrationError, match=r"by code for these columns .*\(strategy MAP\)"):
        changes(materialized(0, 1, strategy="MAP"), materialized(1, 0, strategy="MAP"))
    with pytest.raises(StateMigrationError, match="the known key of rows of sink"):
        changes(materialized(0, 1, upsert=[0]), materialized(1, 0, upsert=[0]))
    without = materialized(0)
    node(without, "sink")["dynamicTableSink"]["table"]["resolvedTable"]["schema"] |= {"columns": []}
    with pytest.raises(StateMigrationError, match=r"has 1 columns, and its table 0 stored columns in the plan"):
        changes(materialized(0, 1), without)
