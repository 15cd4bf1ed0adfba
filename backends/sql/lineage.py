"""Identities of the rows and columns of a plan. They are equal in two plans if the meaning is equal, regardless of positions.

The identity of a column is the expression that computes it from columns of tables. So ``$f2`` of two plans is the same column if
it has the same expression. The identity of rows does not contain columns: rows of a table, rows that a condition selects, groups
by some columns. Rows and columns of unknown nodes are equal only if their whole input is equal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from state_processor.backends.sql.calls import AggregateCall
from state_processor.backends.sql.meaning import primary_key
from state_processor.backends.sql.node_calls import group_calls, over_calls_of
from state_processor.backends.sql.plan import PlanFields, PlanNode, distinct_names, normal_form, normal_node, row_fields
from state_processor.serializers.errors import OptionError
from state_processor.serializers.table.logical_types import TimestampType

Identity = str


@dataclass(frozen=True)
class Relation:
    """Output rows of a node: their identity, and their columns. ``fields`` has the names and types of the columns.

    ``updates`` is true if rows are known to be retracted. A plan does not contain this for rows of a table.
    """

    rows: Identity
    columns: tuple[Identity, ...]
    fields: PlanFields
    updates: bool = False

    def named(self, name: Any) -> Identity | None:
        """Return the column with a name."""
        return next((column for column, field in zip(self.columns, self.fields, strict=True) if field.name == name), None)

    def picked(self, indices: Iterable[Any] | None) -> list[Identity]:
        """Return some columns."""
        return [self.columns[int(i)] for i in indices or ()]


class Lineage:
    """The relations of the nodes of a plan."""

    def __init__(self) -> None:
        self._known: dict[int, Relation] = {}

    def of(self, node: PlanNode) -> Relation:
        """Return the output of a node."""
        if node.id not in self._known:
            inputs = tuple(map(self.of, node.inputs))
            if (local := first_phase(node)) is not None:
                inputs = (self.of(local.inputs[0]),)
            try:
                self._known[node.id] = _RELATIONS.get(node.kind, _unknown)(node, inputs)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise OptionError(f"plan: node {node.id} ({node.type}) does not match its inputs: {error!r}") from None
        return self._known[node.id]

    def inputs(self, node: PlanNode) -> tuple[Relation, ...]:
        """Return the inputs of a node. An aggregate in two phases has the inputs of the first phase."""
        local = first_phase(node)
        return tuple(map(self.of, (node if local is None else local).inputs))

    def whole(self, node: PlanNode) -> Identity:
        """Return an identity of everything that a node does, and of its whole input."""
        return _unknown(node, tuple(map(self.of, node.inputs))).rows


def first_phase(node: PlanNode) -> PlanNode | None:
    """Return the first phase of an aggregate from the node of its second phase."""
    kind = _FIRST_PHASES.get(node.kind)
    if kind is None or not node.inputs:
        return None
    local = node.inputs[0]
    while local.kind in _PASSING and local.inputs:
        local = local.inputs[0]
    return local if local.kind == kind and local.inputs else None


_FIRST_PHASES: Final = {
    "global-group-aggregate": "local-group-aggregate",
    "global-window-aggregate": "local-window-aggregate",
}

WINDOWS: Final = frozenset(("window-aggregate", "global-window-aggregate", "group-window-aggregate"))
"""Aggregates by windows."""


def identified_calls(node: PlanNode, relation: Relation) -> list[AggregateCall]:
    """Return the calls of an aggregate with the identities of columns instead of names."""
    by_name = dict(zip((f.name for f in distinct_names(relation.fields)), relation.columns, strict=True))

    def identified(name: str) -> Identity:
        return by_name.get(name) or _identity("column of an unknown input", name, relation.rows, relation.columns)

    return [
        replace(
            call,
            arguments=tuple(map(identified, call.arguments)),
            filter=None if call.filter is None else identified(call.filter),
        )
        for call in group_calls(node)
    ]


def key_columns(node: PlanNode) -> list[list[int]]:
    """Return the key columns of an operator for each input; empty for unknown operators."""
    paths = {
        "join": (("joinSpec", "leftKeys"), ("joinSpec", "rightKeys")),
        "deduplicate": (("uniqueKeys",),),
        "changelog-normalize": (("uniqueKeys",),),
        "rank": (("partition", "fields"),),
        "over-aggregate": (("overSpec", "partition", "fields"),),
    }
    if node.kind in ("group-aggregate", "global-group-aggregate") or node.kind in WINDOWS:
        return [grouping(node)]
    if node.kind == "sink":
        return [primary_key(node)]
    return [list(map(int, node.at(*path, default=()))) for path in paths.get(node.kind, ())]


def grouping(node: PlanNode) -> list[int]:
    """Return the grouping columns of an aggregate."""
    return list((first_phase(node) or node).at("grouping", default=()))


def windowing(node: PlanNode, relation: Relation) -> Any:
    """Return the windows of an aggregate, or of ``OVER``, with the identities of columns instead of numbers."""
    if node.kind == "over-aggregate":
        columns = over_columns(node, relation)
        groups = [{**group, "aggCalls": []} for group in node.at("overSpec", "groups", default=())]
        return [_window_columns(resolved(group, columns), columns) for group in groups]
    if node.kind not in WINDOWS:
        return None
    first = first_phase(node) or node
    if (
        field := first.at("window", "timeField")
    ) is not None:  # by name, because its number counts the columns of an earlier input
        window = {**first.at("window"), "timeField": relation.named(field.get("fieldName")), "alias": None}
        return normal_form(window)
    return _window_columns(normal_form(first.at("windowing")), relation.columns)


def over_columns(node: PlanNode, relation: Relation) -> tuple[Identity, ...]:
    """Return the columns that calls of an ``OVER`` aggregate refer to by number: columns of the input, then constants."""
    constants = node.at("overSpec", "constants", default=())
    return (*relation.columns, *(_identity("constant", normal_form(constant)) for constant in constants))


_COLUMNS_OF_WINDOWS: Final = frozenset(
    ("timeAttributeIndex", "windowStart", "windowEnd", "sliceEnd", "index", "partition_key_indices")
)


def _window_columns(part: Any, columns: Sequence[Identity]) -> Any:
    if isinstance(part, list):
        return [_window_columns(element, columns) for element in part]
    if not isinstance(part, Mapping):
        return part
    return {
        name: _columns_at(member, columns) if name in _COLUMNS_OF_WINDOWS else _window_columns(member, columns)
        for name, member in part.items()
    }


def _columns_at(numbers: Any, columns: Sequence[Identity]) -> Any:
    if isinstance(numbers, list):
        return [_columns_at(element, columns) for element in numbers]
    return columns[numbers] if isinstance(numbers, int) and 0 <= numbers < len(columns) else numbers


def resolved(part: Any, columns: Sequence[Identity]) -> Any:
    """Return the normal form of an expression with the identities of columns instead of references."""
    return _resolved(normal_form(part), columns)


def _resolved(part: Any, columns: Sequence[Identity]) -> Any:
    if isinstance(part, Mapping):
        if part.get("kind") == "INPUT_REF":
            return {"column": columns[int(part["inputIndex"])]}
        return {name: _resolved(member, columns) for name, member in part.items()}
    return [_resolved(element, columns) for element in part] if isinstance(part, list) else part


def _identity(*parts: Any) -> Identity:
    return hashlib.sha1(json.dumps(parts, sort_keys=True).encode(), usedforsecurity=False).hexdigest()


_Inputs = tuple[Relation, ...]


def _unknown(node: PlanNode, inputs: _Inputs) -> Relation:
    content = normal_node(node)
    inputs_of_node = [(relation.rows, relation.columns, [str(f.type) for f in relation.fields]) for relation in inputs]
    rows = _identity(content, inputs_of_node)
    fields = node.output if node.at("outputType") is not None else ()
    updates = any(relation.updates for relation in inputs)
    return Relation(rows, tuple(_identity(rows, i) for i in range(len(fields))), fields, updates)


def _passed(node: PlanNode, inputs: _Inputs) -> Relation:
    return replace(inputs[0], fields=node.output)


_NO_ROWS: Final = frozenset({"ProjectPushDown", "ReadingMetadata", "WatermarkPushDown", "SourceWatermark"})
"""Abilities of sources that do not select rows."""


def _source(node: PlanNode, inputs: _Inputs) -> Relation:
    table = node.at("scanTableSource", "table", "identifier")
    if table is None:
        return _unknown(node, inputs)
    schema = node.at("scanTableSource", "table", "resolvedTable", "schema", "columns", default=())
    names = [str(column.get("name")) for column in schema]
    stored = [str(column.get("name")) for column in schema if column.get("kind") != "COMPUTED"]
    inner: dict[str, tuple[Any, ...]] = {}
    conditions: list[Any] = []
    for ability in node.at("scanTableSource", "abilities", default=()):
        if ability.get("type") not in _NO_ROWS:
            content = {name: part for name, part in ability.items() if name != "producedType"}
            conditions.append(resolved(content, names) if names else node.at("scanTableSource"))
        if ability.get("type") == "ProjectPushDown":
            names = [f.name for f in row_fields(ability.get("producedType"))]
            inner = _inner_fields(names, ability.get("projectedFields", ()), stored)
    columns = tuple(_identity("column", table, *inner.get(f.name, (f.name,))) for f in node.output)
    return Relation(_identity("table", table, conditions), columns, node.output)


def _inner_fields(names: Sequence[str], paths: Sequence[Sequence[int]], stored: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return the positions of fields of rows that a source reads as columns, by name: a column may have the same name."""
    return {name: (stored[path[0]], *path[1:]) for name, path in zip(names, paths, strict=False) if len(path) > 1}


