"""States of a query that can be computed from the input rows of its operators: their content, from the compiled plan.

Supported are aggregates without windows (Flink: ``GroupAggFunction``), deduplication and normalization of changes
(``DeduplicateFunctionHelper``), joins without time (``StreamingJoinOperator``, ``JoinRecordStateViews``), and the first rows of a
key in an order (``AbstractTopNFunction``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from state_processor.backends.sql.accumulators import AccumulatorField, DistinctValues, accumulator_fields, distinct_values
from state_processor.backends.sql.lineage import first_phase, grouping
from state_processor.backends.sql.meaning import counts_rows
from state_processor.backends.sql.node_calls import group_calls, shown_columns
from state_processor.backends.sql.plan import PlanNode, PlanOperator, distinct_names
from state_processor.serializers.errors import OptionError
from state_processor.serializers.table.logical_types import MAP_VIEW, LogicalType, RowField, RowType, TimestampType
from state_processor.serializers.table.record_comparators import is_ordered


@dataclass(frozen=True)
class Input:
    """Rows at an input of an operator."""

    columns: Mapping[str, LogicalType]  # the columns, with distinct names from the plan
    shown: Mapping[str, str]  # the names of these columns when state is read: names of computed columns are their expressions
    key: tuple[str, ...]  # the columns of the operator's key

    @property
    def processing_time(self) -> frozenset[str]:
        """The columns of processing time. They are null in state, and optional in given rows."""
        return frozenset(name for name, type_ in self.columns.items() if _is_time(type_, "PROCTIME"))

    @property
    def row(self) -> RowType:
        """The type of the rows."""
        return self.type_of(tuple(self.columns))

    @property
    def key_type(self) -> RowType:
        """The type of the operator's key."""
        return self.type_of(self.key)

    def given_as(self, column: str, names: Collection[str]) -> str:
        """Return the given name of a column: its name in the plan, or the shown name."""
        return column if column in names else self.shown[column]

    def type_of(self, names: Sequence[str]) -> RowType:
        """Return the row type of some columns."""
        return RowType(tuple(RowField(name, self.columns[name]) for name in names))


@dataclass(frozen=True)
class Accumulators:
    """Accumulators of an aggregate: one for each key, in state ``accState``; distinct values are in other states."""

    rows: Input
    fields: tuple[AccumulatorField, ...]
    distinct: tuple[DistinctValues, ...]
    has_ttl: bool

    @property
    def views(self) -> tuple[str, ...]:
        """The names of the fields for the states of distinct values."""
        return tuple(f"__view_{i}" for i in range(len(self.distinct)))

    @property
    def type(self) -> RowType:
        """The type of an accumulator."""
        computed = tuple(RowField(field.name, field.type) for field in self.fields)
        return RowType((*computed, *(RowField(name, MAP_VIEW) for name in self.views)))


@dataclass(frozen=True)
class KeptRow:
    """One row of each key, or a mark that the key had a row."""

    rows: Input
    state: str  # the name of the state
    time: str | None  # the column that selects the kept row; ``None`` for a mark
    last: bool  # whether the last row is kept; otherwise the first
    has_ttl: bool  # whether the state has time-to-live


@dataclass(frozen=True)
class JoinSide:
    """One side of a join."""

    rows: Input
    unique: tuple[str, ...]  # the columns of the smallest unique key; empty without a unique key
    outer: bool  # whether rows without a partner are part of the result. Then the state counts the partners.
    has_ttl: bool  # whether the state has time-to-live

    @property
    def is_single(self) -> bool:
        """Whether a key has at most one row."""
        return bool(self.unique) and set(self.unique) <= set(self.rows.key)


@dataclass(frozen=True)
class JoinedRows:
    """Rows of both sides of a join; ``matching_nulls`` are the positions in the key where null equals null."""

    left: JoinSide
    right: JoinSide
    matching_nulls: frozenset[int]


@dataclass(frozen=True)
class LastRows:
    """The last row of each key of an input that changes; the given rows are the last ones."""

    rows: Input
    has_ttl: bool


@dataclass(frozen=True, slots=True)
class Order:
    """A column that orders rows; ``nulls_last`` holds in both directions."""

    column: str
    ascending: bool
    nulls_last: bool


Ranks = Literal["count", "first", "append", "update", "retract"]


