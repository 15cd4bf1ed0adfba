"""The session of Spark that tests of a process share, and its end after a test that hangs in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def shared_session(python: str) -> Iterator[SparkSession]:
    """Yield a small local session with a program for its workers; its JVM has settings in its options."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = python
    session = (
        SparkSession.builder.master("local[2]")
        .appName("state-processor tests")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")  # failing tasks are what some tests are about
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    os.environ["PYSPARK_PYTHON"] = sys.executable
    yield session
    if session is SparkSession._instantiatedSession:  # otherwise it has been abandoned
        session.stop()


def abandon(request: pytest.FixtureRequest | None) -> None:
    """Kill Spark's JVM: a test has hung, and jobs of it may take the cores forever. The next test gets a new session.

    Parameters
    ----------
    request
        The request of the fixture ``spark``.
    """
    if "pyspark.sql" not in sys.modules:
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.proc.kill()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    if request is not None:
        request._fixturedef.finish(request)  # type: ignore[attr-defined]
