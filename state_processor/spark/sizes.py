"""Reports of sizes, made by tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from state_processor.options.user_serializers import TaskSerializers
from state_processor.read.sizes import SizePart, SizeReport
from state_processor.spark.engine import SparkEngine
from state_processor.spark.schemas import spark_schema


@dataclass(frozen=True)
class MeasurePart:
    """A task that measures a part."""

    serializers: TaskSerializers

    def __call__(self, part: SizePart) -> pa.Table | None:
        """Return the part's table."""
        self.serializers.enter()
        return part.measure()


def size_report(spark: SparkSession, report: SizeReport, modules: Sequence[str]) -> DataFrame:
    """Make a report with a job of Spark.

    ``report``: the plan of the report. ``modules``: modules that register serializers.
    """
    tables = SparkEngine(spark).run_parts(report.parts, MeasurePart(TaskSerializers.of_driver(modules)))
    merged = report.merged(table for table in tables if table is not None)
    return spark.createDataFrame(merged, spark_schema(merged.schema))
