"""Migration of the state of a query to another query: matching operators of the new plan, and their rows.

Operators match if they do the same with the same rows, by the same keys. Their numbers, names and columns may differ
(:mod:`~state_processor.backends.sql.lineage`). An unknown operator keeps its state unchanged, if its function and its whole input
are equal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from state_processor.backends.sql.accumulator_changes import changed_accumulators, changed_over, changed_windows
from state_processor.backends.sql.kept_row_changes import (
    changed_join,
    changed_materialized,
    changed_ranks,
    changed_row_of_key,
    materializes,
    sink_fields,
)
from state_processor.backends.sql.lineage import WINDOWS, Lineage, Relation, key_columns, windowing
from state_processor.backends.sql.meaning import has_state, sink_row
from state_processor.backends.sql.plan import CompiledPlan, PlanNode, normal_node
from state_processor.backends.sql.row_changes import ChangedNode, RowChange, StateChanges, changed_key, label
from state_processor.serializers.errors import StateMigrationError


class QueryChanges:
    """The changes from one plan to another."""

    def __init__(self, old: CompiledPlan, new: CompiledPlan) -> None:
        self._old, self._new = old, new
        self._before, self._after = Lineage(), Lineage()
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
        return any(candidate.type != node.type or self._has_role(node, candidate) for candidate in self._alike(node))

    def _has_role(self, node: PlanNode, partner: PlanNode) -> bool:
        """Return whether a node of the new plan does the same as a node of the old one, with the same rows."""
        return _role(self._before, node) == _role(self._after, partner) is not None

    def _left(self) -> list[PlanNode]:
        """Return the nodes of the new plan that continue with no state."""
        partner_ids = {node.id for node in self._partners.values()}
        return [node for node in self._new.nodes if node.id not in partner_ids]

    def _alike(self, node: PlanNode) -> list[PlanNode]:
        """Return the nodes of the same kind among them."""
        return [candidate for candidate in self._left() if candidate.kind == node.kind]

    def added(self) -> tuple[PlanNode, ...]:
        """Return the nodes of the new plan that start with empty state."""
        partner_ids = {node.id for node in self._partners.values()}
        return tuple(n for n in self._new.nodes if n.id not in partner_ids and any(map(has_state, n.transformations)))

    def changes(self, node: PlanNode) -> StateChanges:
        """Return the changes of the states of a node, by name. Other states stay unchanged."""
        new = self.partner(node)
        if (
            node.type != new.type and node.kind in _CHANGES and node.kind != "sink"
        ):  # connectors define the state of sources and sinks
            raise StateMigrationError(f"it is {node.type} in the old plan, {new.type} in the new one; its state may differ")
        if node.kind not in _WITH_TTL:
            _check_ttl(node, new)
        find = _CHANGES.get(node.kind)
        return {} if find is None else find(ChangedNode(node, self._before), ChangedNode(new, self._after))

    def key_change(self, node: PlanNode) -> RowChange | None:
        """Return the change of the keys of a node; ``None`` for nodes whose keys are not known."""
        sides = [ChangedNode(node, self._before), ChangedNode(self.partner(node), self._after)]
        if node.kind not in _CHANGES or not (node.kind != "sink" or materializes(node)):
            return None
        if node.kind == "sink":
            if not all(sink_row(side.node) for side in sides):
                return None
            before, after = (replace(side.inputs[0], fields=sink_fields(side)) for side in sides)
        else:
            before, after = (side.inputs[0] for side in sides)
        return changed_key(before, after, before.picked(key_columns(node)[0]))

    def ttl_changes(self, node: PlanNode) -> dict[str, bool]:
        """Return whether states get time-to-live or lose it: by the side of a join, and by an empty name for other operators."""
        before, after = node.has_ttl, self.partner(node).has_ttl
        sides = {0: "left-records", 1: "right-records"} if node.kind == "join" else {0: ""}
        return {name: after[i] for i, name in sides.items() if i in before.keys() & after.keys() and before[i] != after[i]}

    def _pairs(self) -> dict[int, PlanNode]:
        pairs: dict[int, PlanNode] = {}
        left_old, left_new = list(self._old.nodes), list(self._new.nodes)
        for identify in (Lineage.whole, _role):
            before, after = _by(identify, self._before, left_old), _by(identify, self._after, left_new)
            for identity, nodes in before.items():
                new_nodes = after.get(identity, [])
                if len(nodes) == len(new_nodes) and (len(nodes) == 1 or identify is Lineage.whole):
                    pairs |= {old_node.id: new_node for old_node, new_node in zip(nodes, new_nodes, strict=True)}
            paired_ids = {node.id for node in pairs.values()}
            left_old = [node for node in left_old if node.id not in pairs]
            left_new = [node for node in left_new if node.id not in paired_ids]
        return pairs

    def _reason(self, node: PlanNode) -> str:
        """Return the reason why no node of the new plan continues with the state of a node of the old plan."""
        alike = self._alike(node)
        if not alike:
            for unmatched in self._left():
                if (node.kind, unmatched.kind) in _OTHER_SHAPES:
                    return _OTHER_SHAPES[node.kind, unmatched.kind]
            return f"the new query does not have a matching {node.kind}"
        same = [candidate for candidate in alike if self._has_role(node, candidate)]
        if same:
            return f"it is ambiguous: {' or '.join(map(label, same))} of the new plan do the same with the same rows"
        if len(alike) > 1:
            which = " or ".join(map(label, alike))
            return f"{which} of the new plan does something else, or has other input; such state can only be kept unchanged"
        if node.kind not in _CHANGES:
            members = _other_members(node, alike[0])
            change = f"does something else ({members})" if members else "has other input"
            content = _CONTENTS.get(node.kind, "such state can only be kept unchanged")
            return f"{label(alike[0])} of the new plan {change}; {content}"
        return self._difference(ChangedNode(node, self._before), ChangedNode(alike[0], self._after))

    def _difference(self, old: ChangedNode, new: ChangedNode) -> str:
        if old.node.kind == "sink":
            for side in (old, new):
                sink_fields(side)
        if [r.rows for r in old.inputs] != [r.rows for r in new.inputs]:
            return f"{label(new.node)} of the new plan has other input rows: from other tables, or with another condition"
        if _keys(old) == _keys(new):
            members = _other_members(old.node, new.node)
            change = "does something else" if old.node.kind == "sink" else "has other windows, or does something else"
            return f"{label(new.node)} of the new plan {change} ({members})"
        return f"its key is {_key_names(old)} in the old plan, {_key_names(new)} in {label(new.node)} of the new one"


def _keys(side: ChangedNode) -> list[Any]:
    return [relation.picked(columns) for relation, columns in zip(side.inputs, key_columns(side.node), strict=False)]


def _key_names(side: ChangedNode) -> str:
    names: list[str] = []
    for relation, columns in zip(side.inputs, key_columns(side.node), strict=False):
        names += [relation.fields[int(i)].name for i in columns]
    return ", ".join(names) or "nothing"


def _other_members(old: PlanNode, new: PlanNode) -> str:
    """Return the members that differ as text; large members only by name."""
    before, after = normal_node(old), normal_node(new)
    names = [name for name in before | after if before.get(name) != after.get(name)]
    differences = []
    for name in names:
        values = [json.dumps(content[name]) if name in content else "nothing" for content in (before, after)]
        is_short = all(len(value) <= _SHORT for value in values)
        differences.append(f"{name}: {values[0]} in the old plan, {values[1]} in the new one" if is_short else name)
    return "; ".join(differences)


def _by(identify: Callable[[Lineage, PlanNode], Any], lineage: Lineage, nodes: Sequence[PlanNode]) -> dict[Any, list[PlanNode]]:
    nodes_by_identity: dict[Any, list[PlanNode]] = {}
    for node in nodes:
        if (identity := identify(lineage, node)) is not None:
            nodes_by_identity.setdefault(identity, []).append(node)
    return nodes_by_identity


def _role(lineage: Lineage, node: PlanNode) -> tuple[Any, ...] | None:
    """Return the function of a node with state, independent of its columns; ``None`` if columns matter."""
    for path in (("scanTableSource", "table", "identifier"), ("dynamicTableSink", "table", "identifier")):
        if node.at(*path) is not None and not materializes(node):
            return (node.kind, node.at(*path))
    if node.kind not in _CHANGES:
        return None
    if node.kind == "sink":
        return (*_fed(lineage, node), node.at("dynamicTableSink", "table", "identifier"), node.at(_STRATEGY, default="LEGACY"))
    return _fed(lineage, node)


_STRATEGY: Final = "upsertMaterializeStrategy"


def _fed(lineage: Lineage, node: PlanNode) -> tuple[Any, ...]:
    """Return the function of a node with its input rows and keys."""
    inputs = lineage.inputs(node)
    keys = [tuple(relation.picked(key)) for relation, key in zip(inputs, key_columns(node), strict=False)]
    return (node.kind, tuple(relation.rows for relation in inputs), tuple(keys), _windows(node, inputs))


def _windows(node: PlanNode, inputs: Sequence[Relation]) -> str:
    return json.dumps(windowing(node, inputs[0]), sort_keys=True) if node.kind in WINDOWS or node.kind == "over-aggregate" else ""


def _check_ttl(old: PlanNode, new: PlanNode) -> None:
    """Refuse other operators whose state gains or loses time-to-live. Plans before Flink 1.18 do not contain time-to-live."""
    before, after = old.has_ttl, new.has_ttl
    for index in before.keys() & after.keys():
        if before[index] != after[index]:
            words = ["with" if has_ttl else "without" for has_ttl in (before[index], after[index])]
            raise StateMigrationError(f"it has state {words[0]} time-to-live in the old plan, {words[1]} it in the new one")


_SHORT: Final = 40

_CONTENTS: Final = {
    "match": "the state has the rows that the old pattern has matched, which stay matched: it can only be kept unchanged",
}
"""What operators without known changes keep, where a general sentence is not enough."""

_OTHER_SHAPES: Final[Mapping[tuple[str, str], str]] = {
    ("global-group-aggregate", "group-aggregate"): "the new query aggregates in one phase; its accumulators differ",
    ("group-aggregate", "global-group-aggregate"): "the new query aggregates in two phases; their accumulators differ",
    ("join", "multi-join"): (
        "the new query joins all inputs in one operator with other states; compile it with "
        "table.optimizer.multi-join.enabled = false"
    ),
}
"""Reasons why an operator can't continue with the state of an equivalent operator of another kind."""

_CHANGES: Final[Mapping[str, Callable[[ChangedNode, ChangedNode], StateChanges]]] = {
    "group-aggregate": changed_accumulators,
    "global-group-aggregate": changed_accumulators,
    "join": changed_join,
    "deduplicate": changed_row_of_key,
    "changelog-normalize": changed_row_of_key,
    "rank": changed_ranks,
    **dict.fromkeys(WINDOWS, changed_windows),
    "over-aggregate": changed_over,
    "sink": changed_materialized,
}
"""Changes of operators that support other columns or calls."""

_WITH_TTL: Final = frozenset(("group-aggregate", "global-group-aggregate", "join", "deduplicate", "changelog-normalize"))
"""Operators all of whose states get time-to-live, or lose it."""
