"""Accumulators of aggregate calls: fields, Flink's start values, and computation from rows.

Aggregates of Spark SQL over the columns of the input compute the accumulators, with Flink's result for the same rows: sums of
whole numbers wrap around, sums of decimals have 38 digits. Sums of floating numbers depend on the order of rows in Spark and
Flink; values of ``FLOAT`` are added as doubles here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from state_processor.backends.sql.calls import AggregateCall, accumulator
from state_processor.backends.sql.plan_types import PlanField
from state_processor.serializers.errors import OptionError
from state_processor.serializers.table.logical_types import (
    AtomicType,
    DateType,
    DecimalType,
    LogicalType,
    TextType,
    TimestampType,
    TimeType,
    escape,
)

_BIGINT: Final = AtomicType("BIGINT")
_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_FLOATING: Final = ("FLOAT", "DOUBLE")
_LOW: Final = f"{(1 << 32) - 1}L"
_ORDERED: Final = (*_BITS, *_FLOATING, "BOOLEAN")
_REASONS: Final = {
    **dict.fromkeys(("first_value", "last_value", "listagg", "lag"), "it depends on the order of rows"),
    "single_value": "it refuses a second row",
}


@dataclass(frozen=True, slots=True)
class AccumulatorField:
    """A field of an accumulator.

    Parameters
    ----------
    name
        Name of the field, see :meth:`AggregateCall.fields`.
    type
        Type in state.
    start
        Value before the first row.
    filled
        An aggregate of Spark SQL that computes the value from rows of the input.
    """

    name: str
    type: LogicalType
    start: int | None
    filled: str


def failure(message: str) -> str:
    """Return an expression of Spark SQL that raises an ``InvalidRowError``, in this library's form of errors in tasks."""
    text = f": state_processor.errors.InvalidRowError: {message}".replace("\\", "\\\\").replace("'", "\\'")
    return f"raise_error('{text}')"


def accumulator_fields(
    calls: Sequence[AggregateCall], columns: Mapping[str, LogicalType], *, counts_rows: bool
) -> tuple[AccumulatorField, ...]:
    """Return the fields of the accumulators of some calls, and the row count if needed.

    Parameters
    ----------
    calls
        The calls.
    columns
        The types of the columns of the input.
    counts_rows
        As for :func:`~state_processor.backends.sql.calls.accumulator`.

    Raises
    ------
    OptionError
        If the accumulator of a call can't be computed from rows, or is not known. The message contains the reason.
    """
    fields = [field for call in calls for field in call_fields(call, columns)]
    if counts_rows and not any(call.counts_rows for call in calls):
        fields.append(AccumulatorField("", _BIGINT, 0, "count(*)"))
    names = accumulator(calls, counts_rows=counts_rows)
    return tuple(replace(field, name=named.name) for field, named in zip(fields, names, strict=True))


def call_fields(call: AggregateCall, columns: Mapping[str, LogicalType]) -> tuple[AccumulatorField, ...]:
    """Return the fields of the accumulator of a call (Flink: ``AggFunctionFactory`` and its functions).

    Parameters
    ----------
    call, columns
        As for :func:`accumulator_fields`.

    Raises
    ------
    OptionError
        As for :func:`accumulator_fields`.
    """
    if call.has_view:
        raise OptionError(f"{call}: its distinct values are in a separate state; this state can't be computed from rows")
    if call.function == "count":
        counted = f"count({', '.join(map(escape, call.arguments)) or '*'}){_where(call)}"
        return _named(call, (_BIGINT, 0, counted))
    makers = {"sum": _sum, "sum0": _sum0, "avg": _average, "min": _extreme, "max": _extreme}
    if call.function not in makers:
        known = f"only {', '.join(('count', *makers))} are computed from rows"
        raise OptionError(f"{call}: {_REASONS.get(call.function, 'its accumulator is not known')}; {known}")
    argument = call.arguments[0] if len(call.arguments) == 1 else ""
    if argument not in columns:
        raise OptionError(f"{call}: expected one column of the input with a type in the plan, found {list(call.arguments)}")
    return _named(call, *makers[call.function](call, columns[argument]))


_Part = tuple[LogicalType, int | None, str]
"""Type, start value, and the aggregate that computes the field."""


