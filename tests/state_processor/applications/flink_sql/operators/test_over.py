"""Accumulators and rows of ``OVER`` aggregates, of a query in the state of another query."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from state_processor.applications.flink_sql.state_changes import NewField, StateSuccession
from state_processor.errors import StateMigrationError
from tests.state_processor.applications.flink_sql.plan_edits import (
    BIGINT,
    LITERAL,
    Edit,
    Plan,
    before,
    call,
    changed,
    changes_of,
    node,
    old_node,
    plan_of,
)


def unbounded(version: int | None, column: str) -> Plan:
    plan = plan_of("over")
    over = node(plan, "over-aggregate")
    (group,) = over["overSpec"]["groups"]
    group["lowerBound"] = {"kind": "UNBOUNDED_PRECEDING"}
    columns = [f.name for f in old_node(plan, "over-aggregate").left]
    group["orderBy"]["fields"][0]["index"] = columns.index(column)
    over.pop("unboundedOverVersion", None)
    if version is not None:
        over["unboundedOverVersion"] = version
    return plan


def test_an_unbounded_over_by_row_time_has_other_timers_in_its_second_version() -> None:
    old = unbounded(None, "ts")

    def changes(one: Plan, other: Plan) -> dict[str, StateSuccession]:
        found = changes_of(one, other).changes(old_node(one, "over-aggregate"))
        return {name: change for name, change in found.items() if not change.is_same}

    (change,) = changes(old, unbounded(2, "ts")).items()
    assert change[0] == "inputState"
    assert (timers := change[1].successor) is not None
    assert (timers.name, timers.columns, timers.replaces) == ("_timer_state/event_user-timers", {"timestamp": "map_key"}, False)
    assert change[1].notes == ("a timer for each time of rows that wait for the watermark",)
    assert changes(old, unbounded(1, "ts")) == {}
    assert changes(unbounded(2, "ts"), old) == {}
    assert changes(unbounded(None, "id"), unbounded(2, "id")) == {}
    with pytest.raises(StateMigrationError, match=r"over-aggregate.\d+. has unboundedOverVersion 3, expected 1 or 2"):
        changes(old, unbounded(3, "ts"))


def over(calls: Sequence[Plan], *, bounded: bool = True, column: bool = False) -> Edit:
    """Return an edit of the calls of an OVER aggregate; its input may get a column ``item``."""

    def change(plan: Plan) -> None:
        aggregate = node(plan, "over-aggregate")
        (group,) = aggregate["overSpec"]["groups"]
        group["aggCalls"] = [*group["aggCalls"], *calls]
        if not bounded:
            group["lowerBound"] = {"kind": "UNBOUNDED_PRECEDING"}
        if column:
            calc, passing = before(plan, "over-aggregate")
            calc["projection"].append({"kind": "CALL", "internalName": "$+$1", "operands": [LITERAL], "type": "BIGINT"})
            for one in (calc, *passing):
                type_ = one["outputType"]
                if isinstance(type_, str):
                    one["outputType"] = f"{type_[:-1]}, `more` BIGINT>"
                else:
                    type_["fields"].append({"name": "more", "fieldType": "BIGINT"})
            group["lowerBound"]["offset"]["inputIndex"] += 1
            plan["nodes"] = plan["nodes"][: plan["nodes"].index(aggregate) + 1]

    return change


def test_calls_and_columns_of_over_go_on() -> None:
    change = changed("over", "over-aggregate", over([call("SUM", 4), call("COUNT", 4)], column=True))
    # count(amount), sum0(amount), number of rows
    new = (NewField(None, BIGINT, None), NewField(None, BIGINT, 0), NewField(None, BIGINT, 0))
    assert change["accState"].rows["value"].fields == (NewField(0), NewField(1), *new, NewField(2))
    assert [f.source for f in change["inputState"].rows["value"].fields] == [0, 1, 2, 3, None]
    with pytest.raises(StateMigrationError, match=r"max\(amount\) is new, but earlier rows may be retracted"):
        changed("over", "over-aggregate", over([call("MAX", 2)]))
    old, new_plan = unbounded(1, "ts"), unbounded(2, "ts")
    over([call("MAX", 2)], bounded=False)(new_plan)
    changes = changes_of(old, new_plan).changes(old_node(old, "over-aggregate"))
    assert changes["accState"].notes == ("max(amount) is new, and starts with the values of an empty group: null",)
    assert changes["inputState"].successor is not None
    old, new_plan = unbounded(2, "id"), unbounded(2, "id")
    over([call("MAX", 2)], bounded=False)(new_plan)
    with pytest.raises(StateMigrationError, match=r"orders rows by other columns than time"):
        changes_of(old, new_plan).changes(old_node(old, "over-aggregate"))
