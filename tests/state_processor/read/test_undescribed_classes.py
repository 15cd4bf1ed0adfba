"""Values of subclasses that a snapshot does not describe: bytes where they are asked for, and the same bytes when written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import state_processor as sp
from state_processor.serializers.registry import Registrations, register
from tests import hidden_subclasses as hidden

COLUMNS = {"shapes": "value", "timed": "value", "by-name": "map_value"}


@pytest.fixture(autouse=True)
def undescribed(own_registrations: None) -> None:
    """Other tests describe the same classes."""
    register(lambda _: Registrations())


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hidden.savepoint(tmp_path_factory.mktemp("hidden") / "savepoint")


def read(path: Path, state: str, **options: Any) -> list[Any]:
    batches = sp.arrow.read_state(path, "shapes", state, undescribed="bytes", **options)
    rows = sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: int(row["key"]))
    return [row[COLUMNS[state]] for row in rows]


def square(row: dict[str, Any]) -> bytes:
    """The bytes of a square, as the state has them."""
    return hidden.SHAPES.serialize(hidden.SHAPES.from_column(row))


@pytest.mark.parametrize("state", COLUMNS)
def test_they_are_bytes_where_asked_for(state: str, base: Path) -> None:
    with pytest.raises(sp.UndecodableValueError, match=hidden.SQUARE):
        list(sp.arrow.read_state(base, "shapes", state))
    found = read(base, state)
    assert [row["_class"] for row in found] == [row["_class"] for row in hidden.ROWS]
    assert [(row["name"], row["order"], row["_bytes"]) for row in found[::2]] == [("plain", 1, None), (None, 3, None)]
    for row, expected in zip(found[1::2], hidden.ROWS[1::2], strict=True):
        assert {name: value for name, value in row.items() if value is not None} == {
            "_class": hidden.SQUARE,
            "_bytes": square(expected),
        }


def test_they_are_written_as_they_were(base: Path, spark: SparkSession, tmp_path: Path) -> None:
    reader, writer = sp.SavepointReader.read(spark, base), sp.SavepointWriter.from_existing(spark, base)
    for state, column in COLUMNS.items():
        rows = reader.read_keyed_state("shapes", state, undescribed="bytes")
        shouted = f.when(f.col(f"{column}._bytes").isNull(), f.upper(f"{column}.name"))
        writer.update_keyed_state("shapes", state, rows.withColumn(column, f.col(column).withField("name", shouted)))
    writer.write(tmp_path / "savepoint")
    for state in COLUMNS:
        before, after = read(base, state), read(tmp_path / "savepoint", state)
        assert after[1::2] == before[1::2]
        assert [row["name"] for row in after] == ["PLAIN", None, None, None]


def test_bytes_and_fields_together_are_refused(base: Path, spark: SparkSession, tmp_path: Path) -> None:
    rows = sp.SavepointReader.read(spark, base).read_keyed_state("shapes", "shapes", undescribed="bytes")
    rows = rows.withColumn("value", f.col("value").withField("name", f.lit("both")))
    writer = sp.SavepointWriter.from_existing(spark, base).update_keyed_state("shapes", "shapes", rows)
    with pytest.raises(sp.InvalidRowError, match="the field 'name' of a value with _bytes, but the bytes are the whole value"):
        writer.write(tmp_path / "savepoint")


def test_option(base: Path, spark: SparkSession) -> None:
    source = spark.read.format("flink-savepoint").option("uid", "shapes").option("state", "shapes")
    assert source.option("undescribed", "bytes").load(str(base)).where("value._bytes IS NOT NULL").count() == 2
    with pytest.raises(sp.OptionError, match="undescribed='raw': expected one of 'error', 'bytes'"):
        next(sp.arrow.read_state(base, "shapes", "shapes", undescribed="raw"))