@dataclass(frozen=True)
class RankedRows:
    """The first rows of each key in an order. Rows that are equal in the order keep the order of the given rows."""

    rows: Input
    # what is stored: the number of rows (``count``); the first row (``first``); the ranked rows (``append``), by a unique key
    # (``update``); all rows (``retract``)
    kind: Ranks
    order: tuple[Order, ...]  # the columns with the order
    end: int  # the number of ranked rows
    unique: tuple[str, ...]  # the columns of the unique key
    has_ttl: bool  # whether states have time-to-live

    @property
    def order_type(self) -> RowType:
        """The type of the columns with the order."""
        return self.rows.type_of(tuple(sort.column for sort in self.order))


History = Accumulators | KeptRow | LastRows | RankedRows | JoinedRows


def history_of(operator: PlanOperator) -> History:
    """Return the content of an operator's state after some rows."""
    find = _KNOWN.get(operator.transformation)
    try:
        if find is None:
            reason = _OTHERS.get(operator.transformation, "it does not have state that can be computed from its input")
            raise OptionError(f"{reason}; supported are {', '.join(_KNOWN)}")
        return find(operator.node)
    except OptionError as error:
        raise OptionError(f"{operator.label}: {error}") from None


def _input(node: PlanNode, at: int, key: Any) -> Input:
    source = node.inputs[at] if at < len(node.inputs) else None
    columns: dict[str, LogicalType] = {}
    for field in distinct_names(() if source is None else source.output):
        if field.type is None:
            raise OptionError(f"its input has the column {field.name!r} of a Java class that the plan does not describe")
        columns[field.name] = field.type
    names = tuple(columns)
    source_columns = () if source is None else shown_columns(source)
    return Input(
        columns, dict(zip(names, (f.name for f in source_columns), strict=True)), tuple(names[int(i)] for i in key or ())
    )


def _is_time(type_: LogicalType, kind: str) -> bool:
    return isinstance(type_, TimestampType) and type_.kind == kind


def _group_aggregate(node: PlanNode) -> Accumulators:
    return _accumulators(node, _input(node, 0, node.at("grouping")))


def _global_aggregate(node: PlanNode) -> Accumulators:
    """Return the accumulators of the second phase; they merge the accumulators of the input rows of the first phase."""
    local = first_phase(node)
    if local is None or local.left != node.fields_of("localAggInputRowType"):
        raise OptionError("its input is not the first phase of the same aggregate")
    return _accumulators(node, _input(local, 0, grouping(node)))


def _accumulators(node: PlanNode, rows: Input) -> Accumulators:
    calls, counts = group_calls(node), counts_rows(node)
    fields = accumulator_fields(calls, rows.columns, counts_rows=counts)
    distinct = distinct_values(calls, rows.columns, counts_rows=counts)
    return Accumulators(rows, fields, distinct, node.has_ttl.get(0, False))


def _deduplicate(node: PlanNode) -> KeptRow:
    rows = _input(node, 0, node.at("uniqueKeys"))
    last, by_row_time = bool(node.at("keepLastRow")), bool(node.at("isRowtime"))
    if not last and by_row_time and node.at("outputInsertOnly"):
        return KeptRow(rows, "already-emitted-state-boolean", None, last, node.has_ttl.get(0, False))
    times = [name for name, type_ in rows.columns.items() if _is_time(type_, "ROWTIME" if by_row_time else "PROCTIME")]
    if not times:
        raise OptionError("its input does not have a time attribute")
    return KeptRow(rows, "deduplicate-state", times[0] if last or by_row_time else None, last, node.has_ttl.get(0, False))


def _normalize(node: PlanNode) -> LastRows:
    if node.at("filterCondition") is not None:
        raise OptionError("it keeps only rows that fulfill a condition, which code of Flink computes")
    return LastRows(_input(node, 0, node.at("uniqueKeys")), node.has_ttl.get(0, False))


