"""The format ``flink-savepoint``, for Spark's auto-discovery of ``pyspark_*`` modules."""

from state_processor.spark.datasource import FlinkSavepointDataSource


class DefaultSource(FlinkSavepointDataSource):
    """The format ``flink-savepoint``."""


__all__ = ["DefaultSource"]
