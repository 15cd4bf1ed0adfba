"""What tests of several packages share."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import engine

from state_processor.serializers import registrations
from state_processor.serializers.kernel.interpreter import interpreter as kernel_interpreter
from tests import both_engines, limits, reports
from tests.absent_packages import ABSENT, can_import, can_run
from tests.corpus import CORPUS
from tests.distribution import WITH_FLINK, ModuleScheduling, is_slow, track_of
from tests.interop import jvms
from tests.interop.selection import EVERY_CASE
from tests.spark_python import interpreter
from tests.spark_session import abandon, shared_session
from tests.waiting import end_soon

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling
    from xdist.workermanage import WorkerController

if "spark" not in ABSENT:
    from tests import spark_jvms

    # Spark's JVMs, including JVMs of child processes.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", spark_jvms.options_of_sessions())
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", spark_jvms.LAUNCHER)

# Without limits of time: the first call of a kernel loads or compiles it, and machines are busy.
settings.register_profile(
    "suite",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=200 if EVERY_CASE else 25,
)
settings.load_profile("suite")
engine.MAX_SHRINKING_SECONDS = 60  # by default a test that fails takes up to five minutes more

TESTS = Path(__file__).parent
SPARK: Final = pytest.StashKey[pytest.FixtureRequest]()
RUNNING: Final = pytest.StashKey[pytest.Item]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options for the tests of the fuzzer, and for the limit of the run."""
    parser.addoption("--fuzz-minutes", type=float, default=0.1, help="time for fresh inputs of all classes (%(default)s)")
    parser.addoption("--run-minutes", type=float, default=60, help="time after which the whole run is stopped (%(default)s)")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run all tests in three processes, because each waits for JVMs for a third of its time; selected tests in one."""
    return 3 if config.args_source is pytest.Config.ArgsSource.TESTPATHS else 0


def pytest_configure(config: pytest.Config) -> None:
    """Give output in processes of xdist the same width as in one process; xdist sets another width.

    While these collect tests, the archive of Spark's classes is made. Kernels are compiled, whatever test is the first.
    """
    kernel_interpreter.stop()
    gc.disable()  # a collection of tests makes objects that stay
    limits.configure(config, 60 * config.getoption("run_minutes"))
    config.pluginmanager.register(reports, "short reports")
    if hasattr(config, "workerinput"):
        for name in ("COLUMNS", "LINES"):
            os.environ.pop(name, None)
        reports.shorten(config)
    elif config.getoption("numprocesses", None) and "spark" not in ABSENT:
        making = subprocess.Popen([sys.executable, "-m", "tests.spark_jvms"], cwd=TESTS.parent, stderr=subprocess.DEVNULL)
        config.add_cleanup(lambda: end_soon(making))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Give modules to processes in a way that survives the end of a process."""
    return ModuleScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Take the messages of a process apart."""
    reports.receive(node)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out modules whose packages are not installed."""
    return True if ABSENT and collection_path.suffix == ".py" and not can_import(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of slow modules, before tests are selected by marker. Leave out tests whose packages are not installed."""
    for item in items:
        if is_slow(item.nodeid.partition("::")[0]):
            item.add_marker(pytest.mark.slow)
    deselected = [item for item in items if not can_run(item)] if ABSENT else []
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if can_run(item)]


def pytest_report_header() -> list[str]:
    """Name the packages without which tests are left out."""
    return [f"left out: tests that need {' or '.join(sorted(ABSENT))}"] if ABSENT else []


def pytest_collection_finish() -> None:
    """Take twenty thousand collected tests from the garbage collector, which would walk over them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # tests make many short-lived objects, and few circles of objects
    gc.enable()


@pytest.fixture
def short_collections() -> None:
    """Collections of garbage walk over the objects of a test alone: the objects of the process take a hundred times as long."""
    gc.freeze()


@pytest.fixture
def own_registrations() -> Iterator[None]:
    """What a test registers is undone after it."""
    with registrations():
        yield


@pytest.fixture(scope="session")
def spark_python() -> Iterator[str]:
    """The Python of Spark's workers in all sessions of this process and of programs that it starts."""
    with interpreter() as python:
        yield python


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, spark_python: str) -> Iterator[SparkSession]:
    """One small local session for all tests that need Spark."""
    request.config.stash[SPARK] = request
    both_engines.pair_writers()
    yield from shared_session(spark_python)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Write with both engines, except in tests of one engine: what is written with Spark, or everything if all cases are tried.

    Tests with real Flink write with one engine unless all cases are tried.
    """
    both_engines.repeated = set()
    if item.get_closest_marker("one_engine") is not None:
        return
    if EVERY_CASE:
        item.config.stash[RUNNING] = item
        both_engines.repeated = {True, False}
        both_engines.pair_writers(lambda: item.config.stash[RUNNING]._request.getfixturevalue("spark"))  # type: ignore[attr-defined]
    elif item.get_closest_marker("interop") is None:
        both_engines.repeated = {True}


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Give back the memory of kept JVMs with Flink when this process comes to other tests."""
    if _uses_flink(item) and not (nextitem is not None and _uses_flink(nextitem)):
        jvms.end_all()


def _uses_flink(item: pytest.Item) -> bool:
    return track_of(item.location[0]) in WITH_FLINK


def stands_for_itself(item: pytest.Item) -> bool:
    """Whether a skipped test is covered: by the one that its mark names, as the external corpus is not there."""
    mark = item.get_closest_marker("corpus")
    return mark is not None and "instead" in mark.kwargs and not CORPUS.is_dir()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn skipped tests, and tests without a case, into failures in CI: they don't prove anything."""
    report = yield
    if call.excinfo is not None and "from pytest-timeout" in str(call.excinfo.value):
        abandon(item.config.stash.get(SPARK, None))
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail") and not stands_for_itself(item):
        report.longrepr = f"{item.nodeid} was skipped, which CI does not allow: {_reason(report)}"
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Do the same with modules that skip themselves."""
    report = yield
    if report.skipped and os.environ.get("CI"):
        report.longrepr = f"{collector.nodeid} was skipped, which CI does not allow: {_reason(report)}"
        report.outcome = "failed"
    return report


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
