"""Compiled plans of the fixtures, and edits of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from state_processor.applications.flink_sql.nodes import PlanNode
from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.applications.flink_sql.query_changes import QueryChanges
from state_processor.applications.flink_sql.state_changes import StateSuccession
from state_processor.serializers.table.logical_types import AtomicType
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


def changed(name: str, kind: str, edit: Edit) -> dict[str, StateSuccession]:
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
