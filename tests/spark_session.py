"""The session of Spark that tests of a process share, and its end after a test that hangs in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LONG_LIVED: Final = "-Xms1g -Xmn400m -XX:MetaspaceSize=256m -XX:ReservedCodeCacheSize=160m -XX:-UseCodeCacheFlushing"
"""A JVM of many queries: with room for its code, which it would compile again, and for objects that end with their query."""
_FEW_LISTENED: Final[dict[str, bool | float | int | str | None]] = {
    "spark.ui.liveUpdate.period": "-1",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "10",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.ui.explainMode": "simple",
}
"""What the web page would show is not kept, and is short."""
ADAPTIVE: Final = "spark.sql.adaptive.enabled"
"""Whether Spark plans queries with shuffles again while they run, which takes longer. Tests of what users do most turn it on."""


@contextmanager
def planned_again(session: SparkSession) -> Iterator[None]:
    """Let queries be planned again while they run, as in a session with Spark's own settings."""
    session.conf.set(ADAPTIVE, "true")
    try:
        yield
    finally:
        session.conf.unset(ADAPTIVE)


def remember_names() -> None:
    """Ask the JVM once for each package and class: for a name like ``org`` it looks into all its jars, for each import."""
    from py4j.java_gateway import JavaClass, JavaPackage, JVMView

    for kind in (JVMView, JavaPackage):
        kind.__getattr__ = _remembering(kind.__getattr__, (JavaPackage, JavaClass))


def _remembering(ask: Callable[[Any, str], Any], kinds: tuple[type, ...]) -> Callable[[Any, str], Any]:
    if ask.__name__ == "remembering":
        return ask

    def remembering(self: Any, name: str) -> Any:
        found = ask(self, name)
        if isinstance(found, kinds):
            vars(self)[name] = found
        return found

    return remembering


def shared_session(python: str) -> Iterator[SparkSession]:
    """Yield a small local session with a program for its workers; its JVM has settings in its options."""
    from pyspark.sql import SparkSession

    remember_names()
    os.environ["PYSPARK_PYTHON"] = python
    session = (
        SparkSession.builder.master("local[2]")
        .appName("state-processor tests")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", _LONG_LIVED)
        .config(map=_FEW_LISTENED)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")  # failing tasks are what some tests are about
        .config("spark.sql.shuffle.partitions", "2")
        .config(ADAPTIVE, "false")
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
