"""Contents of states that are computed from the input rows of an operator. The description of an operator chooses its content.

Accumulators follow from the aggregate calls of the plan (Flink: ``AggregateUtil``). An engine computes the aggregates, with
Flink's result for the same rows: sums of whole numbers wrap around, sums of decimals have 38 digits. Sums of floating numbers
depend on the order of rows, here and in Flink; values of ``FLOAT`` are added as doubles here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from state_processor.applications.flink_sql.fields import PlanField, PlanFields, distinct_names, is_time, picked, plan_type
from state_processor.errors import OptionError
from state_processor.support import names_of
from state_processor.types import (
    MAP_VIEW,
    ArrayType,
    AtomicType,
    DateType,
    DecimalType,
    IntervalType,
    LogicalType,
    RowField,
    RowType,
    TextType,
    TimestampType,
    TimeType,
)

ROW_COUNT: Final = "row_count"
"""The field that counts rows of a key. Flink adds it if rows may be retracted, to detect empty groups."""

_WITH_DIGITS: Final = (2, 3)
BIGINT: Final = AtomicType("BIGINT")
_INTERNAL: Final = re.compile(r"\$+(.+)\$\d+")
_COUNTED: Final = {"avg": "sum", "single_value": ""}
_WHOLE: Final = frozenset({"sum", "sum0", "min", "max", "count", "dense_rank", "row_number"})
"""Functions whose first field has the type of the result, if rows are not retracted."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call of an aggregate function."""

    function: str  # name of the function in lower case
    arguments: tuple[str, ...]  # the columns of the arguments
    distinct: bool  # whether each value counts once
    filter: str | None  # the column that selects rows, if any
    retracts: bool  # whether rows may be retracted
    type: LogicalType | None  # type of the result, nullable like accumulators
    # names of computed columns to their expressions; other columns are shown with their names
    texts: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    # whether accumulators keep the digits of ``TIME``, as since Flink 2.3; ``TIME(0)`` before
    has_digits: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        arguments = self.argument_text if self.arguments or self.function != "count" else "*"
        text = f"{self.function}({'distinct ' if self.distinct else ''}{arguments})"
        return text if self.filter is None else f"{text} filter {self.texts.get(self.filter, self.filter)}"

    @property
    def argument_text(self) -> str:
        """The columns of the arguments as text."""
        return ", ".join(self.texts.get(column, column) for column in self.arguments)

    @property
    def counts_rows(self) -> bool:
        """Whether this is ``count(*)``."""
        return str(self) == "count(*)"

    @property
    def has_view(self) -> bool:
        """Whether the accumulator has a view of the values."""
        return self.distinct and bool(self.arguments)

    def fields(self) -> Iterator[PlanField]:
        """Yield the fields of the accumulator. An object is one field; its class names its parts."""
        text = str(self)
        match self.function:
            case "avg" | "single_value":
                first = f"{text} {_COUNTED[self.function]}".strip()
                yield from (PlanField(first), PlanField(f"{text} count", None))
            case "sum" if self.retracts:
                yield from (PlanField(text, self.type), PlanField(f"{text} count", BIGINT))
            case "listagg" if not self.retracts:
                yield from (PlanField(f"{text} delimiter"), PlanField(text, TextType()))  # whatever the argument is
            case "rank":
                yield from (PlanField(f"{text} row number", BIGINT), PlanField(text, BIGINT))
            case function if function in _WHOLE and not (self.retracts and function in ("min", "max")):
                yield PlanField(text, _kept_type(self.type))
            case _:
                yield PlanField(text)


