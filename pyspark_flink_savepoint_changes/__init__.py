"""The format ``flink-savepoint-changes``, for Spark's auto-discovery of ``pyspark_*`` modules."""

from state_processor.applications.changes.changes_source import FlinkSavepointChangesDataSource


class DefaultSource(FlinkSavepointChangesDataSource):
    """The format ``flink-savepoint-changes``."""


__all__ = ["DefaultSource"]
