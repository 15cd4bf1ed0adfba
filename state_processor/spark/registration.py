"""Registration of the data sources in a Spark session."""

from __future__ import annotations

from typing import Final
from weakref import WeakSet

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from state_processor.spark.datasource import FlinkSavepointDataSource, FlinkSavepointMetadataDataSource

_ALREADY_THERE: Final = "DATA_SOURCE_ALREADY_EXISTS"
_SESSIONS: WeakSet[SparkSession] = WeakSet()
"""The sessions that have the formats: Spark logs a warning if a format is registered twice."""


def register(spark: SparkSession) -> None:
    """Register the formats ``flink-savepoint`` and ``flink-savepoint-metadata`` in a session. Idempotent.

    Not needed if the package is installed for Spark's Python: Spark finds the formats by itself.
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
