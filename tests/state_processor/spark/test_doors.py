"""Messages of tasks are spelled as at the door of the user; and what ``pushdown`` answers where Spark pushes nothing down."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import state_processor as sp
from state_processor import cli
from tests.state_processor.samples import ORDERS_PATH, TYPES_PATH

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(params=["true", "false"], ids=["pushdown", "no pushdown"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set(PUSHDOWN, request.param)
    return session


@pytest.mark.spark
def test_methods(session: SparkSession) -> None:
    frame = sp.SavepointReader.read(session, TYPES_PATH).read_keyed_state("types", "instant")
    with pytest.raises(sp.UndecodableValueError, match="read with nanos='truncate' or nanos='string'"):
        frame.collect()


@pytest.mark.spark
def test_options_of_the_data_source(session: SparkSession) -> None:
    sp.register(session)
    reader = session.read.format("flink-savepoint").options(uid="types", state="instant")
    with pytest.raises(sp.UndecodableValueError, match="read with nanos=truncate or nanos=string"):
        reader.load(TYPES_PATH).collect()


@pytest.mark.spark
def test_one_worker_serves_several_doors_in_turn(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark uses the Python process of a task again for tasks of other drivers' calls."""
    session = spark.newSession()
    sp.register(session)
    by_method = sp.SavepointReader.read(session, TYPES_PATH).read_keyed_state("types", "instant", nanos="error")
    by_format = session.read.format("flink-savepoint").options(uid="types", state="instant", nanos="error").load(TYPES_PATH)
    for _ in range(2):
        with pytest.raises(sp.UndecodableValueError, match="read with nanos='truncate' or nanos='string'"):
            by_method.collect()
        with pytest.raises(sp.UndecodableValueError, match="read with nanos=truncate or nanos=string"):
            by_format.collect()
        command = ["show", TYPES_PATH, "--uid", "types", "--state", "instant", "--nanos", "error"]
        assert cli.main(command) == cli.BAD_INPUT
        assert "read with --nanos truncate or --nanos string" in capsys.readouterr().err


@pytest.mark.spark
def test_flags(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["show", TYPES_PATH, "--uid", "types", "--state", "instant", "--where", "key > 0", "--nanos", "error"]
    assert cli.main(command) == cli.BAD_INPUT
    assert "read with --nanos truncate or --nanos string" in capsys.readouterr().err


@pytest.mark.spark
def test_pushdown_needs_the_setting_of_spark(spark: SparkSession) -> None:
    session = spark.newSession()
    sp.register(session)
    reader = session.read.format("flink-savepoint").options(uid="orders", state="total", pushdown="serves-one-query")
    session.conf.set(PUSHDOWN, "true")
    assert reader.load(ORDERS_PATH).where("key = 'amelia'").count() == 1
    session.conf.set(PUSHDOWN, "false")
    for act in (lambda: reader.load(ORDERS_PATH).collect(), lambda: reader.load(ORDERS_PATH).where("key = 'amelia'").count()):
        with pytest.raises(sp.OptionError, match=f"Spark does not push filters .* Set {PUSHDOWN} to true in it, or"):
            act()
