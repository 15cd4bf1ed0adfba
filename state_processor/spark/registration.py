"""Makes the data sources known to a Spark session."""

from __future__ import annotations

from typing import Final
from weakref import WeakSet

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from state_processor.spark.datasource import FlinkSavepointDataSource, FlinkSavepointMetadataDataSource

_ALREADY_THERE: Final = "DATA_SOURCE_ALREADY_EXISTS"
_SESSIONS: WeakSet[SparkSession] = WeakSet()
"""Those that know the formats: Spark logs a warning when it is told again."""


def register(spark: SparkSession) -> None:
    """Make the formats ``flink-savepoint`` and ``flink-savepoint-metadata`` known to a session; again does no harm.

    Where the package is installed for Spark's Python, Spark finds them by itself, and this is not needed.
    """
    if spark in _SESSIONS:
        return
    for source in (FlinkSavepointDataSource, FlinkSavepointMetadataDataSource):
        try:
            spark.dataSource.register(source)
        except PySparkException as error:
            if error.getCondition() != _ALREADY_THERE:
                raise
    _SESSIONS.add(spark)
