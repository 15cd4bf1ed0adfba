"""Size of the batches of rows that Spark sends to Python workers.

Spark bounds batches by bytes, and measures the growing batch before each row; for a row of a few numbers or strings that costs
more than the row itself. If rows are narrow, a bound on their number bounds the batch as well and costs nothing. Rows of any
size, that is with lists, maps or binary data, stay with Spark's bound.

The bounds are settings of a session. They are set in a clone of the session that a query belongs to, so that other queries keep
theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import types as t

_MOST_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_MOST_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_UNMEASURED: Final = str(2**31 - 1)
_ROWS_WITH_TEXT: Final = 500
_OF_ANY_SIZE: Final = (t.ArrayType, t.MapType, t.BinaryType, t.VariantType, t.UserDefinedType)
_TEXT: Final = (t.StringType, t.CharType, t.VarcharType)


def with_counted_batches(query: DataFrame, schemas: Iterable[t.StructType]) -> DataFrame:
    """Return a query with batches that are counted instead of measured, if that bounds them.

    A session whose ``spark.sql.execution.arrow.maxBytesPerBatch`` was set by its user keeps its bounds. So do queries of
    Spark Connect: they can't be moved to another session.

    ``schemas``: schemas of the rows that it hands to Python workers.
    """
    if not hasattr(query, "_jdf"):
        return query
    settings = query.sparkSession.conf
    rows = int(settings.get(_MOST_ROWS) or 0)
    leaves = [leaf for schema in schemas for leaf in _leaves(schema)]
    if _MOST_BYTES in settings.getAll or rows <= 0 or any(isinstance(leaf, _OF_ANY_SIZE) for leaf in leaves):
        return query
    if any(isinstance(leaf, _TEXT) for leaf in leaves):
        rows = min(rows, _ROWS_WITH_TEXT)
    return _in_clone(query, {_MOST_BYTES: _UNMEASURED, _MOST_ROWS: str(rows)})


def _in_clone(query: Any, settings: dict[str, str]) -> DataFrame:
    """Return a query in a clone of its session with other settings, by Spark's own classes: Python has no API for it."""
    spark = query.sparkSession
    clone = spark._jsparkSession.cloneSession()
    for name, value in settings.items():
        clone.conf().set(name, value)
    dataset = spark._jvm.org.apache.spark.sql.classic.Dataset
    return DataFrame(dataset.ofRows(clone, query._jdf.queryExecution().analyzed()), spark)


def _leaves(type_: t.DataType) -> Iterator[t.DataType]:
    if isinstance(type_, t.StructType):
        for field in type_:
            yield from _leaves(field.dataType)
    else:
        yield type_