def _calc(node: PlanNode, inputs: _Inputs) -> Relation:
    (relation,) = inputs
    condition, projection = node.at("condition"), node.at("projection")
    rows = relation.rows if condition is None else _identity("where", relation.rows, resolved(condition, relation.columns))
    if projection is None:
        return Relation(rows, relation.columns, node.output, relation.updates)
    computed = [resolved(expression, relation.columns) for expression in projection]
    columns = tuple(
        expression["column"] if expression.keys() == {"column"} else _identity("computed", expression) for expression in computed
    )
    return Relation(rows, columns, node.output, relation.updates)


def _union(node: PlanNode, inputs: _Inputs) -> Relation:
    columns_of_inputs = [source.columns for source in inputs]
    columns = tuple(_identity("union", of) for of in zip(*columns_of_inputs, strict=True))
    rows = _identity("union", [source.rows for source in inputs])
    return Relation(rows, columns, node.output, any(source.updates for source in inputs))


def join_columns(left: Relation, right: Relation) -> tuple[Identity, ...]:
    """Return the columns in the condition of a join."""
    return (*(_identity("left", c) for c in left.columns), *(_identity("right", c) for c in right.columns))


def _join(node: PlanNode, inputs: _Inputs) -> Relation:
    left, right = inputs
    spec = dict(node.at("joinSpec", default={}))
    columns = join_columns(left, right)
    keys = left.picked(spec.pop("leftKeys", ())), right.picked(spec.pop("rightKeys", ()))
    rows = _identity("join", left.rows, right.rows, keys, resolved(spec, columns))
    updates = left.updates or right.updates or node.at("joinSpec", "joinType") != "INNER"
    return Relation(rows, columns[: len(node.output)], node.output, updates)


