"""Differences between the supported versions of Spark. No other module depends on the version.

========================================== =============== =================================
what                                       since           before
========================================== =============== =================================
filters that are pushed into a data source Spark 4.1       every key group is read
a data source that Spark found is replaced Spark 4.1       no option imports modules
``DataFrame.repartitionById``              Spark 4.1       blobs go through files
``timezone=`` of ``to_arrow_schema``       Spark 4.2       ``timestamp_utc=``
limits of micro-batches                    Spark 4.2       a micro-batch has all checkpoints
========================================== =============== =================================
"""

from __future__ import annotations

from importlib.util import find_spec
from inspect import signature
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as spark_datasource
from pyspark.sql.pandas.types import to_arrow_schema

from state_processor.support.mappings import without_none

HAS_FILTERS: Final = hasattr(spark_datasource, "Filter")
"""True if Spark hands filters to Python data sources."""

REPARTITIONS_BY_ID: Final = hasattr(DataFrame, "repartitionById")
"""True if rows can be sent to a partition by its number."""

LIMITS_BATCHES: Final = find_spec("pyspark.sql.streaming.datasource") is not None
"""True if Spark asks Python data sources for the next offset with the start and a limit."""

UTC: Final[dict[str, Any]] = (
    {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {"timestamp_utc": True}
)
"""Keyword arguments of ``to_arrow_schema`` for timestamps in UTC."""


def start_configuration(spark: SparkSession, key: str) -> str:
    """Return a value of the configuration that Spark started with, or an empty text.

    ``SET`` does not change it, as it does with ``spark.conf``. Clients of Spark Connect do not see it.
    """
    try:
        context = spark.sparkContext
    except PySparkException:
        return ""
    return context.getConf().get(key) or ""


def filter_keys(condition: Any, column: str) -> tuple[Any, ...] | None:
    """Return the values of a column that a filter lets pass; ``None`` for a filter of other columns.

    ``condition``: a ``pyspark.sql.datasource.Filter``. ``column``: the name of a top-level column.
    """
    if getattr(condition, "attribute", None) != (column,):
        return None
    if isinstance(condition, (spark_datasource.EqualTo, spark_datasource.EqualNullSafe)) and condition.value is not None:
        return (condition.value,)
    if isinstance(condition, spark_datasource.In):
        return tuple(without_none(condition.value))
    return None