def aggregate_calls(
    content: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
    retractions: Sequence[bool],
    texts: Mapping[str, str] | None = None,
    release: tuple[int, ...] = (),
) -> list[AggregateCall]:
    """Return calls from their JSON.

    ``content``: the JSON of each. ``columns``: the names of the columns that calls refer to. ``retractions``: whether rows may be
    retracted, for each call; the last value is for all further calls. ``texts``: see :class:`AggregateCall`. ``release``: the
    release of Flink that compiled the plan.
    """
    parsed = []
    for at, call in enumerate(content):
        filtered, result = int(call.get("filterArg", -1)), plan_type(call.get("type"))
        parsed.append(
            AggregateCall(
                function=_function(call),
                arguments=tuple(_column(columns, int(i)) for i in call.get("argList", ())),
                distinct=bool(call.get("distinct", False)),
                filter=None if filtered < 0 else _column(columns, filtered),
                retracts=bool(retractions[min(at, len(retractions) - 1)]) if retractions else False,
                type=None if result is None else replace(result, nullable=True),
                texts=texts or {},
                has_digits=release >= _WITH_DIGITS,
            )
        )
    return parsed


def _column(columns: Sequence[str], index: int) -> str:
    return columns[index] if index < len(columns) else f"#{index}"


def _kept_type(result: LogicalType | None) -> LogicalType | None:
    """Return the type of the first field of an accumulator, by the type of the result (Flink: ``MaxAggFunction``)."""
    match result:
        case TextType():
            return TextType()
        case TimeType():
            return None  # the Flink that runs the plan decides: see has_digits
        case TimestampType():
            return replace(result, kind="REGULAR")
        case _:
            return result


def _function(call: Mapping[str, Any]) -> str:
    internal = _INTERNAL.fullmatch(str(call.get("internalName", "")))
    if internal is not None:
        return internal[1].lower()
    catalog = str(call.get("catalogName", "")).rpartition(".")[2].strip("`")
    return (catalog or str(call.get("systemName", "")) or str(call.get("class", "")).rpartition(".")[2] or "aggregate").lower()


def accumulator(calls: Sequence[AggregateCall], *, counts_rows: bool) -> PlanFields:
    """Return the fields of the accumulators of some calls: fields of each call, row count, views of distinct values.

    ``counts_rows``: whether the operator needs the row count. A field is added unless ``count(*)`` is among the calls.
    """
    fields: list[PlanField] = []
    for call in calls:
        fields += call.fields()
    if counts_rows and not any(call.counts_rows for call in calls):
        fields.append(PlanField(ROW_COUNT, BIGINT))
    views = {call.arguments: call.argument_text for call in calls if call.has_view}
    fields += [PlanField(f"distinct({arguments})") for arguments in views.values()]
    return distinct_names(fields)


def distinct_views(calls: Sequence[AggregateCall]) -> list[tuple[str, ...]]:
    """Return the columns with views of distinct values, once for each view."""
    return list(dict.fromkeys(call.arguments for call in calls if call.has_view))


def calls_of_view(calls: Sequence[AggregateCall], columns: tuple[str, ...]) -> list[AggregateCall]:
    """Return the calls that share the view of distinct values of some columns."""
    return [call for call in calls if call.has_view and call.arguments == columns]


BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
"""The width of whole numbers."""
_SINGLE: Final = (AtomicType, DateType, DecimalType, IntervalType, TextType, TimestampType, TimeType)
_BITS_OF_CALLS: Final = 64
_FLOATING: Final = ("FLOAT", "DOUBLE")
_ORDERED: Final = (*BITS, *_FLOATING, "BOOLEAN")
TOO_MANY_DIGITS: Final = "a sum has more than 38 digits"
WITH_NAN: Final = "with NaN, Flink's result depends on the order of rows; drop the NaN"
_REASONS: Final = {
    **dict.fromkeys(("first_value", "last_value", "listagg", "lag"), "it depends on the order of rows"),
    "single_value": "it refuses a second row",
}


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A value that is computed from the rows of a group."""

    function: Literal["count", "sum", "min", "max"]  # what is computed. Nulls do not count.
    # the columns of the input: any number for ``count``, which counts rows without a null in them; else one
    columns: tuple[str, ...]
    type: LogicalType  # the type of the value. Sums of whole numbers wrap around in it.
    where: str | None = None  # a column of type ``BOOLEAN``: only rows that have true there count
    empty: int | None = None  # the value of a group without values
    call: str = ""  # the call of the query, for messages
    distinct: bool = False  # whether each value counts once

    @property
    def of_floating(self) -> bool:
        """Whether the value is a floating number."""
        return isinstance(self.type, AtomicType) and self.type.name in _FLOATING


@dataclass(frozen=True, slots=True)
class AccumulatorField:
    """A field of an accumulator."""

    name: str  # name of the field, see :meth:`AggregateCall.fields`
    filled: Aggregate  # the value after some rows

    @property
    def type(self) -> LogicalType:
        """Type in state."""
        return self.filled.type

    @property
    def start(self) -> int | None:
        """Value before the first row."""
        return 0 if self.filled.function == "count" else self.filled.empty


@dataclass(frozen=True, slots=True)
class DistinctValues:
    """The values that calls with ``DISTINCT`` have counted, in states of their own (Flink: ``DistinctAggCodeGen``)."""

    column: str  # the column of the input
    type: LogicalType
    wheres: tuple[str | None, ...]  # for each of the calls, the column that selects rows
    # whether rows may be retracted. Then the number of rows with a value is stored for each call, instead of a bit.
    counted: bool

    @property
    def is_array(self) -> bool:
        """Whether the numbers of several calls are stored."""
        return self.counted and len(self.wheres) > 1

    @property
    def stored_type(self) -> LogicalType:
        """The type of the stored bits or numbers of a distinct value."""
        number = AtomicType("BIGINT", nullable=False)
        return ArrayType(number, nullable=False) if self.is_array else number


def distinct_values(
    calls: Sequence[AggregateCall], columns: Mapping[str, LogicalType], *, counts_rows: bool
) -> tuple[DistinctValues, ...]:
    """Return the states of distinct values of some calls, in the order of their numbers.

    ``calls``, ``columns`` and ``counts_rows``: as for :func:`accumulator_fields`.
    """
    distinct_states = []
    for arguments in distinct_views(calls):
        view_calls = calls_of_view(calls, arguments)
        type_ = columns.get(arguments[0]) if len(arguments) == 1 else None
        if not isinstance(type_, _SINGLE):
            listed = "several columns" if type_ is None else type_
            raise OptionError(
                f"{view_calls[0]}: distinct values of {listed} are not computed from rows; expected one column of single values"
            )
        if len(view_calls) > _BITS_OF_CALLS:
            raise OptionError(
                f"{view_calls[0]}: expected at most {_BITS_OF_CALLS} calls with the same distinct values, found {len(view_calls)}"
            )
        distinct_states.append(DistinctValues(arguments[0], type_, tuple(call.filter for call in view_calls), counts_rows))
    return tuple(distinct_states)


def accumulator_fields(
    calls: Sequence[AggregateCall], columns: Mapping[str, LogicalType], *, counts_rows: bool
) -> tuple[AccumulatorField, ...]:
    """Return the fields of the accumulators of some calls, and the row count if needed.

    ``columns``: the types of the columns of the input. ``counts_rows``: as for
    :func:`~state_processor.applications.flink_sql.bootstrap.accumulator`.
    """
    fields: list[AccumulatorField] = []
    for call in calls:
        fields += call_fields(call, columns)
    if counts_rows and not any(call.counts_rows for call in calls):
        fields.append(AccumulatorField("", Aggregate("count", (), BIGINT)))
    names = accumulator(calls, counts_rows=counts_rows)[: len(fields)]
    return tuple(replace(field, name=named.name) for field, named in zip(fields, names, strict=True))


def call_fields(call: AggregateCall, columns: Mapping[str, LogicalType]) -> tuple[AccumulatorField, ...]:
    """Return the fields of the accumulator of a call (Flink: ``AggFunctionFactory`` and its functions).

    ``call`` and ``columns``: as for :func:`accumulator_fields`.
    """
    if call.function == "count":
        return _named(call, Aggregate("count", tuple(call.arguments), BIGINT, call.filter))
    makers = {"sum": _sum, "sum0": _sum0, "avg": _average, "min": _extreme, "max": _extreme}
    if call.function not in makers:
        computed = f"only {', '.join(('count', *makers))} are computed from rows"
        raise OptionError(f"{call}: {_REASONS.get(call.function, 'its accumulator is not known')}; {computed}")
    argument = call.arguments[0] if len(call.arguments) == 1 else ""
    if argument not in columns:
        raise OptionError(f"{call}: expected one column of the input with a type in the plan, found {list(call.arguments)}")
    return _named(call, *makers[call.function](call, columns[argument]))


def _named(call: AggregateCall, *parts: Aggregate) -> tuple[AccumulatorField, ...]:
    names: list[PlanField] = list(call.fields())
    once = call.has_view
    return tuple(AccumulatorField(named.name, replace(part, distinct=once)) for named, part in zip(names, parts, strict=True))


def _count(call: AggregateCall) -> Aggregate:
    return Aggregate("count", (call.arguments[0],), BIGINT, call.filter)


def _sum(call: AggregateCall, type_: LogicalType) -> list[Aggregate]:
    return [_total(call, type_), _count(call)] if call.retracts else [_total(call, type_)]


def _sum0(call: AggregateCall, type_: LogicalType) -> list[Aggregate]:
    return [replace(_total(call, type_), empty=0)]


def _average(call: AggregateCall, type_: LogicalType) -> list[Aggregate]:
    if isinstance(type_, AtomicType) and type_.name in BITS:
        type_ = BIGINT
    elif isinstance(type_, AtomicType) and type_.name in _FLOATING:
        type_ = AtomicType("DOUBLE")
    return [*_sum0(call, type_), _count(call)]


def _total(call: AggregateCall, type_: LogicalType) -> Aggregate:
    """Return the sum of a column; null without values."""
    match type_:
        case AtomicType(name=name) if name in BITS or name in _FLOATING:
            total: LogicalType = AtomicType(name)
        case DecimalType(scale=scale):
            total = DecimalType(38, scale)
        case _:
            raise OptionError(f"{call}: expected a sum of numbers, found {type_}")
    return Aggregate("sum", (call.arguments[0],), total, call.filter, call=str(call))


def _extreme(call: AggregateCall, type_: LogicalType) -> list[Aggregate]:
    if call.retracts:
        raise OptionError(
            f"{call}: rows of its input may be retracted, so all values are in a separate state; this state can't be "
            "computed from rows"
        )
    match type_:
        case AtomicType(name=name) if name in _ORDERED:
            value_type: LogicalType = AtomicType(name)
        case TextType():
            value_type = TextType()
        case DecimalType() | DateType():
            value_type = replace(type_, nullable=True)
        case TimeType(precision=precision):
            value_type = TimeType(precision if call.has_digits else 0)
        case TimestampType():
            value_type = replace(type_, nullable=True, kind="REGULAR")
        case _:
            raise OptionError(f"{call}: values of {type_} are not ordered")
    function: Literal["min", "max"] = "min" if call.function == "min" else "max"
    return [Aggregate(function, (call.arguments[0],), value_type, call.filter, call=str(call))]


@dataclass(frozen=True)
class Input:
    """Rows at an input of an operator."""

    columns: Mapping[str, LogicalType]  # the columns, with distinct names from the plan
    read_names: Mapping[
        str, str
    ]  # the names of these columns when state is read; the name of a computed column is its expression
    key: tuple[str, ...]  # the columns of the operator's key

    @classmethod
    def of(cls, fields: PlanFields, read_fields: PlanFields, key: Any) -> Input:
        """Return the rows with some fields. ``read_fields``: their names when state is read. ``key``: its positions."""
        columns: dict[str, LogicalType] = {}
        for column in distinct_names(fields):
            if column.type is None:
                raise OptionError(f"its input has the column {column.name!r} of a Java class that the plan does not describe")
            columns[column.name] = column.type
        names = tuple(columns)
        return cls(columns, dict(zip(names, names_of(read_fields), strict=True)), picked(names, key))

    def times(self, kind: str) -> list[str]:
        """Return the columns with time attributes of a kind: ``ROWTIME`` or ``PROCTIME``."""
        return [name for name, type_ in self.columns.items() if is_time(type_, kind)]

    @property
    def processing_time(self) -> frozenset[str]:
        """The columns of processing time. They are null in state, and optional in given rows."""
        return frozenset(self.times("PROCTIME"))

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
        return column if column in names else self.read_names[column]

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
