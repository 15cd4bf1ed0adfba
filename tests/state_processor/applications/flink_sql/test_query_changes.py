"""Tests of :mod:`state_processor.applications.flink_sql.query_changes`: plans of real queries, and the same with changes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

import pytest

from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.errors import StateMigrationError
from state_processor.serializers.table.type_descriptors import parse_logical_type
from tests.archives import unpacked
from tests.state_processor.applications.flink_sql.plan_edits import (
    LITERAL,
    ROW,
    VERSIONS,
    Edit,
    Plan,
    before,
    call,
    calls,
    changed,
    changes_of,
    columns,
    node,
    old_node,
    plan_of,
    retyped,
    setting,
)


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
    "the condition of a pattern": (
        "match",
        "match",
        setting("match", "matchSpec", to={}),
        r"match.\d+. of the new plan does something else .matchSpec.; the state has the rows that the old pattern has matched",
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


def test_other_shapes_are_refused_with_the_setting_that_keeps_them() -> None:
    old = plan_of("left-join")
    new = plan_of("multi-join")
    with pytest.raises(StateMigrationError, match=r"compile it with table.optimizer.multi-join.enabled = false"):
        changes_of(old, new).partner(old_node(old, "join"))


def test_keys_get_longer_types_with_the_same_bytes() -> None:
    """A key column gets another type if all values have the same bytes, so that keys stay in their key groups."""
    for old, new, becomes in (
        ("VARCHAR(10) NOT NULL", "VARCHAR(20)", "VARCHAR(20)"),
        ("VARBINARY(10)", "VARBINARY(20)", "VARBINARY(20)"),
        ("DECIMAL(10, 2) NOT NULL", "DECIMAL(18, 2)", "DECIMAL(18, 2)"),
        ("INT NOT NULL", "INT", "INT"),
        ("VARCHAR(20)", "VARCHAR(10)", None),
        ("INT", "INT NOT NULL", None),
        ("CHAR(10)", "CHAR(20)", None),
        ("CHAR(10)", "VARCHAR(10)", None),
        ("DECIMAL(10, 2)", "DECIMAL(19, 2)", None),
        ("DECIMAL(10, 2)", "DECIMAL(10, 3)", None),
        ("INT", "BIGINT", None),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", None),
    ):
        before, after = plan_of("group-aggregate"), plan_of("group-aggregate")
        for plan, type_ in ((before, old), (after, new)):
            retyped("`customer` VARCHAR(2147483647)", f"`customer` {type_}")(plan)
        changes = changes_of(before, after)
        if becomes is None:
            with pytest.raises(StateMigrationError, match="column customer identifies kept rows"):
                changes.key_change(old_node(before, "group-aggregate"))
            continue
        change = changes.key_change(old_node(before, "group-aggregate"))
        assert change is not None
        assert [str(field.type) for field in change.fields] == [becomes]
        assert change.notes == (f"the key column customer was {parse_logical_type(old)}, and becomes {becomes}",)
