"""Descriptions of the jobs that this package starts, for Spark's user interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

_DESCRIPTION: Final = "spark.job.description"


@contextmanager
def described_jobs(spark: SparkSession, description: str) -> Iterator[None]:
    """Describe the jobs that this thread starts in the block. Afterwards the description is the one of the caller again.

    Clients of Spark Connect can't describe jobs.
    """
    if not hasattr(spark, "_jsparkSession"):
        yield
        return
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, description)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # null removes it
