"""Accumulators of calls, and views of distinct values, of a query in the state of another query."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from state_processor.applications.flink_sql.state_changes import NewField, StateSuccession, ViewChange, change_of
from state_processor.errors import StateMigrationError
from state_processor.serializers.table.logical_types import MAP_VIEW
from tests.state_processor.applications.flink_sql.plan_edits import (
    BIGINT,
    LITERAL,
    Plan,
    before,
    call,
    calls,
    changed,
    changes_of,
    node,
    old_node,
    plan_of,
    setting,
)


def test_accumulators_go_on_by_call() -> None:
    def other(given: list[Plan]) -> list[Plan]:
        count, total, mean, low, _ = given
        return [call("COUNT", 2, type_="BIGINT NOT NULL"), mean, total, count, low, call("$SUM0", 1), call("MAX", 1)]

    row = changed("group-aggregate", "group-aggregate", calls(other))["accState"].rows["value"]
    # count(*), sum(amount), avg(amount): sum and count, min(amount), max(item)
    assert row.size == 6
    assert row.fields == (
        NewField(None, BIGINT, 0),
        *(NewField(2), NewField(3), NewField(1), NewField(0), NewField(4)),
        NewField(None, BIGINT, 0),
        NewField(None, BIGINT, None),
    )
    assert row.notes == (
        "count(item) is new, and starts with the values of an empty group: 0",
        "sum0(amount) is new, and starts with the values of an empty group: 0",
        "max(amount) is new, and starts with the values of an empty group: null",
        "the order of calls changes",
        "max(item) is dropped",
    )


def test_arguments_are_known_by_what_computes_them() -> None:
    def swapped(plan: Plan) -> None:
        calc, passing = before(plan, "group-aggregate")
        calc["projection"] = [calc["projection"][i] for i in (2, 0, 1)]
        for one in (calc, *passing):
            one["outputType"] = "ROW<`a` VARCHAR(2147483647), `b` VARCHAR(2147483647), `c` BIGINT>"
        aggregate = node(plan, "group-aggregate")
        aggregate["grouping"] = [1]
        for one in aggregate["aggCalls"]:
            one["argList"] = [{1: 2, 2: 0}[i] for i in one["argList"]]

    change = changed("group-aggregate", "group-aggregate", swapped)["accState"]
    assert change.rows["value"].is_same

    def computed(plan: Plan) -> None:
        calc, _ = before(plan, "group-aggregate")
        plus = {"kind": "CALL", "internalName": "$+$1", "operands": [calc["projection"][1], LITERAL], "type": "BIGINT"}
        calc["projection"] = [calc["projection"][0], plus, calc["projection"][2]]

    with pytest.raises(StateMigrationError, match=r"call sum\(amount\) has another expression in the new plan"):
        changed("group-aggregate", "group-aggregate", computed)

    def renamed(plan: Plan) -> None:
        computed(plan)
        calc, passing = before(plan, "group-aggregate")
        for one in (calc, *passing):
            one["outputType"] = one["outputType"].replace("`amount`", "`more`")

    notes = changed("group-aggregate", "group-aggregate", renamed)["accState"].notes
    assert [n for n in notes if "dropped" in n] == [f"{name}(amount) is dropped" for name in ("sum", "avg", "min")]


def test_the_number_of_rows_that_is_known_is_that_of_a_new_call() -> None:
    change = changed("retracting", "group-aggregate", calls(lambda given: [*given, call("COUNT")], retracts=True))
    row = change["accState"].rows["value"]
    # sum(total) and its count, max(total), number of rows
    assert row.fields == (NewField(0), NewField(1), NewField(2), NewField(3))
    assert row.notes == ("count(*) starts with the operator's row count",)


def test_views_of_distinct_values_stay() -> None:
    row = changed("distinct", "group-aggregate", calls(lambda given: [call("SUM", 3), *given]))["accState"].rows["value"]
    assert row.fields == (NewField(None, BIGINT, None), *(NewField(i) for i in range(row.size)))
    assert row.size == 5


def states_of_calls(name: str, edit: Callable[[list[Plan]], list[Plan]], *, retracts: bool = False) -> dict[str, StateSuccession]:
    found = changed(name, "group-aggregate", calls(edit, retracts=retracts))
    return {state: change for state, change in found.items() if state != "accState" and not change.is_same}


def test_views_of_distinct_values_go_on_by_the_arguments_of_their_calls() -> None:
    # count(distinct item), count(distinct item) filter, sum(distinct amount)
    change = changed("distinct", "group-aggregate", calls(lambda given: [given[2], given[1]]))
    row = change["accState"].rows["value"]
    assert row.fields == tuple(NewField(i) for i in (2, 1, 3, 4))
    assert row.notes == ("the order of calls changes", "count(distinct item) is dropped")
    amounts, items = change["distinctAcc_1"], change["distinctAcc_0"]
    assert (amounts.becomes, amounts.counted) == ("distinctAcc_0", ViewChange(1, (0,), as_bits=True))
    assert (items.becomes, items.counted) == ("distinctAcc_1", ViewChange(2, (1,), as_bits=True))
    assert change["distinctAcc_0_null_state"].becomes == "distinctAcc_1_null_state"
    dropped = states_of_calls("distinct", lambda given: given[:2])
    assert {name for name, one in dropped.items() if one.is_dropped} == {
        *("distinctAcc_1", "distinctAcc_1_null_state"),
        "agg2$",
    }
    added = changed("distinct", "group-aggregate", calls(lambda given: [*given, call("$SUM0", 3, distinct=True)]))
    assert added["distinctAcc_1"].counted == ViewChange(1, (0, None), as_bits=True)
    assert added["accState"].rows["value"].fields[3] == NewField(None, BIGINT, 0)


def test_the_first_view_of_distinct_values_is_a_new_field() -> None:
    more = call("COUNT", 2, distinct=True, type_="BIGINT NOT NULL")
    row = changed("group-aggregate", "group-aggregate", calls(lambda given: [*given, more]))["accState"].rows["value"]
    assert row.fields[-2:] == (NewField(None, BIGINT, 0), NewField(None, MAP_VIEW, b"\0"))


def test_states_of_a_call_have_its_number() -> None:
    found = states_of_calls("retracting", lambda given: given[::-1], retracts=True)
    assert change_of(found, "agg1$map").becomes == "agg0$map"
    assert change_of(found, "agg2$map").is_same
    found = states_of_calls("retracting", lambda given: given[:1], retracts=True)
    assert change_of(found, "agg1$map").is_dropped


def test_distinct_values_that_are_counted_in_another_way_are_refused() -> None:
    old, new = plan_of("distinct"), plan_of("distinct")
    for plan in (old, new):
        calls(lambda given: [given[0], call("COUNT", type_="BIGINT NOT NULL")])(plan)
    setting("group-aggregate", "needRetraction", to=True)(new)
    with pytest.raises(StateMigrationError, match="which values it has counted in the old plan, the number of rows with each"):
        changes_of(old, new).changes(old_node(old, "group-aggregate"))


def test_calls_of_windows_go_on() -> None:
    more = call("COUNT", 1, distinct=True, type_="BIGINT NOT NULL")

    def other(plan: Plan) -> None:
        for kind in ("local-window-aggregate", "global-window-aggregate"):
            one = node(plan, kind)
            one["aggCalls"] = [more, *one["aggCalls"][::-1]]

    change = changed("hopping", "global-window-aggregate", other)["window-aggs"]
    assert change.rows["value"].fields == (NewField(None, BIGINT, 0), NewField(1), NewField(0), NewField(None, MAP_VIEW, b"\0"))
    assert change.notes == (
        "count(distinct amount) is new, and starts with the values of an empty group: 0",
        "the order of calls changes",
    )
    sessions = changed("sessions", "window-aggregate", calls(lambda given: given[1:], "window-aggregate"))
    assert sessions["window-aggs"].notes == ("count(*) is dropped",)
    assert sessions["previous-aggs"].refused


def test_other_windows_are_refused() -> None:
    for name, kind in (("hopping", "local-window-aggregate"), ("sessions", "window-aggregate")):
        old, new = plan_of(name), plan_of(name)
        node(new, kind)["windowing"]["window"] |= {"size": "PT20S", "gap": "PT20S"}
        last = kind.replace("local", "global")
        with pytest.raises(StateMigrationError, match=rf"{last}.\d+. of the new plan has other windows"):
            changes_of(old, new).changes(old_node(old, last))
