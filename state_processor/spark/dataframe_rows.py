"""DataFrames as rows of a savepoint that is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType

from state_processor.backends.formats.row_shapes import LAST_ACCESS, LIST_INDEX, LIST_VALUE
from state_processor.backends.write.entry_encoder import MAP_KEY, MAP_VALUE, VALUE
from state_processor.options.given_tables import as_table
from state_processor.serializers.errors import OptionError
from state_processor.serializers.locks import cached_property
from state_processor.spark.same_keys import identity, quoted
from state_processor.spark.schemas import spark_schema, typed_schema_of, with_types_of
from state_processor.spark.task_errors import unwrap_spark_errors
from state_processor.spark.timer_rows import timers
from state_processor.write.arrow_keys import check_comparable
from state_processor.write.row_protocol import ColumnNames, GivenRows


@dataclass(frozen=True)
class SparkRows:
    """Rows of a DataFrame; see :class:`~state_processor.write.row_protocol.Rows` for the methods."""

    frame: DataFrame

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return typed_schema_of(self.frame.schema)

    @property
    def case_sensitive(self) -> bool:
        """True if the session distinguishes names of columns that differ in case only."""
        return self.frame.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"

    def select(self, columns: ColumnNames) -> SparkRows:
        """Return some columns under other names."""
        return SparkRows(self.frame.select(*(f.col(quoted(column)).alias(name) for name, column in columns.items())))

    def to_arrow(self) -> pa.Table:
        """Collect the rows."""
        with unwrap_spark_errors():
            return self.frame.toArrow()

    def of_values(self, values: pa.Array) -> SparkRows:
        """Return rows of the same session with one column ``value``, in one partition."""
        return SparkRows(_frame_of(self.frame.sparkSession, pa.table({"value": values})).coalesce(1))

    def explode_map(self, columns: ColumnNames) -> tuple[SparkRows, dict[str, str]]:
        """Return a row per entry of a map."""
        context = {n: c for n, c in columns.items() if n not in (VALUE, LAST_ACCESS)}
        times = [f.col(LAST_ACCESS)] if LAST_ACCESS in columns else []
        entry = f.posexplode(quoted(columns[VALUE])).alias("_place", MAP_KEY, MAP_VALUE)
        rows = self.frame.select(*(f.col(quoted(c)) for c in context.values()), *times, entry)
        if times and self.frame.schema[LAST_ACCESS].dataType.typeName() == "array":
            rows = rows.withColumn(LAST_ACCESS, f.get(LAST_ACCESS, "_place"))
        return SparkRows(rows), context | {n: n for n in (MAP_KEY, MAP_VALUE, *([LAST_ACCESS] if times else []))}

    def collect_lists(self, columns: ColumnNames) -> SparkRows:
        """Return a row per key from a row per element; indexes of elements are checked when they are encoded."""
        frame = self.frame
        element = [LIST_INDEX, LIST_VALUE, *([LAST_ACCESS] if LAST_ACCESS in columns else [])]
        by = {c: identity(frame, c) for n, c in columns.items() if n != LAST_ACCESS}
        lists = _sort_elements(f.collect_list(f.struct(*element)), frame.schema[LIST_VALUE].dataType).alias("_elements")
        taken = [f.col("_elements").getField(n).alias(as_) for n, as_ in ((LIST_INDEX, LIST_INDEX), (LIST_VALUE, VALUE))]
        if LAST_ACCESS in columns:
            taken.append(f.col("_elements").getField(LAST_ACCESS).alias(LAST_ACCESS))
        groups = frame.groupBy(*(same.alias(f"_same_{i}") for i, same in enumerate(by.values())))
        firsts = [f.first(quoted(c)).alias(c) for c in by]
        return SparkRows(groups.agg(*firsts, lists).select(*map(quoted, by), *taken))

    def once(self) -> SparkRows:
        """Return the rows in the storage of the executors. If an executor is lost, the write fails."""
        with unwrap_spark_errors():
            return SparkRows(self.frame.localCheckpoint())

    def without(self, columns: Sequence[str], others: SparkRows, other_columns: Sequence[str]) -> SparkRows:
        """Return the rows whose key does not occur in other rows.

        Raises
        ------
        InvalidRowError
            If the columns can't be compared.
        """
        pairs = list(zip(columns, other_columns, strict=True))
        for column, other in pairs:
            check_comparable(self.schema.field(column).type, other, others.schema.field(other).type)
        later = others.frame.select(*(identity(others.frame, c).alias(f"_later_{i}") for i, c in enumerate(other_columns)))
        same = [identity(self.frame, c) == f.col(f"_later_{i}") for i, c in enumerate(columns)]
        return SparkRows(self.frame.join(later, same, "left_anti"))

    def timers(self, key: str, *, has_namespaces: bool) -> tuple[SparkRows, list[tuple[str, str]]]:
        """Return rows of timers; see :func:`~state_processor.spark.timer_rows.timers`."""
        frame, queues = timers(self.frame, key, has_namespaces=has_namespaces)
        return SparkRows(frame), queues


def rows_of(spark: SparkSession, given: GivenRows) -> SparkRows:
    """Return rows that a user gives: a DataFrame of Spark, pandas or Polars, or another stream of Arrow batches.

    Raises
    ------
    OptionError
        If it is something else, or Spark lacks a type for one of its columns.
    """
    if isinstance(given, DataFrame):
        return SparkRows(given)
    table = as_table(given)
    if table is None:
        raise OptionError(
            f"expected rows as a DataFrame of Spark, pandas or Polars, or a table of Arrow, found a {type(given).__name__}"
        )
    try:
        return SparkRows(_frame_of(spark, table))
    except (PySparkException, pa.ArrowException, ValueError) as problem:
        raise OptionError(f"the rows can't become a DataFrame of Spark: {problem}; cast the column") from problem


def _frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a table as a DataFrame. Without a schema, Spark would take local times for times in the zone of the session."""
    if not table.num_rows:
        table = table.schema.empty_table()  # Spark refuses nested columns without a chunk
    return spark.createDataFrame(table, with_types_of(spark_schema(table.schema), table.schema))


def _sort_elements(elements: Column, type_: DataType) -> Column:
    """Sort elements by index. Spark sorts structs by all of their fields, and maps are not comparable."""
    if "map<" not in type_.simpleString():
        return f.array_sort(elements)
    return f.array_sort(elements, lambda one, other: f.signum(_index(one) - _index(other)).cast("int"))


def _index(element: Column) -> Column:
    return f.coalesce(element.getField(LIST_INDEX).cast("bigint"), f.lit(-1))
