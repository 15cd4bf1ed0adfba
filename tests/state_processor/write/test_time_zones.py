"""The zone of the job's JVM, through every method that takes the path of a snapshot."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = sp.Types
ZONE = "Asia/Kolkata"
DAYS = [date(1, 1, 3), date(1500, 1, 1), date(1900, 1, 1), date(2024, 2, 29)]
BEFORE = [date(1, 1, 2), date(1499, 12, 31), date(1899, 12, 31), date(2024, 2, 28)]
"""The days on which these begin in UTC."""


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Days as keys, values and elements, written for a JVM in a zone."""
    path = str(tmp_path_factory.mktemp("zones") / "savepoint")
    rows = spark.createDataFrame([(day, day, "08:30:00") for day in DAYS], "key date, day date, clock string")
    writer = sp.SavepointWriter.new(spark, time_zone=ZONE)
    states = {"day": sp.ValueState(T.SQL_DATE()), "clock": sp.ValueState(T.SQL_TIME())}
    writer.with_keyed_state("visits", rows, key_type=T.SQL_DATE(), states=states)
    days = spark.createDataFrame([(day, day) for day in DAYS], "key date, value date")
    writer.with_list_state("visits", "listed", days.select("value"), T.SQL_DATE())
    writer.with_broadcast_state("visits", "sent", days, T.SQL_DATE(), T.SQL_DATE())
    writer.write(path)
    return path


def column(path: str, state: str | None, name: str, **options: Any) -> list[Any]:
    batches = list(sp.arrow.read_state(path, "visits", state, **options))
    return sorted(value for batch in batches for value in batch.column(name).to_pylist())


COLUMNS = [("day", "key"), ("day", "value"), ("listed", "value"), ("sent", "key"), ("sent", "value")]


@pytest.mark.parametrize(("state", "name"), COLUMNS)
def test_days_are_those_of_the_zone(written: str, state: str, name: str) -> None:
    assert column(written, state, name, time_zone=ZONE) == DAYS
    assert column(written, state, name) == BEFORE
    assert column(written, state, name, time_zone="+05:30") == DAYS


def test_times_of_day_are_those_of_the_zone(written: str) -> None:
    assert set(column(written, "clock", "value", time_zone=ZONE)) == {"08:30:00"}
    assert set(column(written, "clock", "value")) == {"03:00:00"}


def test_a_write_reports_the_zone_of_its_dates(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("SELECT 1L AS key, array(array(DATE '2024-02-29')) AS v")
    zones = []
    for number, (value, options) in enumerate([(T.SQL_DATE(), {}), (T.SQL_DATE(), {"time_zone": ZONE}), (T.LOCAL_DATE(), {})]):
        writer = sp.SavepointWriter.new(spark, **options).with_keyed_state("o", rows, states={"v": sp.ListState(T.LIST(value))})
        zones.append(writer.write(tmp_path / str(number)).time_zone)
    assert zones == ["UTC", ZONE, None]


def test_keys_are_found_in_the_zone(written: str) -> None:
    found = column(written, "day", "key", time_zone=ZONE, keys=DAYS[1:3])
    assert found == DAYS[1:3]
    assert column(written, None, "key", time_zone=ZONE, keys=DAYS[1:3]) == DAYS[1:3]
    assert sp.arrow.lookup(written, "visits", DAYS[3], time_zone=ZONE).states["day"].column("value").to_pylist() == [DAYS[3]]
    assert column(written, "day", "key", keys=DAYS[1:3]) == []


def test_spark_reads_and_changes_in_the_zone(spark: SparkSession, written: str, tmp_path: Path) -> None:
    read = spark.read.format("flink-savepoint").option("uid", "visits").option("state", "day").option("timeZone", ZONE)
    assert sorted(row.value for row in read.load(written).collect()) == DAYS
    changed = str(tmp_path / "changed")
    writer = sp.SavepointWriter.from_existing(spark, written, time_zone=ZONE)
    writer.delete_keys("visits", spark.createDataFrame([(DAYS[0],)], "key date"))
    writer.update_keyed_state("visits", "day", spark.createDataFrame([(DAYS[3], date(2024, 3, 1))], "key date, value date"))
    writer.write(changed)
    rows = sp.SavepointReader.read(spark, changed, time_zone=ZONE).read_keyed_state("visits", "day").collect()
    assert sorted((row.key, row.value) for row in rows) == [
        *zip(DAYS[1:3], DAYS[1:3], strict=True),
        (DAYS[3], date(2024, 3, 1)),
    ]


def test_the_command_line_takes_a_zone(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", written, "2024-02-29", "--uid", "visits", "--time-zone", ZONE]) == 0
    assert "2024-02-29" in capsys.readouterr().out


def test_an_unknown_zone_is_refused(written: str) -> None:
    with pytest.raises(sp.OptionError, match=r"time_zone='Mars': expected a time zone"):
        list(sp.arrow.read_state(written, "visits", "day", time_zone="Mars"))


def test_a_day_that_java_lacks_is_refused_with_its_key(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"key": ["a"], "day": [date(1582, 10, 10)]}).to_pandas()
    frame = spark.createDataFrame(rows, "key string, day date")
    writer = sp.SavepointWriter.new(spark).with_keyed_state("visits", frame, states={"day": T.SQL_DATE()})
    with pytest.raises(sp.InvalidRowError, match=r"1582, 10, 10.*is a day that java\.sql lacks"):
        writer.write(tmp_path / "refused")
