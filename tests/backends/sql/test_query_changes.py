"""Tests of :mod:`state_processor.backends.sql.query_changes`: plans of real queries, and the same with changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from state_processor.backends.sql.plan import CompiledPlan, PlanNode
from state_processor.backends.sql.query_changes import QueryChanges
from state_processor.backends.sql.row_changes import NewField, StateChange, ViewChange, change_of
from state_processor.errors import StateMigrationError
from state_processor.serializers.table.logical_types import MAP_VIEW, AtomicType
from tests.archives import unpacked

Plan = dict[str, Any]
Edit = Callable[[Plan], None]
VERSIONS = ("1.20.5", "2.3.0")
BIGINT = AtomicType("BIGINT")


def plan_of(name: str, version: str = VERSIONS[-1]) -> Plan:
    found: Plan = json.loads((unpacked("sql") / version / name / "plan.json").read_text("utf-8"))
    return found


def nodes(plan: Plan, kind: str) -> list[Plan]:
    return [node for node in plan["nodes"] if node["type"].startswith(f"stream-exec-{kind}_")]


def node(plan: Plan, kind: str) -> Plan:
    return nodes(plan, kind)[-1]


def renumber(plan: Plan) -> None:
    """Give nodes other numbers, as another query has them."""
    for one in plan["nodes"]:
        one["id"] += 100
    for edge in plan["edges"]:
        edge["source"] += 100
        edge["target"] += 100


def changes_of(old: Plan, new: Plan) -> QueryChanges:
    renumber(new)
    return QueryChanges(CompiledPlan.parse(json.dumps(old)), CompiledPlan.parse(json.dumps(new)))


def old_node(plan: Plan, kind: str) -> PlanNode:
    parsed = CompiledPlan.parse(json.dumps(plan))
    return next(one for one in reversed(parsed.nodes) if one.kind == kind)


def changed(name: str, kind: str, edit: Edit) -> dict[str, StateChange]:
    """Return the changes of the states of the last operator of a kind, in a query that is edited."""
    old, new = plan_of(name), plan_of(name)
    edit(new)
    return dict(changes_of(old, new).changes(old_node(old, kind)))


def call(function: str, *arguments: int, type_: str = "BIGINT", **more: Any) -> Plan:
    return {
        "internalName": f"${function}$1",
        "argList": list(arguments),
        "filterArg": -1,
        "distinct": False,
        "type": type_,
    } | more


def calls(edit: Callable[[list[Plan]], list[Plan]], kind: str = "group-aggregate", *, retracts: bool = False) -> Edit:
    """Return an edit of the calls of the last aggregate."""

    def change(plan: Plan) -> None:
        aggregate = node(plan, kind)
        aggregate["aggCalls"] = edit(aggregate["aggCalls"])
        aggregate["aggCallNeedRetractions"] = [retracts] * len(aggregate["aggCalls"])

    return change


def setting(kind: str, *path: str, to: Any) -> Edit:
    """Return an edit of a member of the last node of a kind."""

    def change(plan: Plan) -> None:
        found = node(plan, kind)
        for name in path[:-1]:
            found = found[name]
        found[path[-1]] = to

    return change


def retyped(old: str, new: str) -> Edit:
    """Return an edit of the type of a column in all nodes, but not of expressions with it."""

    def change(plan: Plan) -> None:
        for one in plan["nodes"]:
            if isinstance(one.get("outputType"), str):
                one["outputType"] = one["outputType"].replace(old, new)

    return change


def before(plan: Plan, consumer: str, place: int = 0) -> tuple[Plan, list[Plan]]:
    """Return the projection whose rows come to the last node of a kind, and the nodes that pass them on."""
    by_id = {one["id"]: one for one in plan["nodes"]}
    sources = [edge["source"] for edge in plan["edges"] if edge["target"] == node(plan, consumer)["id"]]
    passing = []
    one = by_id[sources[place]]
    while not one["type"].startswith("stream-exec-calc"):
        passing.append(one)
        one = by_id[next(edge["source"] for edge in plan["edges"] if edge["target"] == one["id"])]
    return one, passing


def columns(consumer: str, edit: Callable[[list[Plan]], list[Plan]], row: str | Plan, place: int = 0) -> Edit:
    """Return an edit of the input columns of the last node of a kind; this node becomes the last node of the plan."""

    def change(plan: Plan) -> None:
        last = node(plan, consumer)
        plan["nodes"] = plan["nodes"][: plan["nodes"].index(last) + 1]
        calc, passing = before(plan, consumer, place)
        calc["projection"] = edit(calc["projection"])
        for one in (calc, *passing):
            one["outputType"] = row

    return change


TS = {"kind": "INPUT_REF", "inputIndex": 3, "type": "TIMESTAMP(3)"}
LITERAL = {"kind": "LITERAL", "value": 1, "type": "INT NOT NULL"}
ROW = "ROW<`id` BIGINT, `customer` VARCHAR(2147483647), `amount` BIGINT"


@pytest.mark.parametrize("version", VERSIONS)
def test_states_of_the_same_query_stay_as_they_are(version: str) -> None:
    names = sorted(path.name for path in (unpacked("sql") / version).iterdir())
    assert len(names) >= 20
    for name in names:
        changes = changes_of(plan_of(name, version), plan_of(name, version))
        for one in CompiledPlan.parse(json.dumps(plan_of(name, version))).nodes:
            assert changes.partner(one).id == one.id + 100
            for state in changes.changes(one).values():
                assert state.notes == ()
                assert all(row.is_same for row in state.rows.values())
        assert changes.added() == ()


def test_queries_go_on_in_another_version() -> None:
    names = ("group-aggregate", "distinct", "two-phases", "left-join", "join-by-unique-keys", "first-row", "last-row", "top")
    kinds = ("sink", "table-source-scan", "group-aggregate", "global-group-aggregate", "join", "deduplicate", "rank")
    for name in names:
        old = plan_of(name, "1.20.5")
        changes = changes_of(old, plan_of(name, "2.3.0"))
        for one in CompiledPlan.parse(json.dumps(old)).nodes:
            if one.kind in kinds:
                assert [note for state in changes.changes(one).values() for note in state.notes] == []


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


def states_of_calls(name: str, edit: Callable[[list[Plan]], list[Plan]], *, retracts: bool = False) -> dict[str, StateChange]:
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


REFUSED: dict[str, tuple[str, str, Edit, str]] = {
    "key": (
        "group-aggregate",
        "group-aggregate",
        setting("group-aggregate", "grouping", to=[2]),
        "its key is customer .* item in",
    ),
    "condition": (
        "group-aggregate",
        "group-aggregate",
        lambda plan: before(plan, "group-aggregate")[0].update(condition=LITERAL),
        "group-aggregate.\\d+. of the new plan has other input rows",
    ),
    "result": (
        "group-aggregate",
        "group-aggregate",
        calls(lambda given: [given[0], call("SUM", 1, type_="INT")]),
        r"sum\(amount\) is BIGINT in the old plan, INT in the new one",
    ),
    "type of an argument": (
        "distinct",
        "group-aggregate",
        retyped("`amount` BIGINT", "`amount` INT"),
        r"sum\(distinct amount\): column amount is BIGINT in the old plan, INT in the new one",
    ),
    "type of an argument, not of the result": (
        "group-aggregate",
        "group-aggregate",
        retyped("`amount` BIGINT", "`amount` DECIMAL(12, 2)"),
        r"sum\(amount\): column amount is BIGINT in the old plan, DECIMAL\(12, 2\) in the new one",
    ),
    "new distinct on retracted rows": (
        "retracting",
        "group-aggregate",
        calls(lambda given: [*given, call("COUNT", 1, distinct=True)], retracts=True),
        r"count\(distinct total\) is new, but earlier rows may be retracted",
    ),
    "new function": (
        "group-aggregate",
        "group-aggregate",
        calls(lambda given: [*given, call("LISTAGG", 2, type_="VARCHAR(2147483647)")]),
        r"a new call: listagg\(item\): it depends on the order of rows",
    ),
    "new call on retracted rows": (
        "retracting",
        "group-aggregate",
        calls(lambda given: [*given, call("COUNT", 1)], retracts=True),
        r"count\(total\) is new, but earlier rows may be retracted",
    ),
    "retracted rows": (
        "group-aggregate",
        "group-aggregate",
        calls(lambda given: given, retracts=True),
        r"sum\(amount\): rows are only added in the old plan, and may be retracted in the new one; the accumulators differ",
    ),
    "number of rows": (
        "distinct",
        "group-aggregate",
        setting("group-aggregate", "needRetraction", to=True),
        "the operator needs the row count of each group",
    ),
    "time-to-live": (
        "top",
        "rank",
        setting("rank", "state", to=[{"index": 0, "ttl": "1 s"}]),
        "it has state without time-to-live in the old plan, with it in the new one",
    ),
    "version": (
        "group-aggregate",
        "group-aggregate",
        setting("group-aggregate", "type", to="stream-exec-group-aggregate_9"),
        "stream-exec-group-aggregate_1 in the old plan, stream-exec-group-aggregate_9 in the new one",
    ),
    "type of a join": (
        "left-join",
        "join",
        setting("join", "joinSpec", "joinType", to="INNER"),
        r"the type of join.\d+. .*differs",
    ),
    "condition of an outer join": (
        "left-join",
        "join",
        setting("join", "joinSpec", "nonEquiCondition", to=LITERAL),
        r"the condition of join.\d+. of the new plan differs",
    ),
    "unique keys": (
        "inner-join",
        "join",
        setting("join", "leftUpsertKeys", to=[[0]]),
        "left rows are kept with the number of their copies in the old plan, by id in the new one; the layouts differ",
    ),
    "new column without nulls": (
        "inner-join",
        "join",
        columns("join", lambda given: [*given, LITERAL], f"{ROW}, `one` INT NOT NULL>"),
        "column one is new and NOT NULL",
    ),
    "type of a column": (
        "inner-join",
        "join",
        columns("join", lambda given: given, ROW.replace("`amount` BIGINT", "`amount` INT") + ">"),
        "column amount is BIGINT in the old plan, INT in the new one",
    ),
    "another column of the same name": (
        "inner-join",
        "join",
        columns("join", lambda given: [*given[:2], {"kind": "CALL", "operands": [given[2]]}], f"{ROW}>"),
        "column amount has another expression in the new plan",
    ),
    "order of ranks": (
        "top",
        "rank",
        setting("rank", "orderBy", "fields", to=[{"index": 2, "isAscending": True, "nullIsLast": False}]),
        r"the order or the ranks of rank.\d+. of the new plan differs",
    ),
    "more ranks": (
        "top",
        "rank",
        setting("rank", "rankRange", to={"type": "Constant", "start": 1, "end": 3}),
        r"the order or the ranks of rank.\d+. of the new plan differs",
    ),
    "strategy": (
        "top",
        "rank",
        setting("rank", "rankStrategy", to={"type": "Retract"}),
        "the strategy .the known unique keys",
    ),
    "which row": ("last-row", "deduplicate", setting("deduplicate", "keepLastRow", to=False), "the kept row of"),
    "an operator that can only be kept unchanged": (
        "interval-join",
        "interval-join",
        lambda plan: before(plan, "interval-join")[0].update(condition=LITERAL),
        r"interval-join.\d+. of the new plan has other input; such state can only be kept unchanged",
    ),
    "the input of an OVER aggregate": (
        "over",
        "over-aggregate",
        lambda plan: before(plan, "over-aggregate")[0].update(condition=LITERAL),
        r"over-aggregate.\d+. of the new plan has other input rows: from other tables, or with another condition",
    ),
    "a sink that keeps its rows in other states": (
        "materialized",
        "sink",
        setting("sink", "upsertMaterializeStrategy", to="MAP"),
        r'does something else \(upsertMaterializeStrategy: nothing in the old plan, "MAP" in the new one\)',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_kept_is_refused_by_name(case: str) -> None:
    name, kind, edit, message = REFUSED[case]
    with pytest.raises(StateMigrationError, match=message):
        changed(name, kind, edit)


def test_fields_of_rows_are_not_columns_with_their_name() -> None:
    """A source that reads the field ``b`` of the column ``a`` calls it ``a_b``."""

    def reading(path: list[int]) -> Edit:
        def change(plan: Plan) -> None:
            scan, aggregate = plan["nodes"][0], node(plan, "group-aggregate")
            columns = [{"name": name, "dataType": "BIGINT"} for name in ("k", "a", "a_b")]
            row = "ROW<`k` BIGINT, `a_b` BIGINT>"
            scan["scanTableSource"]["table"]["resolvedTable"] = {"schema": {"columns": columns}}
            ability = {"type": "ProjectPushDown", "projectedFields": [[0], path], "producedType": row}
            scan |= {"scanTableSource": scan["scanTableSource"] | {"abilities": [ability]}, "outputType": row}
            aggregate |= {"grouping": [0], "aggCalls": [call("SUM", 1)], "aggCallNeedRetractions": [False]}
            plan |= {"nodes": [scan, aggregate], "edges": [{"source": scan["id"], "target": aggregate["id"]}]}

        return change

    old = plan_of("group-aggregate")
    reading([1, 0])(old)
    for path in ([1, 0], [2], [1, 1]):
        new = plan_of("group-aggregate")
        reading(path)(new)
        changes = changes_of(old, new)
        if path == [1, 0]:
            assert changes.changes(old_node(old, "group-aggregate"))["accState"].notes == ()
        else:
            with pytest.raises(StateMigrationError, match=r"call sum\(a_b\) has another expression"):
                changes.changes(old_node(old, "group-aggregate"))


def test_other_operators_are_refused_by_name() -> None:
    one, two = plan_of("distinct"), plan_of("two-phases")
    with pytest.raises(StateMigrationError, match="the new query aggregates in two phases; their accumulators differ"):
        changes_of(one, plan_of("two-phases")).changes(old_node(one, "group-aggregate"))
    with pytest.raises(StateMigrationError, match="the new query aggregates in one phase"):
        changes_of(two, plan_of("distinct")).changes(old_node(two, "global-group-aggregate"))
    changes = changes_of(one, plan_of("top"))
    with pytest.raises(StateMigrationError, match="the new query does not have a matching"):
        changes.changes(old_node(one, "group-aggregate"))
    assert [added.kind for added in changes.added()] == ["rank"]


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


OTHER_STATE: Final = frozenset({"materialized-by-number", "multi-join"})
"""Queries whose operators have other states in 2.3."""


@pytest.mark.parametrize("name", sorted({p.name for p in (unpacked("sql") / "1.20.5").iterdir() if p.is_dir()} - OTHER_STATE))
def test_state_goes_on_in_the_plan_that_another_version_compiles(name: str) -> None:
    old, new = plan_of(name, "1.20.5"), plan_of(name, "2.3.0")
    found = changes_of(old, new)
    for one in CompiledPlan.parse(json.dumps(old)).nodes:
        partner = (
            found.partner(one) if one.type.removeprefix("stream-exec-").startswith(("sink", "match", "over", "window-")) else None
        )
        assert partner is None or partner.kind == one.kind
        assert all(replace(change, successor=None).is_same for change in found.changes(one).values())


def test_what_a_plan_leaves_out_and_how_it_calls_things_decides_nothing() -> None:
    old, new = plan_of("over"), plan_of("over")
    over = node(new, "over-aggregate")
    for call_ in over["overSpec"]["groups"][0]["aggCalls"]:
        call_["name"] = "another"
    over["overSpec"]["nothing"] = []
    over["unboundedOverVersion"] = 1  # which this one, bounded, does not have
    assert changes_of(old, new).partner(old_node(old, "over-aggregate")).kind == "over-aggregate"
    over["overSpec"]["groups"][0]["isRows"] = True
    with pytest.raises(
        StateMigrationError, match=r"over-aggregate.\d+. of the new plan has other windows, or does something else .overSpec."
    ):
        changes_of(old, new).partner(old_node(old, "over-aggregate"))
    old, new = plan_of("materialized"), plan_of("materialized")
    setting("sink", "upsertMaterializeStrategy", to="LEGACY")(new)  # the default
    assert changes_of(old, new).partner(old_node(old, "sink")).kind == "sink"


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

    def changes(one: Plan, other: Plan) -> dict[str, StateChange]:
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


def test_other_shapes_are_refused_with_the_setting_that_keeps_them() -> None:
    old = plan_of("left-join")
    new = plan_of("multi-join")
    with pytest.raises(StateMigrationError, match=r"compile it with table.optimizer.multi-join.enabled = false"):
        changes_of(old, new).partner(old_node(old, "join"))


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
    def changes(old: Plan, new: Plan) -> dict[str, StateChange]:
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
