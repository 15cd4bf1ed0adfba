"""Reports of sizes, made by tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from state_processor.portable_registrations import TaskSerializers
from state_processor.read.sizes import SizePart, SizeReport
from state_processor.spark.engine import SparkEngine
from state_processor.spark.schemas import spark_schema
from state_processor.write.task_data import Batches, part_numbers, task_result


@dataclass(frozen=True)
class MeasureParts:
    """A task that measures parts, by number."""

    parts: Sequence[SizePart]
    serializers: TaskSerializers

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield a result per part: its table."""
        self.serializers.enter()
        for number in part_numbers(batches):
            yield task_result(number, self.parts[number].measure(), 0)


def size_report(spark: SparkSession, report: SizeReport, modules: Sequence[str]) -> DataFrame:
    """Make a report with a job of Spark.

    Parameters
    ----------
    spark
        The session.
    report
        The plan of the report.
    modules
        Modules that register serializers.
    """
    task = MeasureParts(report.parts, TaskSerializers.of_driver(modules))
    tables: list[pa.Table | None] = [t for _, t in sorted(SparkEngine(spark).run_parts(len(report.parts), task).items())]
    merged = report.merged(t for t in tables if t is not None)
    return spark.createDataFrame(merged.to_pylist(), spark_schema(merged.schema))
