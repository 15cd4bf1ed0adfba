"""Differences between a savepoint and one that was written from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import state_processor as sp
from state_processor.cli import BAD_INPUT, main
from state_processor.errors import NotFoundError, OptionError, UnsupportedFormatError
from tests.state_processor.samples import ORDERS, ORDERS_PATH, expected_values
from tests.state_processor.written_checkpoints import take, take_regional
from tests.unknown_serializers import STRING, with_unknown_class

TOTALS = expected_values(ORDERS, "orders", "total")


@pytest.fixture(scope="module")
def changed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The shop with a changed, a new and a deleted total, an item less, and another discount."""
    target = str(tmp_path_factory.mktemp("changed") / "savepoint")
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    writer.update_keyed_state("orders", "total", spark.sql("SELECT 'amelia' key, 1L value UNION ALL SELECT 'zoe', 2L"))
    writer.delete_keys("orders", spark.sql("SELECT 'anders' key"), "total")
    writer.delete_map_entries("orders", "items", spark.sql("SELECT 'amelia' key, 'teapot' map_key"))
    writer.write(target)
    return target


def rows(found: Any) -> list[dict[str, Any]]:
    return sorted((r.asDict() for r in found.collect()), key=repr)


EXPECTED = [
    {"change": "delete", "key": "anders", "before": TOTALS["anders"], "after": None},
    {"change": "insert", "key": "zoe", "before": None, "after": 2},
    {"change": "update", "key": "amelia", "before": TOTALS["amelia"], "after": 1},
]


def test_one_state(spark: SparkSession, changed: str) -> None:
    assert rows(sp.diff(spark, ORDERS_PATH, changed, "orders", "total")) == EXPECTED
    assert rows(sp.diff(spark, ORDERS_PATH, changed, "orders", "profile")) == []
    batches = list(sp.arrow.diff(ORDERS_PATH, changed, "orders", "total"))
    assert sorted((row for b in batches for row in b.to_pylist()), key=repr) == EXPECTED


def test_all_states(spark: SparkSession, changed: str) -> None:
    found = rows(sp.diff(spark, ORDERS_PATH, changed))
    assert {(r["operator_uid"], r["state_name"]) for r in found} == {("orders", "total"), ("orders", "items")}
    (item,) = [r for r in found if r["state_name"] == "items"]
    before = dict(expected_values(ORDERS, "orders", "items")["amelia"])["teapot"]
    assert (item["change"], item["key"], item["map_key"], item["before"]) == ("delete", '"amelia"', '"teapot"', str(before))
    assert rows(sp.diff(spark, ORDERS_PATH, ORDERS_PATH)) == []


def test_summary(changed: str) -> None:
    found = {r["state_name"]: r for r in sp.arrow.diff_summary(ORDERS_PATH, changed).to_pylist()}
    assert len(found) == sp.arrow.states(ORDERS_PATH).num_rows
    counts = {name: (row["inserts"], row["deletes"], row["updates"]) for name, row in found.items()}
    assert {name: count for name, count in counts.items() if any(count)} == {"total": (1, 1, 1), "items": (0, 1, 0)}
    assert (found["total"]["type_before"], found["total"]["type_after"]) == ("LONG", "LONG")
    sizes = {r["state_name"]: r["size_in_bytes"] for r in sp.arrow.size_report(ORDERS_PATH, by="state").to_pylist()}
    assert {n: r["bytes_before"] for n, r in found.items() if n in sizes} == sizes
    assert found["items"]["bytes_after"] < found["items"]["bytes_before"] == sizes["items"]
    assert {r["renamed_from"] for r in found.values()} == {None}


def shop(path: Path, by_text: str, total: int, kind: Any) -> Path:
    """Write an operator with text keys, and one with numbers as keys."""
    writer = sp.arrow.SavepointWriter.new(1, "2.3")
    writer.with_keyed_state("texts", [{"key": "a", "name": by_text}], states={"name": sp.ValueState(sp.Types.STRING())})
    states = {"total": sp.ValueState(sp.Types.LONG()), "last": kind}
    writer.with_keyed_state("numbers", [{"key": 1, "total": total, "last": None}], key_type=sp.Types.LONG(), states=states)
    writer.write(path)
    return path


