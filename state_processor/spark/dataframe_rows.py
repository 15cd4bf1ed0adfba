"""DataFrames as rows of a savepoint that is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
)

from state_processor.options.user_tables import as_table
from state_processor.spark.schemas import spark_schema, typed_schema_of, with_types_of
from state_processor.spark.sessions import send_package
from state_processor.spark.task_errors import unwrap_spark_errors
from state_processor.support.errors import OptionError
from state_processor.support.locks import cached_property
from state_processor.write.rows.row_columns import named_later, spelled_alike
from state_processor.write.rows.row_protocol import ColumnNames, GivenRows, Operation, check_comparable

if TYPE_CHECKING:
    from pyspark.sql import Column


def quoted(column: str) -> str:
    """Quote the name of a column for Spark."""
    return "`" + column.replace("`", "``") + "`"


def identity(df: DataFrame, column: str) -> Column:
    """Return an expression that is equal for two rows only if the values of a column are the same key.

    In Spark ``-0.0`` equals ``0.0``, the decimal ``1.0`` equals ``1.00``, and a collation may ignore case. Spark does not compare
    maps; here they are equal if they have the same entries in the same order, since Flink SQL compares the bytes of rows.
    """
    return _identity(f.col(quoted(column)), df.schema[column].dataType)


def _identity(value: Column, type_: DataType) -> Column:
    if isinstance(type_, DoubleType | FloatType):
        return value.cast("double").cast("string")
    if isinstance(type_, DecimalType):
        return value.cast("string")
    if isinstance(type_, StringType):
        return f.collate(value, "UTF8_BINARY")
    if isinstance(type_, StructType) and type_.fields:
        fields = [_identity(value.getField(n.name), n.dataType).alias(f"_{i}") for i, n in enumerate(type_.fields)]
        return f.when(value.isNotNull(), f.struct(*fields))
    if isinstance(type_, ArrayType):
        return f.transform(value, lambda element: _identity(element, type_.elementType))
    if isinstance(type_, MapType):
        return f.transform(f.map_entries(value), lambda entry: _identity(entry, _entry(type_)))
    return value


def _entry(type_: MapType) -> StructType:
    return StructType().add("key", type_.keyType).add("value", type_.valueType)


HASH: Final = "__key_hash"
"""The column with a hash code of the key. Rows of a key are next to each other."""
_ROWS_TOGETHER: Final = 1 << 17

Step = Callable[[Iterator[pa.Table]], Iterator[pa.Table]]


@dataclass(frozen=True)
class OnBatches:
    """Run an operation on each batch."""

    operation: Operation

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the results."""
        return map(self.operation, tables)


