"""Migration of the state of a query to another query: matching operators of the new plan, and their rows.

Operators match if they do the same with the same rows, by the same keys. Their numbers, names and columns may differ
(:mod:`~state_processor.applications.flink_sql.fields`). An unknown operator keeps its state unchanged, if its function and its
whole input are equal.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from state_processor.applications.flink_sql.fields import normal_node
from state_processor.applications.flink_sql.nodes import PlanNode
from state_processor.applications.flink_sql.operators.registry import has_state
from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.applications.flink_sql.state_changes import RowChange, StateChanges, changed_key
from state_processor.errors import StateMigrationError

_SHORT: Final = 40


class QueryChanges:
    """The changes from one plan to another."""

    def __init__(self, old: CompiledPlan, new: CompiledPlan) -> None:
        self._old, self._new = old, new
        self._partners = self._pairs()

    def partner(self, node: PlanNode) -> PlanNode:
        """Return the node of the new plan that continues with the state of a node of the old plan."""
        if node.id not in self._partners:
            raise StateMigrationError(self._reason(node))
        return self._partners[node.id]

    def is_ambiguous(self, node: PlanNode) -> bool:
        """Return whether plans do not show what becomes of a node: several fit, or another version."""
        partner = self._partners.get(node.id)
        if partner is not None:
            return partner.type != node.type
        return any(candidate.type != node.type or node.role == candidate.role is not None for candidate in self._alike(node))

    def _unmatched(self) -> list[PlanNode]:
        """Return the nodes of the new plan that continue with no state."""
        partner_ids = {node.id for node in self._partners.values()}
        return [node for node in self._new.nodes if node.id not in partner_ids]

    def _alike(self, node: PlanNode) -> list[PlanNode]:
        """Return the nodes of the same kind among them."""
        return [candidate for candidate in self._unmatched() if candidate.kind == node.kind]

    def added(self) -> tuple[PlanNode, ...]:
        """Return the nodes of the new plan that start with empty state."""
        return tuple(node for node in self._unmatched() if any(map(has_state, node.transformations)))

    def changes(self, node: PlanNode) -> StateChanges:
        """Return the changes of the states of a node, by name. Other states stay unchanged."""
        new, operator = self.partner(node), node.operator
        if node.type != new.type and operator.changes is not None and operator.has_versions:
            raise StateMigrationError(f"it is {node.type} in the old plan, {new.type} in the new one; its state may differ")
        if not operator.changes_ttl:
            _check_ttl(node, new)
        return {} if operator.changes is None else operator.changes(node, new)

    def key_change(self, node: PlanNode) -> RowChange | None:
        """Return the change of the keys of a node; ``None`` for nodes whose keys are not known."""
        new, operator = self.partner(node), node.operator
        if operator.changes is None:
            return None
        before, after = operator.keyed_rows(node), operator.keyed_rows(new)
        if before is None or after is None:
            return None
        return changed_key(before, after, before.picked(node.key_columns[0]))

    def ttl_changes(self, node: PlanNode) -> dict[str, bool]:
        """Return whether states get time-to-live or lose it: by the side of a join, and by an empty name for other operators."""
        before, after = node.has_ttl, self.partner(node).has_ttl
        common = before.keys() & after.keys()
        return {name: after[i] for i, name in node.operator.ttl_states.items() if i in common and before[i] != after[i]}

    def _pairs(self) -> dict[int, PlanNode]:
        pairs: dict[int, PlanNode] = {}
        left_old, left_new = list(self._old.nodes), list(self._new.nodes)
        for member in ("whole", "role"):
            before, after = _by(member, left_old), _by(member, left_new)
            for identity, nodes in before.items():
                new_nodes = after.get(identity, [])
                if len(nodes) == len(new_nodes) and (len(nodes) == 1 or member == "whole"):
                    pairs |= {old_node.id: new_node for old_node, new_node in zip(nodes, new_nodes, strict=True)}
            paired_ids = {node.id for node in pairs.values()}
            left_old = [node for node in left_old if node.id not in pairs]
            left_new = [node for node in left_new if node.id not in paired_ids]
        return pairs

    def _reason(self, node: PlanNode) -> str:
        """Return the reason why no node of the new plan continues with the state of a node of the old plan."""
        alike = self._alike(node)
        if not alike:
            for unmatched in self._unmatched():
                if unmatched.kind in node.operator.other_shapes:
                    return node.operator.other_shapes[unmatched.kind]
            return f"the new query does not have a matching {node.kind}"
        same = [candidate for candidate in alike if node.role == candidate.role is not None]
        if same:
            return f"it is ambiguous: {_labels(same)} of the new plan do the same with the same rows"
        if len(alike) > 1:
            return (
                f"{_labels(alike)} of the new plan does something else, or has other input; such state can only be kept unchanged"
            )
        if node.operator.changes is None:
            members = _other_members(node, alike[0])
            change = f"does something else ({members})" if members else "has other input"
            return f"{alike[0].label} of the new plan {change}; {node.operator.unchanged}"
        return _difference(node, alike[0])


def _difference(old: PlanNode, new: PlanNode) -> str:
    """Return the reason why a node of the new plan does not do the same as a node of the old one."""
    old.operator.check(old)
    old.operator.check(new)
    if [relation.rows for relation in old.input_relations] != [relation.rows for relation in new.input_relations]:
        return f"{new.label} of the new plan has other input rows: from other tables, or with another condition"
    if _keys(old) == _keys(new):
        return f"{new.label} of the new plan {old.operator.mismatch} ({_other_members(old, new)})"
    return f"its key is {_key_names(old)} in the old plan, {_key_names(new)} in {new.label} of the new one"


def _keys(node: PlanNode) -> list[Any]:
    return [relation.picked(columns) for relation, columns in zip(node.input_relations, node.key_columns, strict=False)]


def _key_names(node: PlanNode) -> str:
    names: list[str] = []
    for relation, columns in zip(node.input_relations, node.key_columns, strict=False):
        names += [relation.fields[i].name for i in columns]
    return ", ".join(names) or "nothing"


def _labels(nodes: Sequence[PlanNode]) -> str:
    return " or ".join(node.label for node in nodes)


def _other_members(old: PlanNode, new: PlanNode) -> str:
    """Return the members that differ as text; large members only by name."""
    before, after = normal_node(old.content), normal_node(new.content)
    names = [name for name in before | after if before.get(name) != after.get(name)]
    differences = []
    for name in names:
        values = [json.dumps(content[name]) if name in content else "nothing" for content in (before, after)]
        is_short = all(len(value) <= _SHORT for value in values)
        differences.append(f"{name}: {values[0]} in the old plan, {values[1]} in the new one" if is_short else name)
    return "; ".join(differences)


def _by(member: str, nodes: Sequence[PlanNode]) -> dict[Any, list[PlanNode]]:
    nodes_by_identity: dict[Any, list[PlanNode]] = {}
    for node in nodes:
        if (identity := getattr(node, member)) is not None:
            nodes_by_identity.setdefault(identity, []).append(node)
    return nodes_by_identity


def _check_ttl(old: PlanNode, new: PlanNode) -> None:
    """Refuse other operators whose state gains or loses time-to-live. Plans before Flink 1.18 do not contain time-to-live."""
    before, after = old.has_ttl, new.has_ttl
    for index in before.keys() & after.keys():
        if before[index] != after[index]:
            words = ["with" if has_ttl else "without" for has_ttl in (before[index], after[index])]
            raise StateMigrationError(f"it has state {words[0]} time-to-live in the old plan, {words[1]} it in the new one")