def test_states_that_cant_be_compared_are_named(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys can't be read in the old savepoint, and a state is of another kind in the new one; the others are compared."""
    value, elements = sp.ValueState(sp.Types.LONG()), sp.ListState(sp.Types.LONG())
    old = str(with_unknown_class(shop(tmp_path / "1", "x", 5, value), STRING, tmp_path / "old"))
    new = str(shop(tmp_path / "new", "y", 6, elements))
    whole = sp.arrow.diff(old, new).read_all().to_pylist()
    reasons = {row["state_name"]: row["after"] for row in whole if row["change"] == "not compared"}
    assert reasons.keys() == {"name", "last"}
    assert "com.acme." in reasons["name"]
    assert "VALUE in one snapshot and LIST in the other" in reasons["last"]
    assert [(row["state_name"], row["after"]) for row in whole if row["change"] == "update"] == [("total", "6")]
    assert rows(sp.diff(spark, old, new)) == sorted(whole, key=repr)
    summary = {row["state_name"]: row for row in sp.arrow.diff_summary(old, new).to_pylist()}
    assert {name for name, row in summary.items() if row["not_compared"]} == reasons.keys()
    assert {summary["name"][column] for column in ("inserts", "deletes", "updates", "method")} == {None}
    assert summary["total"]["updates"] == 1
    with pytest.raises(UnsupportedFormatError, match=r"com\.acme\."):
        sp.arrow.diff(old, new, "texts", "name")
    codes = [main(["diff", *words]) for words in ([old, new], [old, new, "--exit-code"], [old, old, "--exit-code"])]
    assert codes == [3, 1, 3]
    assert "Not compared: name of texts: " in capsys.readouterr().out
    assert main(["diff", old, new, "--json"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert {json.loads(line)["state_name"] for line in lines} == {"name", "last", "total"}


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> str:
    target = str(tmp_path_factory.mktemp("renamed") / "savepoint")
    assert main(["rename-uid", ORDERS_PATH, target, "--from", "orders", "--to", "customers"]) == 0
    return target


def test_renamed_operators(renamed: str) -> None:
    """An operator with another uid is compared with the only one that has its states."""
    found = sp.arrow.diff_summary(ORDERS_PATH, renamed).to_pylist()
    assert {r["operator_uid"]: r["renamed_from"] for r in found} == {"customers": "orders", "catalog": None}
    assert not any(r["inserts"] or r["deletes"] or r["updates"] for r in found)
    for uid in ("orders", "customers"):
        assert {r["operator_uid"] for r in sp.arrow.diff_summary(ORDERS_PATH, renamed, uid).to_pylist()} == {"customers"}
    assert sum(batch.num_rows for batch in sp.arrow.diff(ORDERS_PATH, renamed, "customers", "total")) == 0


def test_operators_with_the_same_states_are_not_taken_for_each_other(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("SELECT 1L AS key, 2L AS v")
    for path, uids in (("old", ("a",)), ("new", ("b", "c"))):
        writer = sp.SavepointWriter.new(spark, flink_version="2.3")
        for uid in uids:
            writer.with_keyed_state(uid, rows)
        writer.write(tmp_path / path)
    found = sp.arrow.diff_summary(tmp_path / "old", tmp_path / "new").to_pylist()
    assert {r["operator_uid"]: (r["renamed_from"], r["inserts"], r["deletes"]) for r in found} == {
        "a": (None, 0, 1),
        "b": (None, 1, 0),
        "c": (None, 1, 0),
    }


def test_exit_codes(changed: str, renamed: str, capsys: pytest.CaptureFixture[str]) -> None:
    def diff(*arguments: str) -> tuple[int, str]:
        code = main(["diff", ORDERS_PATH, *arguments])
        return code, capsys.readouterr().out

    code, out = diff(changed, "--exit-code")
    assert code == 1
    assert [line.split()[1] for line in out.splitlines()[2:]] == ["total", "items"]
    assert len(diff(changed, "--all")[1].splitlines()) == 12
    assert diff(ORDERS_PATH, "--exit-code") == (0, "No differences in 10 states\n")
    code, out = diff(renamed, "--exit-code")
    assert (code, out.splitlines()[0].split(":")[0]) == (1, "Operator customers was orders")
    for state, code in (("total", 1), ("profile", 0)):
        assert diff(changed, "--uid", "orders", "--state", state, "--exit-code")[0] == code
        assert diff(changed, "--uid", "orders", "--state", state)[0] == 0
    assert diff(changed, "--uid", "orders", "--state", "profile")[1] == "No differences in state 'profile' of operator 'orders'\n"
    assert diff(changed, "--uid", "orders", "--state", "profile", "--json") == (0, "")
    assert diff("/nowhere", "--exit-code")[0] == BAD_INPUT
    assert main(["diff", ORDERS_PATH, changed, "--uid", "orders", "--state", "total", "--all"]) == BAD_INPUT


@pytest.mark.parametrize("form", ["rocksdb-canonical", "rocksdb-native", "rocksdb-incremental", "hashmap-native"])
def test_the_same_job_on_other_backends(form: str) -> None:
    (other,) = (ORDERS.parent / f"orders-{form}").glob("**/_metadata")
    found = sp.arrow.diff_summary(ORDERS_PATH, other.parent).to_pylist()
    assert len(found) == 10
    assert [r["state_name"] for r in found if r["inserts"] or r["deletes"] or r["updates"]] == []


def test_command(changed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", ORDERS_PATH, changed, "--uid", "orders", "--state", "total", "--json"]) == 0
    assert sorted(map(json.loads, capsys.readouterr().out.splitlines()), key=repr) == EXPECTED
    assert main(["diff", ORDERS_PATH, changed]) == 0
    assert "total" in capsys.readouterr().out
    assert main(["diff", ORDERS_PATH, changed, "--state", "total"]) == BAD_INPUT
    assert "also name the operator" in capsys.readouterr().err


def test_mistakes(spark: SparkSession, changed: str, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="Did you mean 'orders'"):
        sp.diff(spark, ORDERS_PATH, changed, "order")
    with pytest.raises(NotFoundError, match="Did you mean 'total'"):
        sp.diff(spark, ORDERS_PATH, changed, "orders", "totl")
    with pytest.raises(OptionError, match="name the operator"):
        sp.diff(spark, ORDERS_PATH, changed, state="total")


@pytest.mark.parametrize("is_later", [True, False])
def test_a_regional_checkpoint_mixes_several_times(
    is_later: bool, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    take(tmp_path, 1)
    before = take(tmp_path, 2, {"amelia": 5, "k": 6})
    take(tmp_path, 3, {"amelia": 7, "k": 8})
    mixed = take_regional(tmp_path, 3, earlier=1)
    pair = (before, mixed) if is_later else (mixed, before)
    expected = f"checkpoint 3 in {mixed} mixes several times: 1 of 2 subtasks of operator 'orders' have the state of checkpoint 1"
    difference = sp.arrow.diff(*pair, "orders", "total")
    assert [note.startswith(expected) for note in difference.notes] == [True]
    sp.diff(spark, *pair)
    sp.arrow.diff_summary(*pair, "orders")
    assert [record.message.startswith(expected) for record in caplog.records] == [True] * 3
    assert sp.arrow.diff(*pair, "catalog", "discounts").notes == ()
