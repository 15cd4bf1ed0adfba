"""Rows that have come to an operator of a query, in Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, DoubleType, FloatType, StringType

from state_processor.backends.formats.row_shapes import LAST_ACCESS
from state_processor.backends.sql.accumulators import BIGINT, BITS, TOO_MANY_DIGITS, WITH_NAN, Aggregate, DistinctValues
from state_processor.backends.sql.bootstrap import Input, Order
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.table.logical_types import AtomicType, DecimalType, escape
from state_processor.spark.dataframe_rows import SparkRows
from state_processor.spark.same_keys import identity, quoted
from state_processor.spark.schemas import spark_type
from state_processor.spark.task_errors import failure
from state_processor.write.query_states import OWN, TIME, ChosenRow, Shape, given_columns, last_access, unordered, without_value

_ROWS: Final = OWN.format("rows")
_GIVEN: Final = OWN.format("given")
"""The column with the order in which rows are given."""
_COMPARED_ALIKE: Final = frozenset(
    {"boolean", "tinyint", "smallint", "int", "bigint", "string", "binary", "date", "timestamp", "timestamp_ntz"}
)
"""Types whose values are equal in Spark if they are the same key in Flink; so are decimals of one scale."""
_LOW: Final = f"{(1 << 32) - 1}L"


@dataclass(frozen=True)
class SparkQueryRows:
    """Rows of a DataFrame; see :class:`~state_processor.write.query_states.QueryRows` for the methods."""

    frame: DataFrame

    @classmethod
    def of(cls, given: SparkRows, wanted: Input, time: str | None = None) -> SparkQueryRows:
        """Return rows in the types and by the names of the plan; see :func:`~state_processor.write.query_states.given_columns`.

        Columns of processing time are null, as in Flink. A null where the plan has none fails the write.
        """
        given_as = given_columns(given, wanted, time)
        columns = []
        for column, type_ in wanted.columns.items():
            arrow, name = type_.arrow_type(DecodeOptions()), given_as[column]
            if column in wanted.processing_time:
                value = f.lit(None).cast(spark_type(arrow))
            else:
                value = _exactly(given, name, spark_type(arrow))
                if not type_.nullable:
                    value = f.coalesce(value, f.expr(failure(without_value(column, wanted, name))))
            columns.append(value.alias(column))
        order = [] if time is None else [f.col(quoted(given_as[TIME])).alias(TIME)]
        return cls(given.frame.select(*columns, *last_access(given.schema.names, wanted), *order))

    def once(self) -> SparkQueryRows:
        """Return the rows in the storage of the executors."""
        return SparkQueryRows(SparkRows(self.frame).once().frame)

    def groups(self, columns: Sequence[str], values: Mapping[str, Aggregate | ChosenRow], *, has_ttl: bool) -> SparkQueryRows:
        """Return a row for each group of rows that agree in some columns."""
        return self._grouped(columns, {name: _computed(self.frame, value) for name, value in values.items()}, has_ttl=has_ttl)

    def _grouped(self, columns: Sequence[str], values: Mapping[str, Column], *, has_ttl: bool) -> SparkQueryRows:
        rows = self.frame
        groups, firsts, shown = [], [], []
        for i, column in enumerate(dict.fromkeys(columns)):
            name, type_ = OWN.format(f"group_{i}"), rows.schema[column].dataType.simpleString()
            if type_ in _COMPARED_ALIKE or type_.startswith("decimal("):
                groups.append(f.col(quoted(column)).alias(name))
            else:
                groups.append(identity(rows, column).alias(name))
                name = OWN.format(f"first_{i}")
                firsts.append(f.first(quoted(column)).alias(name))
            shown.append(f.col(name).alias(column))
        last = [f.max(LAST_ACCESS).alias(LAST_ACCESS)] if has_ttl and LAST_ACCESS in rows.columns else []
        computed = [value.alias(name) for name, value in values.items()]
        found = rows.groupBy(*groups).agg(*firsts, *computed, *last, f.count("*").alias(_ROWS)).where(f.col(_ROWS) > 0)
        return SparkQueryRows(found.select(*shown, *values, *([LAST_ACCESS] if last else [])))

    def with_matches(
        self, name: str, key: Sequence[str], others: SparkQueryRows, other_key: Sequence[str], matching_nulls: frozenset[int]
    ) -> SparkQueryRows:
        """Return rows with the number of other rows that have the same key."""
        rows, other = self.frame, others.frame
        names = [OWN.format(f"other_{i}") for i in range(len(other_key))]
        for column in (column for i, column in enumerate(other_key) if i not in matching_nulls):
            other = other.where(f.col(quoted(column)).isNotNull())
        same = [identity(other, column).alias(own) for column, own in zip(other_key, names, strict=True)]
        counts = other.select(*same).groupBy(*names).agg(f.count("*").cast("int").alias(name))
        matches = [identity(rows, column).eqNullSafe(f.col(own)) for column, own in zip(key, names, strict=True)]
        counted = rows.join(counts, matches, "left") if matches else rows.join(counts, how="left")
        return SparkQueryRows(counted.withColumn(name, f.coalesce(f.col(name), f.lit(0))))

    def counted(self, column: str, counts: Sequence[str], name: str, values: DistinctValues, *, null: bool) -> SparkQueryRows:
        """Return the rows that have a number above 0, with what is stored for their numbers in another column."""
        numbers = [f.col(quoted(count)) for count in counts]
        if values.is_array:
            stored = f.array(*numbers)
        elif values.counted:
            stored = numbers[0]
        else:
            bits = (f.shiftleft((number > 0).cast("bigint"), i) for i, number in enumerate(numbers))
            stored = reduce(Column.bitwiseOR, bits)
        is_null = f.col(quoted(column)).isNull()
        kept = self.frame.where((f.greatest(*numbers, f.lit(0)) > 0) & (is_null if null else ~is_null))
        return SparkQueryRows(kept.withColumn(name, stored))

    def ranked(self, columns: Sequence[str], order: Sequence[Order], name: str, limit: int | None = None) -> SparkQueryRows:
        """Return rows with their place in an order, from 1 on, among the rows that agree in some columns."""
        rows = self.frame.withColumn(_GIVEN, f.monotonically_increasing_id())
        by = Window.partitionBy(*(identity(rows, column) for column in dict.fromkeys(columns)))
        in_order = by.orderBy(*(_ordered(rows, one) for one in order), _GIVEN)
        found = rows.withColumn(name, f.row_number().over(in_order)).drop(_GIVEN)
        return SparkQueryRows(found if limit is None else found.where(f.col(name) <= limit))

    def lists(
        self, columns: Sequence[str], place: str, name: str, shape: Shape, *, has_ttl: bool, as_map: bool = False
    ) -> SparkQueryRows:
        """Return a row for each group of rows that agree in some columns: the columns, then a list."""
        pairs = f.collect_list(f.struct(f.col(place).alias("place"), _shaped(shape).alias("row")))
        in_order = f.array_sort(pairs, lambda one, other: one["place"] - other["place"])
        elements = f.transform(in_order, lambda pair: pair["row"])
        return self._grouped(columns, {name: f.map_from_entries(elements) if as_map else elements}, has_ttl=has_ttl)

    def entries(self, shapes: Mapping[str, Shape]) -> SparkRows:
        """Return rows of columns with some shapes."""
        times = [LAST_ACCESS] if LAST_ACCESS in self.frame.columns else []
        return SparkRows(self.frame.select(*(_shaped(shape).alias(name) for name, shape in shapes.items()), *times))


def _computed(rows: DataFrame, value: Aggregate | ChosenRow) -> Column:
    if isinstance(value, Aggregate):
        if value.function == "count" and value.distinct:
            same = identity(rows, value.columns[0])
            counted = same if value.where is None else f.when(f.col(quoted(value.where)), same)
            return f.count_distinct(counted).cast(str(value.type))
        return f.expr(expression(value))
    row = f.struct(*(f.col(quoted(name)) for name in value.columns))
    order = f.coalesce(f.col(TIME), f.expr(failure(value.without_time)))
    return (f.max_by if value.last else f.min_by)(row, order)


def _ordered(rows: DataFrame, order: Order) -> Column:
    """Return the order by a column, with nulls first or last."""
    column, type_ = f.col(quoted(order.column)), rows.schema[order.column].dataType
    if isinstance(type_, FloatType | DoubleType):
        apart = f.isnan(column) | (column.cast("string") == "-0.0")
        column = f.when(apart, f.expr(failure(unordered(order.column))).cast(type_)).otherwise(column)
    if order.ascending:
        return column.asc_nulls_last() if order.nulls_last else column.asc_nulls_first()
    return column.desc_nulls_last() if order.nulls_last else column.desc_nulls_first()


def _shaped(shape: Shape) -> Column:
    if isinstance(shape, str):
        return f.col(quoted(shape))
    if isinstance(shape, bool | bytes):
        return f.lit(shape)
    return f.struct(*(_shaped(part).alias(name) for name, part in shape.items()))


def _exactly(rows: SparkRows, name: str, wanted: DataType) -> Column:
    """Return a column in the type of the plan, which holds all of its values; nested ones are compared when they are written."""
    column, found = f.col(quoted(name)), rows.frame.schema[name].dataType
    if found.typeName() in ("struct", "array", "map") or found.simpleString() == wanted.simpleString():
        return column
    if isinstance(wanted, StringType):
        return f.collate(column, "UTF8_BINARY")  # collations order text, and find it equal, in other ways than Flink
    return column.cast(wanted)


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
