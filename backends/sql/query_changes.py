"""Changes of the state of a query for another one: which operator of the new plan goes on with it, and its rows there.

Operators go together if they do the same with the same rows, by the same keys: their numbers, names and columns may differ
(:mod:`~state_processor.backends.sql.lineage`). An operator that is not known here keeps its state as it is, if all that it does
and all of its input is the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from state_processor.backends.sql.accumulator_changes import changed_accumulators
from state_processor.backends.sql.kept_row_changes import changed_join, changed_ranks, changed_row_of_key
from state_processor.backends.sql.lineage import Lineage, key_columns
from state_processor.backends.sql.meaning import has_state
from state_processor.backends.sql.normal_form import normal_node
from state_processor.backends.sql.over_changes import changed_over
from state_processor.backends.sql.plan import CompiledPlan, PlanNode
from state_processor.backends.sql.row_changes import ChangedNode, StateChanges, label
from state_processor.serializers.errors import StateMigrationError


class QueryChanges:
    """The changes from one plan to another.

    Parameters
    ----------
    old, new
        The plans.
    """

    def __init__(self, old: CompiledPlan, new: CompiledPlan) -> None:
        self._old, self._new = old, new
        self._before, self._after = Lineage(), Lineage()
        self._partners = self._pairs()

    def partner(self, node: PlanNode) -> PlanNode:
        """Return the node of the new plan that goes on with the state of a node of the old one.

        Raises
        ------
        StateMigrationError
            If there is none; the message has the reason.
        """
        if node.id not in self._partners:
            raise StateMigrationError(self._reason(node))
        return self._partners[node.id]

    def added(self) -> tuple[PlanNode, ...]:
        """Return the nodes of the new plan with state that start without any."""
        known = {node.id for node in self._partners.values()}
        return tuple(n for n in self._new.nodes if n.id not in known and any(map(has_state, n.transformations)))

    def changes(self, node: PlanNode) -> StateChanges:
        """Return the changes of the states of a node, by name; others stay as they are.

        Raises
        ------
        StateMigrationError
            If they can't be kept; the message has the reason.
        """
        new = self.partner(node)
        if node.type != new.type and node.kind in _CHANGES:  # that of sources and sinks is their connector's
            raise StateMigrationError(f"it is {node.type} in the old plan, {new.type} in the new one, whose state may be other")
        _check_ttl(node, new)
        find = _CHANGES.get(node.kind) or _LAYOUTS.get(node.kind)
        return {} if find is None else find(ChangedNode(node, self._before), ChangedNode(new, self._after))

    def _pairs(self) -> dict[int, PlanNode]:
        found: dict[int, PlanNode] = {}
        left_old, left_new = list(self._old.nodes), list(self._new.nodes)
        for identify in (Lineage.whole, _role):
            before, after = _by(identify, self._before, left_old), _by(identify, self._after, left_new)
            for identity, nodes in before.items():
                others = after.get(identity, [])
                if len(nodes) == len(others) and (len(nodes) == 1 or identify is Lineage.whole):
                    found |= {one.id: other for one, other in zip(nodes, others, strict=True)}
            taken = {node.id for node in found.values()}
            left_old = [node for node in left_old if node.id not in found]
            left_new = [node for node in left_new if node.id not in taken]
        return found

    def _reason(self, node: PlanNode) -> str:
        """Return why no node of the new plan goes on with the state of one of the old plan."""
        taken = {other.id for other in self._partners.values()}
        others = [other for other in self._new.nodes if other.id not in taken]
        alike = [other for other in others if other.kind == node.kind]
        if not alike:
            for other in others:
                if (node.kind, other.kind) in _OTHER_SHAPES:
                    return _OTHER_SHAPES[node.kind, other.kind]
            return f"the new query has no such operator (no {node.kind} that is left)"
        same = [other for other in alike if _role(self._before, node) == _role(self._after, other) is not None]
        if same:
            return f"it could be {' or '.join(map(label, same))} of the new plan, which do the same with the same rows"
        if len(alike) > 1:
            which = " or ".join(map(label, alike))
            return f"{which} of the new plan does something else, or has other input; such state is only kept as it is"
        if node.kind not in _CHANGES:
            members = _other_members(node, alike[0])
            what = f"does something else ({members})" if members else "has other input"
            return f"{label(alike[0])} of the new plan {what}; such state is only kept as it is"
        return self._difference(ChangedNode(node, self._before), ChangedNode(alike[0], self._after))

    def _difference(self, old: ChangedNode, new: ChangedNode) -> str:
        if [r.rows for r in old.inputs] != [r.rows for r in new.inputs]:
            return f"the rows that come to {label(new.node)} of the new plan are others: of other tables, or by another condition"
        before, after = key_columns(old.node), key_columns(new.node)
        shown = [
            ", ".join(given.fields[int(i)].name for given, keys in zip(inputs, indices, strict=False) for i in keys) or "nothing"
            for inputs, indices in ((old.inputs, before), (new.inputs, after))
        ]
        return f"its key is {shown[0]} in the old plan, {shown[1]} in {label(new.node)} of the new one"


def _other_members(old: PlanNode, new: PlanNode) -> str:
    """Return the members of nodes that differ, as text; those with much in them only by name."""
    before, after = normal_node(old), normal_node(new)
    names = [name for name in before | after if before.get(name) != after.get(name)]
    shown = []
    for name in names:
        values = [json.dumps(one[name]) if name in one else "nothing" for one in (before, after)]
        is_short = all(len(value) <= _SHORT for value in values)
        shown.append(f"{name}: {values[0]} in the old plan, {values[1]} in the new one" if is_short else name)
    return "; ".join(shown)


def _by(identify: Callable[[Lineage, PlanNode], Any], lineage: Lineage, nodes: Sequence[PlanNode]) -> dict[Any, list[PlanNode]]:
    found: dict[Any, list[PlanNode]] = {}
    for node in nodes:
        if (identity := identify(lineage, node)) is not None:
            found.setdefault(identity, []).append(node)
    return found


def _role(lineage: Lineage, node: PlanNode) -> tuple[Any, ...] | None:
    """Return what a node with state does, whatever the columns of its rows; ``None`` if they matter."""
    for path in (("scanTableSource", "table", "identifier"), ("dynamicTableSink", "table", "identifier")):
        if node.at(*path) is not None and not _materializes(node):
            return (node.kind, node.at(*path))
    if node.kind not in _CHANGES:
        return None
    inputs = lineage.inputs(node)
    keys = [tuple(given.picked(key)) for given, key in zip(inputs, key_columns(node), strict=False)]
    return (node.kind, tuple(given.rows for given in inputs), tuple(keys))


def _materializes(node: PlanNode) -> bool:
    return bool(node.at("requireUpsertMaterialize"))


def _check_ttl(old: PlanNode, new: PlanNode) -> None:
    """Refuse state that gets or loses time-to-live; plans before Flink 1.18 do not say it."""
    before, after = old.has_ttl, new.has_ttl
    for index in before.keys() & after.keys():
        if before[index] != after[index]:
            words = ["has" if given else "has no" for given in (before[index], after[index])]
            raise StateMigrationError(f"its state {words[0]} time-to-live in the old plan, and {words[1]} in the new one")


_SHORT: Final = 40

_OTHER_SHAPES: Final[Mapping[tuple[str, str], str]] = {
    ("global-group-aggregate", "group-aggregate"): "the new query aggregates in one phase, whose accumulators are others",
    ("group-aggregate", "global-group-aggregate"): "the new query aggregates in two phases, whose accumulators are others",
    ("join", "multi-join"): (
        "the new query joins all inputs in one operator, whose states are others; compile it with "
        "table.optimizer.multi-join.enabled = false"
    ),
}
"""Why an operator does not go on with the state of another kind that does the same."""

_CHANGES: Final[Mapping[str, Callable[[ChangedNode, ChangedNode], StateChanges]]] = {
    "group-aggregate": changed_accumulators,
    "global-group-aggregate": changed_accumulators,
    "join": changed_join,
    "deduplicate": changed_row_of_key,
    "changelog-normalize": changed_row_of_key,
    "rank": changed_ranks,
}
"""Of operators that go on with other columns or calls."""

_LAYOUTS: Final[Mapping[str, Callable[[ChangedNode, ChangedNode], StateChanges]]] = {"over-aggregate": changed_over}
"""Of operators that do the same with the same input, in states of another layout."""
