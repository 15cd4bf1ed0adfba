"""When batches of rows are counted instead of measured, and that the session is left as it was."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from state_processor.spark.row_batches import counted_batches

BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
UNMEASURED = str(2**31 - 1)


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session of its own, whose settings nobody else sees."""
    return spark.newSession()


def limits(spark: SparkSession) -> tuple[str, str]:
    """Bytes and rows of a batch, as they are set now."""
    return str(spark.conf.get(BYTES)), str(spark.conf.get(ROWS))


@pytest.mark.parametrize(
    ("columns", "within"),
    [
        (["key long, value long"], (UNMEASURED, "10000")),
        (["key int, value struct<a: double, b: decimal(10, 2)>", "key date"], (UNMEASURED, "10000")),
        (["key string, value long"], (UNMEASURED, "500")),
        (["key long, value long", "key long, value struct<name: string>"], (UNMEASURED, "500")),
        (["key long, value array<long>"], None),
        (["key long, value struct<tags: map<string, long>>"], None),
        (["key long, value long", "key binary, value long"], None),
    ],
    ids=["numbers", "structs", "text", "text in one", "lists", "maps", "binary in one"],
)
def test_limits_follow_the_rows(session: SparkSession, columns: list[str], within: tuple[str, str] | None) -> None:
    before = limits(session)
    with counted_batches(session, [StructType.fromDDL(c) for c in columns]):
        assert limits(session) == (within or before)
    assert limits(session) == before
    assert BYTES not in session.conf.getAll


def test_what_the_user_has_set_stays(session: SparkSession) -> None:
    schema = StructType.fromDDL("key string, value long")
    session.conf.set(ROWS, 70)
    with counted_batches(session, [schema]):
        assert limits(session) == (UNMEASURED, "70")
    assert session.conf.get(ROWS) == "70"
    session.conf.set(BYTES, 1 << 20)
    with counted_batches(session, [schema]):
        assert limits(session) == (str(1 << 20), "70")


def test_settings_come_back_after_a_failure(session: SparkSession) -> None:
    before = limits(session)
    with pytest.raises(ValueError, match="in the job"), counted_batches(session, [StructType.fromDDL("key long")]):
        raise ValueError("in the job")
    assert limits(session) == before