def _groups(node: PlanNode, inputs: _Inputs) -> Relation:
    (relation,) = inputs
    keys = relation.picked(grouping(node))
    rows = _identity("groups", relation.rows, keys)
    calls = [
        _identity("call", c.function, c.arguments, c.distinct, c.filter, str(c.type)) for c in identified_calls(node, relation)
    ]
    return Relation(rows, (*keys, *calls), node.output, updates=True)


def _windows(node: PlanNode, inputs: _Inputs) -> Relation:
    """Return the groups of windows: grouping columns, results of calls, properties of windows."""
    if node.kind == "global-window-aggregate" and first_phase(node) is None:
        return _unknown(node, inputs)
    (relation,) = inputs
    groups = _groups(node, inputs)
    rows = _identity("windows", groups.rows, windowing(node, relation))
    properties = [property_.get("property", {}).get("kind") for property_ in node.at("namedWindowProperties", default=())]
    columns = (*groups.columns, *(_identity("property", rows, kind) for kind in properties))
    emits = [str(value) for name, value in node.at("configuration", default={}).items() if name.startswith("table.exec.emit.")]
    return replace(groups, rows=rows, columns=columns, updates=relation.updates or "true" in emits)


def _over(node: PlanNode, inputs: _Inputs) -> Relation:
    (relation,) = inputs
    window = [relation.picked(key_columns(node)[0]), windowing(node, relation)]
    calls = [
        _identity("over", window, c.function, c.arguments, c.distinct, c.filter, str(c.type))
        for c in over_calls_of(node, over_columns(node, relation))
    ]
    return Relation(_identity("over", relation.rows, window), (*relation.columns, *calls), node.output, relation.updates)