@dataclass(frozen=True)
class OnKeys:
    """Run an operation on all rows of some keys together."""

    operation: Operation
    # whether it may run on some rows of a key, and then on its results with more rows: a key may have any number of rows
    combines: bool

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the results."""
        held: list[pa.Table] = []
        last, most = None, _ROWS_TOGETHER
        for table in tables:
            hashes, rows = np.asarray(table.column(HASH)), table.drop_columns(HASH)
            begin = int(np.searchsorted(hashes, hashes[-1]))
            if held and (begin or hashes[0] != last):
                yield self.operation(pa.concat_tables([*held, rows.slice(0, begin)]))
                held, most = [], _ROWS_TOGETHER
            elif begin:
                yield self.operation(rows.slice(0, begin))
            held.append(rows.slice(begin))
            last = hashes[-1]
            if self.combines and sum(map(len, held)) > most:
                held = [self.operation(pa.concat_tables(held))]
                most = max(most, 2 * len(held[0]))  # a result may have as many rows, and they are not worth many passes
        if held:
            yield self.operation(pa.concat_tables(held))


@dataclass(frozen=True)
class PartitionTask:
    """Steps over the rows of a partition.

    ``input_schema`` and ``result``: the columns before and after.
    """

    input_schema: pa.Schema
    steps: tuple[Step, ...]
    result: pa.Schema

    @property
    def __name__(self) -> str:
        """Spark shows it in plans and in its user interface."""
        return "rows"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows after all steps. Spark gives columns by number, and times in the zone of the session."""
        tables = self._tables(batches)
        for step in self.steps:
            tables = step(tables)
        for table in tables:
            yield from table.cast(self.result).to_batches()

    def _tables(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        for batch in batches:
            if batch.num_rows:
                yield pa.Table.from_arrays(batch.columns, self.input_schema.names).cast(self.input_schema)


@dataclass(frozen=True)
class SparkRows:
    """Rows of a DataFrame; see :class:`~state_processor.write.rows.row_protocol.Rows` for the methods."""

    source_frame: DataFrame
    task: PartitionTask | None = None  # what tasks do with its partitions first

    @cached_property
    def frame(self) -> DataFrame:
        """The rows."""
        if self.task is None:
            return self.source_frame
        send_package(self.source_frame.sparkSession)
        by_number = [f.col(quoted(name)).alias(f"column{i}") for i, name in enumerate(self.task.input_schema.names)]
        return self.source_frame.select(*by_number).mapInArrow(self.task, _types_of(self.task.result))

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return typed_schema_of(self.source_frame.schema) if self.task is None else self.task.result

    @property
    def case_sensitive(self) -> bool:
        """True if the session distinguishes names of columns that differ in case only."""
        return self.source_frame.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"

    def spelled(self, columns: Sequence[str]) -> SparkRows:
        """Return the rows with the given spelling of columns, if the session ignores case."""
        names = self.source_frame.columns
        alike = names if self.case_sensitive else spelled_alike(names, columns)
        return self if alike == names else SparkRows(self.source_frame.toDF(*alike))

    def select(self, columns: ColumnNames) -> SparkRows:
        """Return some columns under other names."""
        return SparkRows(self.frame.select(*(f.col(quoted(column)).alias(name) for name, column in columns.items())))

    def to_arrow(self) -> pa.Table:
        """Collect the rows."""
        with unwrap_spark_errors():
            return self.frame.toArrow()

    def of_values(self, values: pa.Array) -> SparkRows:
        """Return rows of the same session with one column ``value``, in one partition."""
        return SparkRows(_frame_of(self.source_frame.sparkSession, pa.table({"value": values})).coalesce(1))

    def on_batches(self, operation: Operation) -> SparkRows:
        """Return the results of an operation on each batch. Operations that follow each other are one task."""
        task = PartitionTask(self.schema, (), self.schema) if self.task is None else self.task
        steps: tuple[Step, ...] = (*task.steps, OnBatches(named_later(operation)))
        return SparkRows(self.source_frame, replace(task, steps=steps, result=_result(operation, self.schema)))

    def by_key(self, columns: Sequence[str], operation: Operation, *, combines: bool = False) -> SparkRows:
        """Return the results of an operation on all rows of a key."""
        if combines:
            return self.on_batches(operation)._shuffled(columns, operation, combines=True)  # few rows are shuffled
        return self._shuffled(columns, operation, combines=False)

    def _shuffled(self, columns: Sequence[str], operation: Operation, *, combines: bool) -> SparkRows:
        key = f.xxhash64(*(identity(self.frame, c) for c in columns)) if columns else f.lit(0).cast("long")
        by_hash = self.frame.withColumn(HASH, key).repartition(HASH).sortWithinPartitions(HASH)
        step = OnKeys(named_later(operation), combines)
        hashed_schema = self.schema.append(pa.field(HASH, pa.int64()))
        return SparkRows(by_hash, PartitionTask(hashed_schema, (step,), _result(operation, self.schema)))

    def numbered(self, name: str) -> SparkRows:
        """Return the rows with numbers that grow in their order, in another column."""
        return SparkRows(self.frame.withColumn(name, f.monotonically_increasing_id()))

    def once(self) -> SparkRows:
        """Return the rows in the storage of the executors. If an executor is lost, the write fails."""
        with unwrap_spark_errors():
            return SparkRows(self.frame.localCheckpoint())

    def without(self, columns: Sequence[str], later_rows: SparkRows, other_columns: Sequence[str]) -> SparkRows:
        """Return the rows whose key does not occur in other rows."""
        pairs = list(zip(columns, other_columns, strict=True))
        for column, later_column in pairs:
            check_comparable(self.schema.field(column).type, later_column, later_rows.schema.field(later_column).type)
        later = later_rows.frame.select(
            *(identity(later_rows.frame, c).alias(f"_later_{i}") for i, c in enumerate(other_columns))
        )
        same = [identity(self.frame, c) == f.col(f"_later_{i}") for i, c in enumerate(columns)]
        return SparkRows(self.frame.join(later, same, "left_anti"))

    def with_matches(
        self, name: str, key: Sequence[str], opposite: SparkRows, other_key: Sequence[str], matching_nulls: frozenset[int]
    ) -> SparkRows:
        """Return rows with the number of other rows that have the same key."""
        rows, opposite_frame = self.frame, opposite.frame
        for i, column in enumerate(other_key):
            if i not in matching_nulls:
                opposite_frame = opposite_frame.where(f.col(quoted(column)).isNotNull())
        same = {f"__other_{i}": identity(opposite_frame, column) for i, column in enumerate(other_key)}
        counts = opposite_frame.select(*(column.alias(c) for c, column in same.items())).groupBy(*same)
        counted = counts.agg(f.count("*").cast("int").alias(name))
        matches = [identity(rows, column).eqNullSafe(f.col(c)) for column, c in zip(key, same, strict=True)]
        joined = rows.join(counted, matches, "left") if matches else rows.join(counted, how="left")
        return SparkRows(joined.withColumn(name, f.coalesce(f.col(name), f.lit(0))).drop(*same))


def _result(operation: Operation, schema: pa.Schema) -> pa.Schema:
    """Return the columns of the results, in the types that Spark has for them."""
    return typed_schema_of(_types_of(operation(schema.empty_table()).schema))


def _types_of(schema: pa.Schema) -> StructType:
    return with_types_of(spark_schema(schema), schema)


def rows_of(spark: SparkSession, source: GivenRows) -> SparkRows:
    """Return rows that a user gives: a DataFrame of Spark, pandas or Polars, or another stream of Arrow batches."""
    if isinstance(source, DataFrame):
        return SparkRows(source)
    table = as_table(source)
    if table is None:
        raise OptionError(
            f"expected rows as a DataFrame of Spark, pandas or Polars, or a table of Arrow, found a {type(source).__name__}"
        )
    try:
        return SparkRows(_frame_of(spark, table))
    except (PySparkException, pa.ArrowException, ValueError) as problem:
        raise OptionError(f"the rows can't become a DataFrame of Spark: {problem}; cast the column") from problem


def _frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a table as a DataFrame. Without a schema, Spark would take local times for times in the zone of the session."""
    if not table.num_rows:
        table = table.schema.empty_table()  # Spark refuses nested columns without a chunk
    return spark.createDataFrame(table, _types_of(table.schema))
