"""Found by Spark's auto-discovery of ``pyspark_*`` modules: registers the format ``flink-savepoint-metadata``."""

from state_processor.spark.datasource import FlinkSavepointMetadataDataSource


class DefaultSource(FlinkSavepointMetadataDataSource):
    """The format ``flink-savepoint-metadata``."""


__all__ = ["DefaultSource"]