def _partial(node: PlanNode, inputs: _Inputs) -> Relation:
    return replace(_unknown(node, inputs), rows=inputs[0].rows)


def order(node: PlanNode, relation: Relation) -> list[Any]:
    """Return the columns of a rank's order, with directions."""
    fields = node.at("orderBy", "fields", default=())
    return [{**f, "index": relation.columns[int(f["index"])]} for f in fields]


def _rank(node: PlanNode, inputs: _Inputs) -> Relation:
    (relation,) = inputs
    partition = relation.picked(node.at("partition", "fields"))
    spec = [order(node, relation), node.at("rankType"), rank_range(node, relation)]
    rows = _identity("rank", relation.rows, partition, spec)
    rank_numbers = [_identity("number", rows, i) for i in range(len(node.output) - len(relation.columns))]
    return Relation(rows, (*relation.columns, *rank_numbers), node.output, updates=True)


def rank_range(node: PlanNode, relation: Relation) -> Any:
    """Return the ranks that a node emits."""
    ranks = dict(node.at("rankRange", default={}))
    if "endIndex" in ranks:
        ranks["endIndex"] = relation.columns[int(ranks["endIndex"])]
    return ranks


def time_column(relation: Relation) -> Identity | None:
    """Return the event time column."""
    is_time = [isinstance(f.type, TimestampType) and f.type.kind == "ROWTIME" for f in relation.fields]
    return next((c for c, is_rowtime in zip(relation.columns, is_time, strict=True) if is_rowtime), None)


def _first_or_last(node: PlanNode, inputs: _Inputs) -> Relation:
    (relation,) = inputs
    time = time_column(relation) if node.at("isRowtime") else None
    spec = [relation.picked(node.at("uniqueKeys")), node.at("keepLastRow"), node.at("isRowtime"), time]
    updates = (
        relation.updates or bool(node.at("keepLastRow")) or not node.at("outputInsertOnly", default=not node.at("isRowtime"))
    )
    return Relation(_identity("deduplicate", relation.rows, spec), relation.columns, node.output, updates)


def _normalized(node: PlanNode, inputs: _Inputs) -> Relation:
    (relation,) = inputs
    condition = resolved(node.at("filterCondition"), relation.columns)
    rows = _identity("normalize", relation.rows, relation.picked(node.at("uniqueKeys")), condition)
    return Relation(rows, relation.columns, node.output, updates=True)


_PASSING: Final = frozenset({"exchange", "watermark-assigner", "drop-update-before", "mini-batch-assigner"})
"""Nodes that emit their input rows unchanged."""

_RELATIONS: Final[Mapping[str, Callable[[PlanNode, _Inputs], Relation]]] = {
    **dict.fromkeys(_PASSING, _passed),
    "table-source-scan": _source,
    "calc": _calc,
    "union": _union,
    "join": _join,
    "group-aggregate": _groups,
    "global-group-aggregate": _groups,
    "local-group-aggregate": _partial,
    "local-window-aggregate": _partial,
    **dict.fromkeys(WINDOWS, _windows),
    "over-aggregate": _over,
    "rank": _rank,
    "deduplicate": _first_or_last,
    "changelog-normalize": _normalized,
}
