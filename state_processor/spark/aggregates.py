"""Aggregates of Spark SQL that compute the accumulators of a query."""

from __future__ import annotations

from typing import Final

from state_processor.backends.sql.accumulators import BIGINT, BITS, TOO_MANY_DIGITS, WITH_NAN, Aggregate
from state_processor.serializers.table.logical_types import AtomicType, DecimalType, escape
from state_processor.write.row_columns import later_message

_LOW: Final = f"{(1 << 32) - 1}L"


def failure(message: str) -> str:
    """Return an expression of Spark SQL that raises an ``InvalidRowError``, in this library's form of errors in tasks."""
    text = f": state_processor.errors.InvalidRowError: {later_message(message)}".replace("\\", "\\\\").replace("'", "\\'")
    return f"raise_error('{text}')"


def expression(aggregate: Aggregate) -> str:
    """Return an aggregate as an expression of Spark SQL; numbers of distinct values are expressions of columns."""
    where = "" if aggregate.where is None else f" FILTER (WHERE {escape(aggregate.where)})"
    if aggregate.function == "count":
        counted = f"count({', '.join(map(escape, aggregate.columns)) or '*'}){where}"
        return f"CAST({counted} AS {aggregate.type})"
    found = (_sum if aggregate.function == "sum" else _extreme)(aggregate, escape(aggregate.columns[0]), where)
    return found if aggregate.empty is None else f"coalesce({found}, CAST({aggregate.empty} AS {aggregate.type}))"


def _sum(aggregate: Aggregate, column: str, where: str) -> str:
    once = "DISTINCT " if aggregate.distinct else ""
    match aggregate.type:
        case AtomicType(name=BIGINT.name) if aggregate.distinct:
            # Halves of different numbers may be equal. A sum of different numbers always fits into a decimal.
            exact = f"sum(DISTINCT CAST({column} AS DECIMAL(20, 0))){where}"
            return f"CAST(pmod({exact} + {1 << 63}BD, {1 << 64}BD) - {1 << 63}BD AS BIGINT)"
        case AtomicType(name=BIGINT.name):
            # By its settings, Spark refuses a large sum or lets it wrap around. Sums of the halves of the numbers always fit.
            high = f"sum(shiftright(CAST({column} AS BIGINT), 32)){where}"
            low = f"sum(CAST({column} AS BIGINT) & {_LOW}){where}"
            return f"(shiftleft({high} + shiftright({low}, 32), 32) | ({low} & {_LOW}))"
        case AtomicType(name=name) if name in BITS:
            rest = 64 - BITS[name]
            exact = f"sum({once}CAST({column} AS BIGINT)){where}"
            return f"CAST(shiftright(shiftleft({exact}, {rest}), {rest}) AS {name})"
        case DecimalType(scale=scale):
            exact = f"CAST(try_sum({once}{column}){where} AS DECIMAL(38, {scale}))"
            large = failure(f"{aggregate.call}: {TOO_MANY_DIGITS}")
            return f"CASE WHEN count({column}){where} > 0 THEN coalesce({exact}, {large}) END"
        case type_:
            return f"CAST(sum({once}CAST({column} AS DOUBLE)){where} AS {type_})"


def _extreme(aggregate: Aggregate, column: str, where: str) -> str:
    text = f"{aggregate.function}({column}){where}"
    if not aggregate.of_floating:
        return text
    # In Java, numbers are neither less nor greater than NaN: Flink keeps the first. In Spark, NaN is the largest number.
    unordered = failure(f"{aggregate.call}: {WITH_NAN}")
    return f"CASE WHEN count_if(isnan({column})){where} IN (0, count({column}){where}) THEN {text} ELSE {unordered} END"
