"""The format ``flink-savepoint-metadata``, for Spark's auto-discovery of ``pyspark_*`` modules."""

from state_processor.spark.datasource import FlinkSavepointMetadataDataSource


class DefaultSource(FlinkSavepointMetadataDataSource):
    """The format ``flink-savepoint-metadata``."""


__all__ = ["DefaultSource"]
