"""Only the owner of a session decides which modules the formats import; options can't."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource

import state_processor as sp
from state_processor.options.user_serializers import ALLOWED_CONF, TaskSerializers
from state_processor.serializers import register_kryo_class, registrations
from state_processor.spark.data_source_registration import _register, _variant, format_of_read
from state_processor.spark.datasource import FlinkSavepointDataSource
from tests.state_processor.samples import ORDERS_PATH
from tests.waiting import join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RAISED = (sp.OptionError, PySparkException)  # the latter before anything of this library is called in the process
REFUSED = "module '{}' is not allowed in this session"


@pytest.fixture
def importable(spark: SparkSession, tmp_path: Path) -> Callable[[str], Path]:
    """Makes a module that every worker can import, and returns the directory with a mark of each importing process."""

    def make(name: str) -> Path:
        marks = tmp_path / "marks"
        marks.mkdir(exist_ok=True)
        module = tmp_path / f"{name}.py"
        module.write_text(f"import os, pathlib\npathlib.Path({str(marks)!r}, str(os.getpid())).touch()\n")
        spark.sparkContext.addPyFile(str(module))
        return marks

    return make


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session without registrations."""
    return spark.newSession()


@pytest.fixture
def started_with(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Sets the start configuration of the context."""
    configuration = spark.sparkContext._conf  # type: ignore[attr-defined]
    yield lambda allowed: configuration.set(ALLOWED_CONF, allowed)
    configuration._jconf.remove(ALLOWED_CONF)


def view(session: SparkSession, options: str, format_: str = "flink-savepoint") -> None:
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING `{format_}` OPTIONS (path '{ORDERS_PATH}', {options})")


def refused(session: SparkSession, module: str) -> None:
    """SQL that names a module is refused in each way to name one."""
    named = f"serializers '{module}'"
    with pytest.raises(RAISED, match=f"option serializers: {REFUSED.format(module)}"):
        view(session, f"uid 'orders', state 'total', {named}")
    with pytest.raises(RAISED, match=REFUSED.format(module)):
        view(session, f"`table` 'states', {named}", "flink-savepoint-metadata")
    rows = session.sql("SELECT 'a' AS key, 1L AS value").write.format("flink-savepoint").mode("append")
    with pytest.raises(RAISED, match=REFUSED.format(module)):
        rows.option("uid", "op").option("state", "s").option("serializers", module).save("/nowhere")


def test_sql_imports_nothing(session: SparkSession, importable: Callable[[str], Path]) -> None:
    marks = importable("evil_serializers")
    refused(session, "evil_serializers")  # the formats that Spark has found
    sp.register(session)
    session.sql(f"SET {ALLOWED_CONF}=evil_serializers")
    refused(session, "evil_serializers")
    with pytest.raises(RAISED, match="there is no option 'registrations'"):
        view(session, """uid 'orders', registrations '{"snapshots": {"x": "evil_serializers:X"}}'""")
    assert list(marks.iterdir()) == []
    assert "evil_serializers" not in sys.modules


def test_what_the_owner_allows_in_code(session: SparkSession, importable: Callable[[str], Path]) -> None:
    marks = importable("own_serializers")
    sp.register(session, allow_serializers=["own_serializers"])
    view(session, "uid 'orders', state 'total', serializers 'own_serializers'")
    planned = set(marks.iterdir())
    assert planned
    assert session.table("v").count() == 50
    assert set(marks.iterdir()) > planned  # tasks import it, too
    refused(session, "other_serializers")
    sp.register(session)  # as SavepointReader does
    assert session.table("v").count() == 50
    sp.register(session, allow_serializers=[])
    refused(session, "own_serializers")
    with pytest.raises(sp.OptionError, match="not the name of a module"):
        sp.register(session, allow_serializers="*")


def test_what_spark_started_with_is_allowed(
    session: SparkSession, importable: Callable[[str], Path], started_with: Callable[[str], None]
) -> None:
    marks = importable("configured_serializers")
    started_with("configured_serializers, more.*")
    session.sql(f"SET {ALLOWED_CONF}=evil_serializers")
    sp.register(session)
    view(session, "uid 'orders', state 'total', serializers 'configured_serializers'")
    assert list(marks.iterdir())
    refused(session, "evil_serializers")
    sp.register(session, allow_serializers=["own_serializers"])
    view(session, "uid 'orders', state 'total', serializers 'configured_serializers'")


def test_formats_that_spark_4_0_has_found() -> None:
    """It refuses others of the same names."""

    def refuse(source: type[DataSource]) -> None:
        raise PySparkException(f"Data source '{source.name()}' already exists.", errorClass="DATA_SOURCE_ALREADY_EXISTS")

    def register(**attributes: Any) -> None:
        old = SimpleNamespace(dataSource=SimpleNamespace(register=refuse))
        _register(old, _variant(FlinkSavepointDataSource, "flink-savepoint", **attributes))  # type: ignore[arg-type]

    with warnings.catch_warnings(action="error"):
        register()
    with pytest.raises(sp.OptionError, match=r"found the format flink-savepoint by itself; .* one that imports modules"):
        register(allowed=("own_serializers",))
    with pytest.warns(UserWarning, match="the settings of storage in Spark's configuration") as told:
        register(spark_settings={"access_key": "AKIAREADER"})
    assert "AKIAREADER" not in str(told[0].message)


def test_code_needs_no_permission(
    session: SparkSession, importable: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    marks = importable("passed_serializers")
    monkeypatch.syspath_prepend(tmp_path)
    rows = sp.SavepointReader.read(session, ORDERS_PATH, serializers=["passed_serializers"]).read_keyed_state("orders", "total")
    here = set(marks.iterdir())
    assert rows.count() == 50
    assert set(marks.iterdir()) > here
    refused(session, "passed_serializers")


def test_threads_get_the_formats_of_their_own_code(session: SparkSession) -> None:
    sp.register(session)
    names: dict[int, str] = {}

    def find(number: int) -> None:
        with registrations():
            register_kryo_class(f"com.acme.Thread{number % 4}", ["A"])
            names[number] = format_of_read(session, FlinkSavepointDataSource, "o.s", TaskSerializers.of_driver(()))

    threads = [threading.Thread(target=find, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert len(set(names.values())) == 4
    assert all(names[number] == names[number + 4] for number in range(4))
