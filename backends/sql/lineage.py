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
from state_processor.backends.sql.plan import PlanNode, normal_form, normal_node
from state_processor.backends.sql.plan_types import PlanFields, distinct_names, row_fields
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
        """Return the output of a node.

        Raises
        ------
        OptionError
            If the plan is damaged.
        """
        if node.id not in self._known:
            inputs = tuple(self.of(one) for one in node.inputs)
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
        return tuple(self.of(one) for one in (node if local is None else local).inputs)

    def whole(self, node: PlanNode) -> Identity:
        """Return an identity of everything that a node does, and of its whole input."""
        return _unknown(node, tuple(self.of(one) for one in node.inputs)).rows


def first_phase(node: PlanNode) -> PlanNode | None:
    """Return the first phase of an aggregate from the node of its second phase."""
    wanted = _FIRST_PHASES.get(node.kind)
    if wanted is None or not node.inputs:
        return None
    local = node.inputs[0]
    while local.kind in _PASSING and local.inputs:
        local = local.inputs[0]
    return local if local.kind == wanted and local.inputs else None


_FIRST_PHASES: Final = {
    "global-group-aggregate": "local-group-aggregate",
    "global-window-aggregate": "local-window-aggregate",
}

WINDOWS: Final = frozenset(("window-aggregate", "global-window-aggregate", "group-window-aggregate"))
"""Aggregates by windows."""


def identified_calls(node: PlanNode, given: Relation) -> list[AggregateCall]:
    """Return the calls of an aggregate with the identities of columns instead of names."""
    known = dict(zip((f.name for f in distinct_names(given.fields)), given.columns, strict=True))

    def identified(name: str) -> Identity:
        return known.get(name) or _identity("column of an unknown input", name, given.rows, given.columns)

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
    return [[int(i) for i in node.at(*path, default=())] for path in paths.get(node.kind, ())]


def grouping(node: PlanNode) -> list[int]:
    """Return the grouping columns of an aggregate."""
    return list((first_phase(node) or node).at("grouping", default=()))


def windowing(node: PlanNode, given: Relation) -> Any:
    """Return the windows of an aggregate, or of ``OVER``, with the identities of columns instead of numbers."""
    if node.kind == "over-aggregate":
        columns = over_columns(node, given)
        groups = [{**group, "aggCalls": []} for group in node.at("overSpec", "groups", default=())]
        return [_window_columns(resolved(group, columns), columns) for group in groups]
    if node.kind not in WINDOWS:
        return None
    first = first_phase(node) or node
    if (
        field := first.at("window", "timeField")
    ) is not None:  # by name, because its number counts the columns of an earlier input
        window = {**first.at("window"), "timeField": given.named(field.get("fieldName")), "alias": None}
        return normal_form(window)
    return _window_columns(normal_form(first.at("windowing")), given.columns)


def over_columns(node: PlanNode, given: Relation) -> tuple[Identity, ...]:
    """Return the columns that calls of an ``OVER`` aggregate refer to by number: columns of the input, then constants."""
    constants = node.at("overSpec", "constants", default=())
    return (*given.columns, *(_identity("constant", normal_form(one)) for one in constants))


_COLUMNS_OF_WINDOWS: Final = frozenset(
    ("timeAttributeIndex", "windowStart", "windowEnd", "sliceEnd", "index", "partition_key_indices")
)


def _window_columns(part: Any, columns: Sequence[Identity]) -> Any:
    if isinstance(part, list):
        return [_window_columns(one, columns) for one in part]
    if not isinstance(part, Mapping):
        return part
    return {
        name: _columns_at(one, columns) if name in _COLUMNS_OF_WINDOWS else _window_columns(one, columns)
        for name, one in part.items()
    }


def _columns_at(numbers: Any, columns: Sequence[Identity]) -> Any:
    if isinstance(numbers, list):
        return [_columns_at(one, columns) for one in numbers]
    return columns[numbers] if isinstance(numbers, int) and 0 <= numbers < len(columns) else numbers


def resolved(part: Any, columns: Sequence[Identity]) -> Any:
    """Return the normal form of an expression with the identities of columns instead of references."""
    return _resolved(normal_form(part), columns)


def _resolved(part: Any, columns: Sequence[Identity]) -> Any:
    if isinstance(part, Mapping):
        if part.get("kind") == "INPUT_REF":
            return {"column": columns[int(part["inputIndex"])]}
        return {name: _resolved(one, columns) for name, one in part.items()}
    return [_resolved(one, columns) for one in part] if isinstance(part, list) else part


def _identity(*parts: Any) -> Identity:
    return hashlib.sha1(json.dumps(parts, sort_keys=True).encode(), usedforsecurity=False).hexdigest()


_Inputs = tuple[Relation, ...]


