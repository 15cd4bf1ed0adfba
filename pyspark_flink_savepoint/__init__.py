"""Found by Spark's auto-discovery of ``pyspark_*`` modules: registers the format ``flink-savepoint``."""

from state_processor.spark.datasource import FlinkSavepointDataSource


class DefaultSource(FlinkSavepointDataSource):
    """The format ``flink-savepoint``."""


__all__ = ["DefaultSource"]
