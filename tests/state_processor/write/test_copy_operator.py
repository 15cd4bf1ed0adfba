"""Operators of other snapshots that are copied as they are."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import state_processor as sp
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.cli import BAD_INPUT, main
from state_processor.support.errors import NotFoundError, OptionError, StateMigrationError, WriteError
from tests.snapshot_content import content
from tests.state_processor.samples import ORDERS_OF_1, ORDERS_PATH, WINDOWS_PATH
from tests.state_processor.write.test_migration import SOURCE as BASKETS
from tests.state_processor.write.test_migration import TYPES, described  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS_1_PATH = str(ORDERS_OF_1 / "savepoint")


def operators(path: Any) -> dict[str, Any]:
    """The content of operators by hash, without what identifies them."""
    snapshot = open_snapshot(str(path))
    _, metadata = content(snapshot)
    return {o["operator_id"]: {**o, "operator_id": None, "uid": None} for _, o in metadata["operators"]}


def uid_hash(uid: str) -> str:
    return sp.OperatorIdentifier.for_uid(uid).uid_hash


def totals(path: Any, uid: str) -> dict[Any, Any]:
    rows = sp.arrow.read_state(path, uid, "total").read_all().to_pylist()
    return {row["key"]: row["value"] for row in rows}


def test_bytes_stay_the_same(spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "savepoint"
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    writer.copy_operator(ORDERS_PATH, "orders", "copied").copy_operator(ORDERS_PATH, "catalog", "copied catalog")
    for operator in sp.open(WINDOWS_PATH).operators().to_pylist():
        writer.copy_operator(sp.open(WINDOWS_PATH), operator["operator_uid"] or operator["operator_uid_hash"])
    summary = writer.write(target)
    written, orders, windows = operators(target), operators(ORDERS_PATH), operators(WINDOWS_PATH)
    assert written[uid_hash("copied")] == written[uid_hash("orders")] == orders[uid_hash("orders")]
    assert written[uid_hash("copied catalog")] == orders[uid_hash("catalog")]
    assert {uid: written[uid] for uid in windows} == windows
    assert not summary.is_copy
    assert f"copied was copied from orders of {ORDERS_PATH}" in str(summary)


def test_operator_replaces_a_removed_one(tmp_path: Path) -> None:
    changed, target = tmp_path / "changed", tmp_path / "savepoint"
    sp.arrow.SavepointWriter.from_existing(ORDERS_PATH).update_keyed_state(
        "orders", "total", [{"key": "someone", "value": 5}]
    ).write(changed)
    writer = sp.arrow.SavepointWriter.from_existing(ORDERS_PATH).remove_operator("orders").copy_operator(changed, "orders")
    assert writer.write(target).removed_operators == ("orders",)
    assert operators(target)[uid_hash("orders")] == operators(changed)[uid_hash("orders")]


def test_rows_change_a_copied_operator(spark: SparkSession, tmp_path: Path) -> None:
    """All changes find the state in the other snapshot, under the new uid, also changes that read it."""
    target = tmp_path / "savepoint"
    writer = sp.SavepointWriter.from_existing(spark, WINDOWS_PATH).with_max_parallelism(64)
    writer.copy_operator(ORDERS_PATH, "orders", "copied").with_parallelism("copied", 3)
    writer.update_keyed_state("copied", "total", spark.createDataFrame([("someone", 5)], "key string, value long"))
    writer.delete_keys("copied", spark.createDataFrame([("amelia",)], "key string"))
    writer.remove_state("copied", "items").write(target)
    expected = {key: value for key, value in totals(ORDERS_PATH, "orders").items() if key != "amelia"} | {"someone": 5}
    assert totals(target, "copied") == expected
    reader = sp.open(target)
    (copied,) = (row for row in reader.operators().to_pylist() if row["operator_uid"] == "copied")
    assert (copied["operator_parallelism"], copied["operator_max_parallelism"]) == (3, 64)
    states = {row["state_name"]: row["ttl"] for row in reader.states().to_pylist() if row["operator_uid"] == "copied"}
    assert "items" not in states


def test_changes_that_read_a_copied_operator(spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "savepoint"
    writer = sp.SavepointWriter.from_existing(spark, WINDOWS_PATH).copy_operator(ORDERS_PATH, "orders", "copied")
    writer.with_ttl("copied", "history").evolve_state("copied", "total", sp.Types.LONG()).write(target)
    assert totals(target, "copied") == totals(ORDERS_PATH, "orders")
    assert {s["state_name"]: s["ttl"] for s in sp.open(target).states().to_pylist()}["history"] is True


@pytest.mark.usefixtures("described")
def test_values_of_kryo_are_migrated(tmp_path: Path) -> None:
    """Operators of several snapshots, one of them twice: each is read from its own files."""
    alone, together = tmp_path / "alone", tmp_path / "together"
    sp.arrow.SavepointWriter.from_existing(BASKETS).migrate("2.3", TYPES).write(alone)
    writer = sp.arrow.SavepointWriter.from_existing(ORDERS_1_PATH)
    for uid in ("baskets", "copied"):
        writer.copy_operator(BASKETS, "baskets", uid)
    writer.copy_operator(BASKETS, "lists")
    writer.migrate("2.3", TYPES | {"copied": TYPES["baskets"]}).write(together)
    expected, written = operators(alone), operators(together)
    for uid in ("baskets", "lists"):
        assert written[uid_hash(uid)]["subtasks"] == expected[uid_hash(uid)]["subtasks"]
    assert written[uid_hash("copied")]["subtasks"] == written[uid_hash("baskets")]["subtasks"]


def test_bytes_of_another_major_version_are_refused(tmp_path: Path) -> None:
    """Values that Kryo wrote have other bytes in Flink 2: without a label, the source savepoint says who restores the copy."""
    writer = sp.arrow.SavepointWriter.from_existing(ORDERS_PATH).copy_operator(BASKETS, "baskets")
    with pytest.raises(StateMigrationError, match=r"parts of the states of copied operators as they are.*call migrate\('2"):
        writer.write(tmp_path / "savepoint")
    assert "copied from" in str(
        writer.remove_operator("baskets").copy_operator(ORDERS_1_PATH, "orders", "x").write(tmp_path / "2")
    )


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((ORDERS_PATH, "orders"), OptionError, "operator orders has state already, which would be lost; give as_uid"),
        ((ORDERS_PATH, "order", "x"), NotFoundError, "'orders'"),
    ],
)
def test_refusals(arguments: tuple[str, ...], error: type[Exception], message: str) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(ORDERS_PATH)
    with pytest.raises(error, match=message):
        writer.copy_operator(*arguments)


def test_other_snapshot_is_a_source(tmp_path: Path) -> None:
    """It is never written into, and must not be replaced before the copy is complete."""
    other = tmp_path / "other"
    shutil.copytree(ORDERS_PATH, other)
    writer = sp.arrow.SavepointWriter.new(flink_version="2.3").copy_operator(other, "orders")
    with pytest.raises(OptionError, match="A source savepoint is never changed"):
        writer.write(other / "inside")
    shutil.rmtree(other)
    shutil.copytree(WINDOWS_PATH, other)
    with pytest.raises(WriteError, match="was replaced or removed since it was opened"):
        writer.write(tmp_path / "savepoint")


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "savepoint")
    command = ["copy-operator", WINDOWS_PATH, target, "--from", ORDERS_PATH, "--uid", "orders"]
    assert main([*command, "--as", "copied"]) == 0
    assert "copied was copied from orders of" in capsys.readouterr().out
    assert operators(target)[uid_hash("copied")] == operators(ORDERS_PATH)[uid_hash("orders")]
    assert main([*command, "--as", "copied", "--overwrite", "--from", target]) == BAD_INPUT