def _unknown(node: PlanNode, inputs: _Inputs) -> Relation:
    content = normal_node(node)
    given = [(one.rows, one.columns, [str(f.type) for f in one.fields]) for one in inputs]
    rows = _identity(content, given)
    fields = node.output if node.at("outputType") is not None else ()
    updates = any(one.updates for one in inputs)
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
    (given,) = inputs
    condition, projection = node.at("condition"), node.at("projection")
    rows = given.rows if condition is None else _identity("where", given.rows, resolved(condition, given.columns))
    if projection is None:
        return Relation(rows, given.columns, node.output, given.updates)
    computed = [resolved(one, given.columns) for one in projection]
    columns = tuple(one["column"] if one.keys() == {"column"} else _identity("computed", one) for one in computed)
    return Relation(rows, columns, node.output, given.updates)


def _union(node: PlanNode, inputs: _Inputs) -> Relation:
    columns = tuple(_identity("union", of) for of in zip(*(one.columns for one in inputs), strict=True))
    rows = _identity("union", [one.rows for one in inputs])
    return Relation(rows, columns, node.output, any(one.updates for one in inputs))


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
    (given,) = inputs
    keys = given.picked(grouping(node))
    rows = _identity("groups", given.rows, keys)
    calls = [_identity("call", c.function, c.arguments, c.distinct, c.filter, str(c.type)) for c in identified_calls(node, given)]
    return Relation(rows, (*keys, *calls), node.output, updates=True)


def _windows(node: PlanNode, inputs: _Inputs) -> Relation:
    """Return the groups of windows: grouping columns, results of calls, properties of windows."""
    if node.kind == "global-window-aggregate" and first_phase(node) is None:
        return _unknown(node, inputs)
    (given,) = inputs
    found = _groups(node, inputs)
    rows = _identity("windows", found.rows, windowing(node, given))
    properties = [one.get("property", {}).get("kind") for one in node.at("namedWindowProperties", default=())]
    columns = (*found.columns, *(_identity("property", rows, kind) for kind in properties))
    emits = [str(value) for name, value in node.at("configuration", default={}).items() if name.startswith("table.exec.emit.")]
    return replace(found, rows=rows, columns=columns, updates=given.updates or "true" in emits)


def _over(node: PlanNode, inputs: _Inputs) -> Relation:
    (given,) = inputs
    window = [given.picked(key_columns(node)[0]), windowing(node, given)]
    calls = [
        _identity("over", window, c.function, c.arguments, c.distinct, c.filter, str(c.type))
        for c in over_calls_of(node, over_columns(node, given))
    ]
    return Relation(_identity("over", given.rows, window), (*given.columns, *calls), node.output, given.updates)


def _partial(node: PlanNode, inputs: _Inputs) -> Relation:
    return replace(_unknown(node, inputs), rows=inputs[0].rows)


def order(node: PlanNode, given: Relation) -> list[Any]:
    """Return the columns of a rank's order, with directions."""
    fields = node.at("orderBy", "fields", default=())
    return [{**f, "index": given.columns[int(f["index"])]} for f in fields]


def _rank(node: PlanNode, inputs: _Inputs) -> Relation:
    (given,) = inputs
    partition = given.picked(node.at("partition", "fields"))
    spec = [order(node, given), node.at("rankType"), rank_range(node, given)]
    rows = _identity("rank", given.rows, partition, spec)
    more = [_identity("number", rows, i) for i in range(len(node.output) - len(given.columns))]
    return Relation(rows, (*given.columns, *more), node.output, updates=True)


def rank_range(node: PlanNode, given: Relation) -> Any:
    """Return the ranks that a node emits."""
    found = dict(node.at("rankRange", default={}))
    if "endIndex" in found:
        found["endIndex"] = given.columns[int(found["endIndex"])]
    return found


def time_column(given: Relation) -> Identity | None:
    """Return the event time column."""
    is_time = [isinstance(f.type, TimestampType) and f.type.kind == "ROWTIME" for f in given.fields]
    return next((c for c, wanted in zip(given.columns, is_time, strict=True) if wanted), None)


def _first_or_last(node: PlanNode, inputs: _Inputs) -> Relation:
    (given,) = inputs
    time = time_column(given) if node.at("isRowtime") else None
    spec = [given.picked(node.at("uniqueKeys")), node.at("keepLastRow"), node.at("isRowtime"), time]
    updates = given.updates or bool(node.at("keepLastRow")) or not node.at("outputInsertOnly", default=not node.at("isRowtime"))
    return Relation(_identity("deduplicate", given.rows, spec), given.columns, node.output, updates)


def _normalized(node: PlanNode, inputs: _Inputs) -> Relation:
    (given,) = inputs
    condition = resolved(node.at("filterCondition"), given.columns)
    rows = _identity("normalize", given.rows, given.picked(node.at("uniqueKeys")), condition)
    return Relation(rows, given.columns, node.output, updates=True)


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
