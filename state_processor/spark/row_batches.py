"""Size of the batches that Spark hands to a Python worker.

Spark bounds batches by bytes, and measures the growing batch before each row: for a row of a few numbers or strings that costs
more than the row itself. For narrow rows a bound on their number has the same effect at no cost; rows of any size, with lists,
maps or binary data, keep Spark's bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import types as t

_MOST_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_MOST_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_UNMEASURED: Final = str(2**31 - 1)
_ROWS_WITH_TEXT: Final = 500
_OF_ANY_SIZE: Final = (t.ArrayType, t.MapType, t.BinaryType, t.VariantType, t.UserDefinedType)
_TEXT: Final = (t.StringType, t.CharType, t.VarcharType)


@contextmanager
def counted_batches(spark: SparkSession, schemas: Iterable[t.StructType]) -> Iterator[None]:
    """Run jobs over rows of some schemas with batches that are bounded by the number of rows, if their rows are narrow.

    A session whose ``spark.sql.execution.arrow.maxBytesPerBatch`` was set by its user keeps its settings. The settings are those
    of the session: other queries that start in it in the meantime have them, too.
    """
    rows = int(spark.conf.get(_MOST_ROWS) or 0)
    leaves = [leaf for schema in schemas for leaf in _leaves(schema)]
    if _MOST_BYTES in spark.conf.getAll or rows <= 0 or any(isinstance(leaf, _OF_ANY_SIZE) for leaf in leaves):
        yield
        return
    if any(isinstance(leaf, _TEXT) for leaf in leaves):
        rows = min(rows, _ROWS_WITH_TEXT)
    before = spark.conf.getAll.get(_MOST_ROWS)
    spark.conf.set(_MOST_BYTES, _UNMEASURED)
    spark.conf.set(_MOST_ROWS, rows)
    try:
        yield
    finally:
        spark.conf.unset(_MOST_BYTES)
        if before is None:
            spark.conf.unset(_MOST_ROWS)
        else:
            spark.conf.set(_MOST_ROWS, before)


def _leaves(type_: t.DataType) -> Iterator[t.DataType]:
    if isinstance(type_, t.StructType):
        for field in type_:
            yield from _leaves(field.dataType)
    else:
        yield type_
