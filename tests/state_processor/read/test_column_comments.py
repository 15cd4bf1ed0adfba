"""Columns of dates and times name the time zone that they are read in."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import state_processor as sp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

T = sp.Types
ZONE = "America/New_York"
ADVICE = f"in the time zone {ZONE}; set time_zone to the zone of the job's JVM"
ADVICE_OF_FORMAT = ADVICE.replace("time_zone", "timeZone")
DAY = date(2024, 2, 29)
POINT = datetime(2024, 2, 29, 12, tzinfo=UTC)

READS = [
    ("day", {}, {"value": f"SQL_DATE is read {ADVICE}"}),
    ("moment", {}, {"value": f"SQL_TIMESTAMP before 1582-10-15 is read {ADVICE}"}),
    ("visit", {}, {"value": f"SQL_DATE, SQL_TIME and SQL_TIMESTAMP before 1582-10-15 are read {ADVICE}"}),
    ("days", {}, {"list_value": f"SQL_DATE is read {ADVICE}"}),
    ("days", {"flatten": False}, {"value": f"SQL_DATE is read {ADVICE}"}),
    ("clocks", {}, {"map_key": f"SQL_DATE is read {ADVICE}", "map_value": f"SQL_TIME is read {ADVICE}"}),
    ("clocks", {"flatten": False}, {"value": f"SQL_DATE and SQL_TIME are read {ADVICE}"}),
    ("clocks", {"columns": ["map_value"]}, {"map_value": f"SQL_TIME is read {ADVICE}"}),
    ("plain", {}, {}),
]


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """States with the types of ``java.sql``, and one without."""
    path = str(tmp_path_factory.mktemp("comments") / "savepoint")
    visit = {"born": DAY, "clock": "08:30:00", "seen": POINT}
    row = ("a", DAY, POINT, visit, [DAY], {DAY: "08:30:00"}, DAY)
    columns = (
        "key string, day date, moment timestamp, visit struct<born: date, clock: string, seen: timestamp>, days array<date>, "
        "clocks map<date, string>, plain date"
    )
    states = {
        "day": sp.ValueState(T.SQL_DATE()),
        "moment": sp.ValueState(T.SQL_TIMESTAMP()),
        "visit": sp.ValueState(T.ROW_NAMED(list(visit), [T.SQL_DATE(), T.SQL_TIME(), T.SQL_TIMESTAMP()])),
        "days": sp.ListState(T.SQL_DATE()),
        "clocks": sp.MapState(T.SQL_DATE(), T.SQL_TIME()),
        "plain": sp.ValueState(T.LOCAL_DATE()),
    }
    writer = sp.SavepointWriter.new(spark, time_zone=ZONE)
    writer.with_keyed_state("visits", spark.createDataFrame([row], columns), states=states)
    sent = spark.createDataFrame([(DAY, DAY)], "key date, value date")
    writer.with_broadcast_state("visits", "sent", sent, T.SQL_DATE(), T.LOCAL_DATE())
    writer.write(path)
    return path


def comments(frame: DataFrame) -> dict[str, str]:
    return {field.name: field.metadata["comment"] for field in frame.schema if "comment" in field.metadata}


def arrow_comments(schema: pa.Schema) -> dict[str, str]:
    return {field.name: field.metadata[b"comment"].decode() for field in schema if field.metadata}


@pytest.mark.parametrize(("state", "options", "expected"), READS)
def test_arrow(written: str, state: str, options: Mapping[str, Any], expected: Mapping[str, str]) -> None:
    (batch,) = sp.arrow.read_state(written, "visits", state, time_zone=ZONE, **options)
    assert arrow_comments(batch.schema) == expected


@pytest.mark.parametrize(("state", "options", "expected"), READS)
def test_reader(spark: SparkSession, written: str, state: str, options: Mapping[str, Any], expected: Mapping[str, str]) -> None:
    frame = sp.SavepointReader.read(spark, written, time_zone=ZONE).read_keyed_state("visits", state, **options)
    assert comments(frame) == expected
    assert frame.count() == 1


def test_the_zone_is_utc_unless_it_is_given(written: str) -> None:
    (batch,) = sp.arrow.read_state(written, "visits", "day")
    assert arrow_comments(batch.schema) == {
        "value": "SQL_DATE is read in the time zone UTC; set time_zone to the zone of the job's JVM"
    }


def test_columns_of_a_whole_operator(written: str) -> None:
    (batch,) = sp.arrow.read_state(written, "visits", time_zone=ZONE)
    assert set(arrow_comments(batch.schema)) == {"day", "moment", "visit", "days", "clocks"}


def test_operator_state(spark: SparkSession, written: str) -> None:
    expected = {"key": f"SQL_DATE is read {ADVICE}"}
    (batch,) = sp.arrow.read_state(written, "visits", "sent", time_zone=ZONE)
    assert arrow_comments(batch.schema) == expected
    assert comments(sp.SavepointReader.read(spark, written, time_zone=ZONE).read_broadcast_state("visits", "sent")) == expected


def test_a_schema_that_is_asked_for_has_the_comment(spark: SparkSession, written: str) -> None:
    expected = {"value": f"SQL_DATE is read {ADVICE}"}
    reader = sp.SavepointReader.read(spark, written, time_zone=ZONE)
    assert comments(reader.read_keyed_state("visits", "day", schema="value DATE")) == expected
    schema = pa.schema([("value", pa.date32())])
    (batch,) = sp.arrow.read_state(written, "visits", "day", schema=schema, time_zone=ZONE)
    assert arrow_comments(batch.schema) == expected


def test_the_data_source(spark: SparkSession, written: str) -> None:
    read = spark.read.format("flink-savepoint").options(uid="visits", state="day", timeZone=ZONE)
    frame = read.load(written)
    assert comments(frame) == {"value": f"SQL_DATE is read {ADVICE_OF_FORMAT}"}
    assert [row.value for row in frame.collect()] == [DAY]


def test_a_table_shows_the_comment(spark: SparkSession, written: str) -> None:
    options = f"path '{written}', uid 'visits', state 'day', timeZone '{ZONE}'"
    spark.sql(f"CREATE TABLE commented USING `flink-savepoint` OPTIONS ({options})")
    try:
        shown = {row.col_name: row.comment for row in spark.sql("DESCRIBE commented").collect()}
        assert shown == {"key": None, "value": f"SQL_DATE is read {ADVICE_OF_FORMAT}"}
    finally:
        spark.sql("DROP TABLE commented")


def test_joins_and_writes_of_commented_columns(spark: SparkSession, written: str, tmp_path: Any) -> None:
    reader = sp.SavepointReader.read(spark, written, time_zone=ZONE)
    days = reader.read_keyed_state("visits", "day")
    joined = days.join(reader.read_keyed_state("visits", "visit").withColumnRenamed("value", "visit"), "key")
    kept = joined.union(spark.createDataFrame(joined.collect(), joined.schema)).distinct().select("key", "value")
    assert [tuple(row) for row in kept.collect()] == [("a", DAY)]
    writer = sp.SavepointWriter.from_existing(spark, written, time_zone=ZONE)
    writer.update_keyed_state("visits", "day", kept.selectExpr("key", "date_add(value, 1) AS value")).write(tmp_path / "changed")
    (batch,) = sp.arrow.read_state(tmp_path / "changed", "visits", "day", time_zone=ZONE)
    assert batch.column("value").to_pylist() == [date(2024, 3, 1)]
