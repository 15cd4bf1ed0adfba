"""Queries with batches that are counted instead of measured, in a clone of their session."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from state_processor.spark.engine import with_counted_batches

BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
UNMEASURED = str(2**31 - 1)


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session with settings that only this test sees."""
    return spark.newSession()


def limits(query: Any) -> tuple[str, str]:
    """Bytes and rows of a batch in the session that a query belongs to."""
    settings = query._jdf.sparkSession().conf()
    return str(settings.get(BYTES)), str(settings.get(ROWS))


def counted(session: SparkSession, *columns: str) -> DataFrame:
    return with_counted_batches(session.range(3), [StructType.fromDDL(c) for c in columns])


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
    before = session.conf.getAll
    query = counted(session, *columns)
    assert limits(query) == (within or limits(session.range(1)))
    assert [row.id for row in query.collect()] == [0, 1, 2]
    assert session.conf.getAll == before


def test_what_the_user_has_set_stays(session: SparkSession) -> None:
    session.conf.set(ROWS, 70)
    assert limits(counted(session, "key string, value long")) == (UNMEASURED, "70")
    assert session.conf.get(ROWS) == "70"
    session.conf.set(BYTES, 1 << 20)
    assert limits(counted(session, "key string, value long")) == (str(1 << 20), "70")


def test_names_of_the_session_are_known_in_its_clone(session: SparkSession) -> None:
    session.range(5).createOrReplaceTempView("five")
    session.udf.register("twice", lambda value: 2 * value, "long")
    query = with_counted_batches(session.sql("SELECT twice(id) AS id FROM five"), [StructType.fromDDL("id long")])
    session.catalog.dropTempView("five")
    assert [row.id for row in query.collect()] == [0, 2, 4, 6, 8]
