"""One description for each operator: all activities ask it, also in another process."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from typing import Any

import pytest

from state_processor.applications.flink_sql.bootstrap import Input, LastRows
from state_processor.applications.flink_sql.nodes import Operator, at_paths
from state_processor.applications.flink_sql.operators import registry
from state_processor.applications.flink_sql.operators.registry import OPERATORS, history_of, operator_of
from state_processor.applications.flink_sql.plan import CompiledPlan, translations
from state_processor.applications.flink_sql.query_changes import QueryChanges
from state_processor.applications.flink_sql.state_changes import StateSuccession
from state_processor.errors import StateMigrationError
from state_processor.support.errors import OptionError
from tests.state_processor.applications.flink_sql.plan_edits import changes_of, node, plan_of, setting


def test_each_kind_of_node_has_one_description() -> None:
    kinds = Counter(kind for operator in OPERATORS for kind in operator.kinds)
    assert [kind for kind, count in kinds.items() if count > 1] == []
    assert all(operator_of(f"stream-exec-{kind}_1") is operator for operator in OPERATORS for kind in operator.kinds)


def test_a_plan_in_another_process_has_the_same_descriptions() -> None:
    plan = CompiledPlan.parse(json.dumps(plan_of("top")))
    copy = pickle.loads(pickle.dumps(plan))
    assert [node.operator for node in copy.nodes] == [node.operator for node in plan.nodes]
    assert [node.row for node in copy.nodes] == [node.row for node in plan.nodes]


def with_new_operator() -> dict[str, Any]:
    """Return a plan with an operator that Flink does not have."""
    plan = plan_of("top")
    node(plan, "rank")["type"] = "stream-exec-first-of-all_1"
    return plan


def test_an_operator_without_a_description_is_only_kept_unchanged() -> None:
    content = with_new_operator()
    plan = CompiledPlan.parse(json.dumps(content))
    (operator,) = {o.label: o for o in plan.operators.values() if o.transformation == "first-of-all"}.values()
    assert operator.key is None
    with pytest.raises(OptionError, match=r"^first-of-all\[\d+\]: it does not have state that can be computed from its input"):
        history_of(operator)
    assert QueryChanges(plan, plan).changes(operator.node) == {}
    other = with_new_operator()
    setting("first-of-all", "rankType", to="RANK")(other)
    with pytest.raises(StateMigrationError, match=r"does something else \(rankType: .*\); such state can only be kept unchanged"):
        changes_of(content, other).changes(operator.node)


def test_a_new_operator_is_one_description(monkeypatch: pytest.MonkeyPatch) -> None:
    described = Operator(
        names=("first",),
        nodes=("first-of-all",),
        keys=at_paths(("partition", "fields")),
        columns=None,
        history=lambda node: LastRows(Input.of(node.left, node.input_row(), node.at("partition", "fields")), has_ttl=False),
        changes=lambda old, new: {"first-rows": StateSuccession(is_dropped=True)},
    )
    monkeypatch.setitem(registry._BY_KIND, "first-of-all", described)
    content = with_new_operator()
    plan = CompiledPlan.parse(json.dumps(content))
    operator = plan.named("first")[0]
    assert operator.key is not None
    history = history_of(operator)
    assert isinstance(history, LastRows)
    assert history.rows.key == tuple(field.name for field in operator.key)
    assert "first" in {o.transformation for o in next(translations(plan)).values()}
    other = with_new_operator()
    setting("first-of-all", "rankType", to="RANK")(other)
    assert changes_of(content, other).changes(operator.node) == {"first-rows": StateSuccession(is_dropped=True)}