def _named(call: AggregateCall, *parts: _Part) -> tuple[AccumulatorField, ...]:
    names: list[PlanField] = list(call.fields())
    return tuple(AccumulatorField(named.name, *part) for named, part in zip(names, parts, strict=True))


def _where(call: AggregateCall) -> str:
    return "" if call.filter is None else f" FILTER (WHERE {escape(call.filter)})"


def _count(call: AggregateCall) -> _Part:
    return _BIGINT, 0, f"count({escape(call.arguments[0])}){_where(call)}"


def _sum(call: AggregateCall, type_: LogicalType) -> list[_Part]:
    total, text = _total(call, type_)
    return [(total, None, text), _count(call)] if call.retracts else [(total, None, text)]


def _sum0(call: AggregateCall, type_: LogicalType) -> list[_Part]:
    total, text = _total(call, type_)
    return [(total, 0, f"coalesce({text}, CAST(0 AS {total}))")]


def _average(call: AggregateCall, type_: LogicalType) -> list[_Part]:
    if isinstance(type_, AtomicType) and type_.name in _BITS:
        type_ = _BIGINT
    elif isinstance(type_, AtomicType) and type_.name in _FLOATING:
        type_ = AtomicType("DOUBLE")
    return [*_sum0(call, type_), _count(call)]


def _total(call: AggregateCall, type_: LogicalType) -> tuple[LogicalType, str]:
    """Return the type of a sum, and the aggregate that computes it; the sum is null without values."""
    column, where = escape(call.arguments[0]), _where(call)
    match type_:
        case AtomicType(name="BIGINT"):
            # By its settings, Spark refuses a large sum or lets it wrap around. Sums of the halves of the numbers always fit.
            high = f"sum(shiftright(CAST({column} AS BIGINT), 32)){where}"
            low = f"sum(CAST({column} AS BIGINT) & {_LOW}){where}"
            return _BIGINT, f"(shiftleft({high} + shiftright({low}, 32), 32) | ({low} & {_LOW}))"
        case AtomicType(name=name) if name in _BITS:
            rest = 64 - _BITS[name]
            exact = f"sum(CAST({column} AS BIGINT)){where}"
            return AtomicType(name), f"CAST(shiftright(shiftleft({exact}, {rest}), {rest}) AS {name})"
        case AtomicType(name=name) if name in _FLOATING:
            return AtomicType(name), f"CAST(sum(CAST({column} AS DOUBLE)){where} AS {name})"
        case DecimalType(scale=scale):
            digits = f"DECIMAL(38, {scale})"
            exact = f"CAST(try_sum({column}){where} AS {digits})"
            large = failure(f"{call}: a sum has more than 38 digits")
            return DecimalType(38, scale), f"CASE WHEN count({column}){where} > 0 THEN coalesce({exact}, {large}) END"
        case _:
            raise OptionError(f"{call}: expected a sum of numbers, found {type_}")


def _extreme(call: AggregateCall, type_: LogicalType) -> list[_Part]:
    if call.retracts:
        raise OptionError(
            f"{call}: rows of its input may be retracted, so all values are in a separate state; this state can't be "
            "computed from rows"
        )
    column, where = escape(call.arguments[0]), _where(call)
    text = f"{call.function}({column}){where}"
    if isinstance(type_, AtomicType) and type_.name in _FLOATING:
        # In Java, numbers are neither less nor greater than NaN: Flink keeps the first. In Spark, NaN is the largest number.
        unordered = failure(f"{call}: with NaN, Flink's result depends on the order of rows; drop the NaN")
        text = f"CASE WHEN count_if(isnan({column})){where} IN (0, count({column}){where}) THEN {text} ELSE {unordered} END"
    match type_:
        case AtomicType(name=name) if name in _ORDERED:
            kept: LogicalType = AtomicType(name)
        case TextType():
            kept = TextType()
        case DecimalType() | DateType():
            kept = replace(type_, nullable=True)
        case TimeType():
            kept = TimeType()
        case TimestampType():
            kept = replace(type_, nullable=True, kind="REGULAR")
        case _:
            raise OptionError(f"{call}: values of {type_} are not ordered")
    return [(kept, None, text)]
