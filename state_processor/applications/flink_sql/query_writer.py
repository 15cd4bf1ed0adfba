"""Writing of state of queries of Flink SQL: start from rows, and migration to another query.

Rows that an operator of the query received become entries of its states. The engine of the writer computes the entries.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Final

from state_processor import MapState, OperatorIdentifier, QueryMigrationReport, Types, ValueState
from state_processor.applications.flink_sql.bootstrap import (
    BIGINT,
    Accumulators,
    Aggregate,
    DistinctValues,
    History,
    Input,
    JoinedRows,
    JoinSide,
    KeptRow,
    LastRows,
    Order,
    RankedRows,
)
from state_processor.applications.flink_sql.nodes import PlanOperator
from state_processor.applications.flink_sql.operators.registry import history_of
from state_processor.applications.flink_sql.plan import CompiledPlan, read_plan
from state_processor.applications.flink_sql.query_migration import OPTIONS, MigratedState, QueryMigration, migrated_entries
from state_processor.applications.flink_sql.query_rows import OWN, ChosenRow, QueryRows, Shape
from state_processor.errors import OptionError
from state_processor.options import SnapshotAccess, spelled
from state_processor.serializers import RowDataSerializer, TupleSerializer, TypeSerializer
from state_processor.states import StateRequest
from state_processor.support import unrenamed
from state_processor.types import AtomicType, ListSerializer, OrderedField, RowType, external_serializer, sorted_map
from state_processor.write import (
    KEY,
    MAP_KEY,
    MAP_VALUE,
    VALUE,
    GivenRows,
    QueryWriter,
    Rows,
    SavepointBuild,
    WriterEngine,
    add_entries,
    naming,
    replace_state,
)

PlanContent = str | PathLike[str] | Mapping[str, Any]
"""The file of a plan, its text, or the JSON."""


class FlinkSqlWriter(QueryWriter):
    """Writer of state of queries of Flink SQL."""

    def __init__(self, build: SavepointBuild, engine: WriterEngine) -> None:
        self._build = build
        self._engine = engine

    def bootstrap(
        self,
        plan: PlanContent,
        operator: str,
        rows: GivenRows | None,
        left: GivenRows | None,
        right: GivenRows | None,
        parallelism: int | None,
    ) -> None:
        """Write the state that an operator of a query has after some rows.

        ``rows``: the rows of the only input. ``left`` and ``right``: the rows of the inputs of a join.
        """
        planned = self._operator(self._plan(plan), operator)
        history = history_of(planned)
        key = RowDataSerializer((history.left if isinstance(history, JoinedRows) else history).rows.key_type)
        with self._build.change(planned.uid, parallelism=parallelism) as draft:
            check_inputs(history, planned.label, rows, left, right)
            for state in self._states_of(history, rows, left, right):
                add_entries(draft, state.name, state.spec, state.rows, key)

    def _states_of(
        self, history: History, table: GivenRows | None, left: GivenRows | None, right: GivenRows | None
    ) -> tuple[NewState, ...]:
        """Return the states of an operator, and their entries, for rows that have come to its inputs."""
        reads_twice = uses_rows_again(history)
        if isinstance(history, JoinedRows):
            assert left is not None
            assert right is not None
            with naming("left rows"):
                left_rows = QueryRows.of(self._engine.rows(left), history.left.rows)
            with naming("right rows"):
                right_rows = QueryRows.of(self._engine.rows(right), history.right.rows)
            return joined(history, left_rows.once(), right_rows.once()) if reads_twice else joined(history, left_rows, right_rows)
        assert table is not None
        rows = QueryRows.of(self._engine.rows(table), history.rows, history.time if isinstance(history, KeptRow) else None)
        return new_states(history, rows.once() if reads_twice else rows)

    def _operator(self, plan: CompiledPlan, name: str) -> PlanOperator:
        """Return an operator with the uid that it has in the source savepoint, or else the one that Flink gives it by default."""
        operators = plan.named(name)
        recorded = {draft.identifier.uid_hash for draft in self._build.drafts}
        return next((o for o in operators if o.uid_hash in recorded), operators[0])

    def migrate(self, old_plan: PlanContent, new_plan: PlanContent, drop: Collection[str]) -> QueryMigrationReport:
        """Rewrite the state of a query for another query, and return the outcome for each state."""
        migration = self._migration(old_plan, new_plan, drop)
        migration.check()
        with self._build.all_or_nothing():
            written = {(state.operator, state.new.name) for state in migration.states}
            unread = {(state.operator, state.old.name) for state in migration.states if state.leaves_out_old}
            for operator, name in sorted((unread | set(migration.dropped)) - written, key=str):
                with self._build.change(operator, existing=True) as draft:
                    draft.remove(name)
            for operator, key in migration.retyped_keys:
                with self._build.change(operator, existing=True) as draft:
                    draft.changes.retyped_key = key
            for state in migration.states:
                with self._build.change(state.operator, existing=True) as draft:
                    replace_state(draft, state.new, self._migrated_rows(state))
            for operator in migration.left_out:
                self._build.remove_operator(operator)
            self._build.rename_operators(migration.renamed)
        return migration.report

    def check_migration(self, old_plan: PlanContent, new_plan: PlanContent, drop: Collection[str]) -> QueryMigrationReport:
        """Return the outcome that a migration would have for each state, and change nothing."""
        return self._migration(old_plan, new_plan, drop).report

    def _recorded(self, operator: OperatorIdentifier) -> OperatorIdentifier:
        """Return the identifier of an operator in ``_metadata``: it differs for a query that was submitted as text."""
        recorded = {} if self._build.snapshot is None else self._build.snapshot.recorded_ids
        uid_hash = recorded.get(operator.uid_hash)
        return operator if uid_hash is None else OperatorIdentifier.for_uid_hash(uid_hash)

    def _migrated_rows(self, state: MigratedState) -> Rows:
        """Return the entries of a state of the source savepoint, converted for another query."""
        access = replace(self._build.access, plan=None)  # it names other fields than the state
        options = {"metadata": state.old.has_ttl, "nanos": OPTIONS.nanos, "row_kind": OPTIONS.row_kind}
        request = StateRequest(self._recorded(state.operator), state.old.name, options=options)
        rows = self._engine.read(self._build.open_source(access), access, request)
        return migrated_entries(state, rows)

    def _migration(self, old_plan: PlanContent, new_plan: PlanContent, drop: Collection[str]) -> QueryMigration:
        if self._build.snapshot is None:
            raise OptionError("this savepoint does not start from another, whose state could be migrated")
        old, new = self._plan(old_plan), self._plan(new_plan)
        return QueryMigration(self._build.drafts, old, new, drop)

    def _plan(self, plan: PlanContent) -> CompiledPlan:
        """Return a compiled plan."""
        path_or_text = SnapshotAccess.of(plan=plan).plan
        if path_or_text is None:
            raise OptionError(f"{spelled('plan', None)}: expected a path, or the JSON of a compiled plan")
        access = self._build.access
        if not path_or_text.lstrip().startswith("{"):
            access = self._engine.access_to(path_or_text, access)
        return read_plan(path_or_text, access)


_COPIES: Final = OWN.format("copies")
_MATCHES: Final = OWN.format("matches")
_ROW: Final = OWN.format("row")
_PLACE: Final = OWN.format("place")
_BY_PLACE: Final = (Order(_PLACE, ascending=True, nulls_last=False),)
_INNER_PLACE: Final = OWN.format("inner_place")
_COUNTED: Final = OWN.format("counted")
_OF_VIEW: Final = b"\0"
"""What Flink stores in the field of an accumulator whose values are in another state."""


@dataclass(frozen=True)
class NewState:
    """A state of an operator, and rows with an entry each."""

    name: str
    spec: ValueState | MapState
    rows: Rows


def uses_rows_again(history: History) -> bool:
    """Return whether the states of an operator are computed from its rows in several queries. These have to see the same rows."""
    match history:
        case JoinedRows():
            return history.left.outer or history.right.outer
        case Accumulators():
            return bool(history.distinct)
        case RankedRows():
            return history.kind == "retract"
        case _:
            return False


def check_inputs(history: History, label: str, rows: object, left: object, right: object) -> None:
    """Refuse rows for inputs that an operator does not have, and missing ones."""
    if isinstance(history, JoinedRows):
        if rows is not None or left is None or right is None:
            raise OptionError(f"{label} has two inputs: give the rows of both as left= and right=; a side may be empty")
    elif rows is None or left is not None or right is not None:
        raise OptionError(f"{label} has one input: give its rows as df; left= and right= are for joins")


def new_states(history: Accumulators | KeptRow | LastRows | RankedRows, rows: QueryRows) -> tuple[NewState, ...]:
    """Return the states of an operator with one input for rows of this input."""
    match history:
        case Accumulators():
            return _accumulated(history, rows)
        case KeptRow():
            return (_deduplicated(history, rows),)
        case LastRows():
            row = RowDataSerializer(history.rows.row)
            entries = rows.entries({KEY: _key_of(history.rows), VALUE: unrenamed(history.rows.columns)})
            return (NewState("deduplicate-state", ValueState(row, history.has_ttl), entries),)
        case RankedRows():
            return _ranked(history, rows)


def _key_of(rows: Input) -> Shape:
    return _shape(rows.key, rows.key_type)


def _accumulated(history: Accumulators, rows: QueryRows) -> tuple[NewState, ...]:
    """Return the accumulators of an aggregate, and the states of distinct values."""
    names = {OWN.format(f"value_{i}"): field for i, field in enumerate(history.fields)}
    groups = rows.groups(history.rows.key, {name: field.filled for name, field in names.items()}, has_ttl=history.has_ttl)
    value: dict[str, Shape] = {field.name: name for name, field in names.items()}
    value |= dict.fromkeys(history.views, _OF_VIEW)
    entries = groups.entries({KEY: _key_of(history.rows), VALUE: value})
    new_states = [NewState("accState", ValueState(RowDataSerializer(history.type), history.has_ttl), entries)]
    for i, distinct in enumerate(history.distinct):
        new_states += _distinct(f"distinctAcc_{i}", history, distinct, rows)
    return tuple(new_states)


def _distinct(name: str, history: Accumulators, values: DistinctValues, rows: QueryRows) -> tuple[NewState, NewState]:
    """Return the state of distinct values and the state of the null among them (Flink: ``StateMapViewWithKeysNullable``)."""
    counts = {OWN.format(f"count_{i}"): Aggregate("count", (), BIGINT, condition) for i, condition in enumerate(values.wheres)}
    groups = rows.groups((*history.rows.key, values.column), counts, has_ttl=history.has_ttl)
    of_values, of_null = (groups.counted(values.column, tuple(counts), _COUNTED, values, null=null) for null in (False, True))
    key, stored = _key_of(history.rows), external_serializer(values.stored_type)
    entries = of_values.entries({KEY: key, MAP_KEY: values.column, MAP_VALUE: _COUNTED})
    return (
        NewState(name, MapState(external_serializer(values.type), stored, history.has_ttl), entries),
        NewState(f"{name}_null_state", ValueState(stored, history.has_ttl), of_null.entries({KEY: key, VALUE: _COUNTED})),
    )


def _ranked(history: RankedRows, rows: QueryRows) -> tuple[NewState, ...]:
    """Return the states of the first rows of each key (Flink: the subclasses of ``AbstractTopNFunction``)."""
    ranked_rows, ttl, kind = history.rows, history.has_ttl, history.kind
    row, whole = RowDataSerializer(ranked_rows.row), unrenamed(ranked_rows.columns)
    of_order = tuple(field.column for field in history.order)
    within = (*ranked_rows.key, *of_order)
    if kind == "retract":
        numbered = rows.numbered(_PLACE)
    else:
        numbered = rows.ranked(ranked_rows.key, () if kind == "count" else history.order, _PLACE, history.end)
    if kind == "count":
        counts = numbered.groups(ranked_rows.key, {_COPIES: Aggregate("count", (), AtomicType("INT"))}, has_ttl=ttl)
        return (
            NewState("counterState", ValueState(Types.INT(), ttl), counts.entries({KEY: _key_of(ranked_rows), VALUE: _COPIES})),
        )
    if kind == "first":
        return (NewState("Top1-Rank-State", ValueState(row, ttl), numbered.entries({KEY: _key_of(ranked_rows), VALUE: whole})),)
    if kind == "update":
        unique = ranked_rows.type_of(history.unique)
        inner = numbered.ranked(within, _BY_PLACE, _INNER_PLACE, history.end)
        shapes: dict[str, Shape] = {KEY: _key_of(ranked_rows), MAP_KEY: _shape(history.unique, unique)}
        entries = inner.entries({**shapes, MAP_VALUE: {"f0": whole, "f1": _INNER_PLACE}})
        spec = MapState(RowDataSerializer(unique), TupleSerializer([row, Types.INT()]), ttl)
        return (NewState("data-state-with-update", spec, entries),)
    sort_key, order_of_row = RowDataSerializer(history.order_type), _shape(of_order, history.order_type)
    lists = numbered.lists(within, _BY_PLACE, _ROW, whole, has_ttl=ttl)
    entries = lists.entries({KEY: _key_of(ranked_rows), MAP_KEY: order_of_row, MAP_VALUE: _ROW})
    spec = MapState(sort_key, ListSerializer(row), ttl)
    if kind == "append":
        return (NewState("data-state-with-append", spec, entries),)
    return (NewState("data-state", spec, entries), _numbers(history, rows, sort_key, order_of_row))


def _numbers(history: RankedRows, rows: QueryRows, sort_key: TypeSerializer, order_of_row: Shape) -> NewState:
    """Return the numbers of rows of each key by the columns with the order, in this order."""
    ranked_rows, within = history.rows, (*history.rows.key, *(field.column for field in history.order))
    counts = rows.groups(within, {_COPIES: Aggregate("count", (), BIGINT)}, has_ttl=history.has_ttl)
    entry: Shape = {"key": order_of_row, "value": _COPIES}
    maps = counts.lists(ranked_rows.key, history.order, _ROW, entry, has_ttl=history.has_ttl, as_map=True)
    typed_order = zip(history.order, history.order_type.types, strict=True)
    fields = [OrderedField(type_, field.ascending, field.nulls_last) for field, type_ in typed_order]
    spec = ValueState(sorted_map(sort_key, Types.LONG(), fields), history.has_ttl)
    return NewState("sorted-map", spec, maps.entries({KEY: _key_of(ranked_rows), VALUE: _ROW}))


def _deduplicated(history: KeptRow, rows: QueryRows) -> NewState:
    """Return the rows that a deduplication keeps, or whether its input has rows."""
    values: dict[str, ChosenRow] = {}
    value: Shape = True  # a row has come
    type_: TypeSerializer = Types.BOOLEAN()
    if history.time is not None:
        values = {_ROW: ChosenRow(tuple(history.rows.columns), history.last, history.time)}
        value, type_ = _ROW, RowDataSerializer(history.rows.row)
    groups = rows.groups(history.rows.key, values, has_ttl=history.has_ttl)
    entries = groups.entries({KEY: _key_of(history.rows), VALUE: value})
    return NewState(history.state, ValueState(type_, history.has_ttl), entries)


def joined(history: JoinedRows, left: QueryRows, right: QueryRows) -> tuple[NewState, NewState]:
    """Return the states of a join for rows of its inputs."""
    return (
        _side("left", history.left, left, history, right, history.right.rows.key),
        _side("right", history.right, right, history, left, history.left.rows.key),
    )


def _side(
    label: str, side: JoinSide, rows: QueryRows, history: JoinedRows, opposite: QueryRows, other_key: Sequence[str]
) -> NewState:
    """Return the state of a side of a join (Flink: ``JoinRecordStateViews``, ``OuterJoinRecordStateViews``)."""
    columns = tuple(side.rows.columns)
    with naming(f"{label} rows"):
        if not side.unique:
            rows = rows.groups(columns, {_COPIES: Aggregate("count", (), AtomicType("INT"))}, has_ttl=side.has_ttl)
    if side.outer:
        rows = rows.with_matches(_MATCHES, side.rows.key, opposite, other_key, history.matching_nulls)
    name, row = f"{label}-records", RowDataSerializer(side.rows.row)
    whole = unrenamed(columns)
    own_key = _shape(side.rows.key, history.left.rows.key_type)
    if not side.unique:
        type_ = TupleSerializer([Types.INT(), Types.INT()]) if side.outer else Types.INT()
        copies = {"f0": _COPIES, "f1": _MATCHES} if side.outer else _COPIES
        entries = rows.entries({KEY: own_key, MAP_KEY: whole, MAP_VALUE: copies})
        return NewState(name, MapState(row, type_, side.has_ttl), entries)
    value: Shape = {"f0": whole, "f1": _MATCHES} if side.outer else whole
    of_row = TupleSerializer([row, Types.INT()]) if side.outer else row
    if side.is_single:
        return NewState(name, ValueState(of_row, side.has_ttl), rows.entries({KEY: own_key, VALUE: value}))
    unique = side.rows.type_of(side.unique)
    entries = rows.entries({KEY: own_key, MAP_KEY: _shape(side.unique, unique), MAP_VALUE: value})
    return NewState(name, MapState(RowDataSerializer(unique), of_row, side.has_ttl), entries)


def _shape(columns: Sequence[str], type_: RowType) -> Shape:
    """Return columns as a struct with the field names of a type."""
    return dict(zip(type_.names, columns, strict=True))
