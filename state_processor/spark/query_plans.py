"""Compiled plans that users give as arguments."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from pyspark.sql import SparkSession

from state_processor.backends.sql.plan import CompiledPlan
from state_processor.options.access import SnapshotAccess, read_plan
from state_processor.options.values import PLAN
from state_processor.spark.storage_settings import with_settings_of_spark

GivenPlan = str | PathLike[str] | Mapping[str, Any]
"""The file of a plan, its text, or the JSON."""


def compiled_plan(spark: SparkSession, access: SnapshotAccess, plan: GivenPlan) -> CompiledPlan:
    """Return a compiled plan.

    Raises
    ------
    OptionError
        If the text is not a compiled plan.
    MissingFileError
        If the file does not exist.
    """
    given: str = PLAN.of_argument("plan", plan)
    if not given.lstrip().startswith("{"):
        access = with_settings_of_spark(spark, access, given)
    return read_plan(given, access.storage())