def _rank(node: PlanNode) -> RankedRows:
    rows, names = _input(node, 0, node.at("partition", "fields")), tuple(_input(node, 0, ()).columns)
    order = tuple(
        Order(names[int(f["index"])], bool(f["isAscending"]), bool(f["nullIsLast"]))
        for f in node.at("orderBy", "fields", default=())
    )
    for sort in order:
        if not is_ordered(rows.columns[sort.column]):
            type_ = rows.columns[sort.column]
            raise OptionError(f"its order has the column {sort.column!r} of type {type_}; expected numbers, text or times")
    rank, strategy = str(node.at("rankRange", "type")), str(node.at("rankStrategy", "type"))
    if rank != "Constant" or strategy not in _RANKS:
        raise OptionError(f"its ranks are {rank} with the strategy {strategy}; expected Constant with {', '.join(_RANKS)}")
    start, end = int(node.at("rankRange", "start")), int(node.at("rankRange", "end"))
    kind = _RANKS[strategy]
    if kind == "append" and len(order) == 1 and order[0].ascending and _is_time(rows.columns[order[0].column], "PROCTIME"):
        kind = "count"
    elif kind != "retract" and start == end == 1:
        kind = "first"
    if kind != "count" and rows.processing_time & {sort.column for sort in order}:
        raise OptionError("its order is the processing time of rows, which is not stored")
    unique = tuple(names[int(i)] for i in node.at("rankStrategy", "primaryKeys", default=()))
    return RankedRows(rows, kind, order, end, unique, node.has_ttl.get(0, False))


_RANKS: Final[Mapping[str, Ranks]] = {
    "AppendFast": "append",
    "UpdateFast": "update",
    "Retract": "retract",
}


def _join(node: PlanNode) -> JoinedRows:
    kind = str(node.at("joinSpec", "joinType"))
    if kind not in _OUTER:
        raise OptionError(f"it is a join of type {kind}; supported are {', '.join(_OUTER)}")
    if any(_OUTER[kind]) and node.at("joinSpec", "nonEquiCondition") is not None:
        raise OptionError(
            "its state counts the matching rows of the other side for each row. Flink code computes its condition "
            "if that is not only equality of columns; inner joins with such a condition are supported"
        )
    filtered = node.at("joinSpec", "filterNulls", default=())
    left = _side(node, "left", 0, _OUTER[kind][0])
    right = _side(node, "right", 1, _OUTER[kind][1])
    return JoinedRows(left, right, frozenset(i for i, filters in enumerate(filtered) if not filters))


def _columns_at(names: Sequence[str], positions: Iterable[Any]) -> tuple[str, ...]:
    return tuple(names[int(i)] for i in positions)


def _side(node: PlanNode, label: str, index: int, outer: bool) -> JoinSide:
    rows = _input(node, index, node.at("joinSpec", f"{label}Keys"))
    names = tuple(rows.columns)
    unique_keys = node.at(f"{label}UpsertKeys") or node.at(f"{label}UniqueKeys") or ()
    keys = [_columns_at(names, key) for key in unique_keys]
    within = next((key for key in keys if set(key) <= set(rows.key)), None)
    return JoinSide(rows, within or min(keys, key=len, default=()), outer, node.has_ttl.get(index, False))


_OUTER: Final = {
    "INNER": (False, False),
    "LEFT": (True, False),
    "RIGHT": (False, True),
    "FULL": (True, True),
    "SEMI": (True, False),
    "ANTI": (True, False),
}
"""Whether rows of the left and of the right side count matching rows of the other side, by type of join."""

_KNOWN: Final[Mapping[str, Callable[[PlanNode], History]]] = {
    "group-aggregate": _group_aggregate,
    "global-group-aggregate": _global_aggregate,
    "deduplicate": _deduplicate,
    "changelog-normalize": _normalize,
    "rank": _rank,
    "join": _join,
}

_TIMED: Final = "its state depends on the watermark and on timers"
_OTHERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("window-aggregate", "global-window-aggregate", "group-window-aggregate", "over-aggregate", "window"),
            *("window-join", "interval-join", "temporal-join", "window-deduplicate", "window-rank", "temporal-sort"),
        ),
        _TIMED,
    ),
    "incremental-group-aggregate": (
        "Flink makes the rows of its input; compile the plan without table.optimizer.distinct-agg.split.enabled"
    ),
    "group-table-aggregate": "a user class defines the accumulators of table functions",
    "multi-join": "it keeps the rows of more than two inputs",
    "match": "partial matches depend on the order of rows and on the watermark",
    "source": "write its position with with_source_splits, or set it with options of the connector",
    "upsert-materialize": "its state depends on the order of rows",
}
