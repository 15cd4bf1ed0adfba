"""Several calls for one operator: the last one counts, or the combination is refused; and which keys are the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.serializers.hash_codes import hash_codes
from tests.state_processor.samples import ORDERS_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = sp.Types
ACCOUNT = {"a": T.LONG(), "b": T.STRING()}
EVOLVED = T.POJO("com.acme.Account", ACCOUNT | {"c": T.INT()})
COLUMNS = "key, total, history"
STATES = {"total": sp.ValueState(T.LONG()), "history": sp.ListState(T.LONG())}


def values(path: object, state: str, uid: str = "o") -> dict[str, Any]:
    batches = sp.arrow.read_state(str(path), uid, state, flatten=False)
    return {str(row["key"]): row["value"] for batch in batches for row in batch.to_pylist()}


def base(spark: SparkSession, path: Path, rows: str, **arguments: Any) -> sp.SavepointWriter:
    df = spark.sql(f"SELECT * FROM VALUES {rows} t({COLUMNS})")
    sp.SavepointWriter.new(spark).with_keyed_state("o", df, states=STATES, **arguments).write(path / "base")
    return sp.SavepointWriter.from_existing(spark, path / "base")


DOUBLES = "(double('-0.0'), 1L, array(1L)), (0.0D, 2L, array(2L)), (double('NaN'), 3L, array(3L))"
TEXTS = "('a', 1L, array(1L)), ('A', 2L, array(2L))"
CASES = [
    (DOUBLES, "-0.0", "double('-0.0')", "0.0", "0.0D"),
    (TEXTS, "A", "collate('A', 'UTF8_LCASE')", "a", "collate('a', 'UTF8_LCASE')"),
]


@pytest.mark.parametrize(("rows", "one", "one_sql", "other", "other_sql"), CASES)
def test_keys_that_only_spark_takes_for_equal(
    spark: SparkSession, tmp_path: Path, rows: str, one: str, one_sql: str, other: str, other_sql: str
) -> None:
    writer = base(spark, tmp_path, rows)
    elements = f"({one_sql}, 0, 10L), ({one_sql}, 1, 11L), ({other_sql}, 0, 20L)"
    writer.update_keyed_state("o", "history", spark.sql(f"SELECT * FROM VALUES {elements} t(key, list_index, list_value)"))
    for key, value in ((one_sql, 70), (other_sql, 80)):
        writer.update_keyed_state("o", "total", spark.sql(f"SELECT {key} AS key, {value}L AS value"))
    writer.write(tmp_path / "new")
    left = {"nan": 3} if one == "-0.0" else {}
    assert values(tmp_path / "new", "total") == {one: 70, other: 80, **left}
    assert values(tmp_path / "new", "history") == {one: [10, 11], other: [20], **{k: [v] for k, v in left.items()}}


def test_decimals_of_another_scale_are_other_keys(spark: SparkSession, tmp_path: Path) -> None:
    writer = base(spark, tmp_path, "('1.0', 1L, array(1L))", key_type=T.BIG_DEC())
    writer.update_keyed_state("o", "total", spark.sql("SELECT '1.0' AS key, 70L AS value"))
    writer.update_keyed_state("o", "total", spark.sql("SELECT CAST(1.00BD AS STRING) AS key, 80L AS value"))
    writer.write(tmp_path / "new")
    assert values(tmp_path / "new", "total") == {"1.0": 70, "1.00": 80}
    with pytest.raises(sp.InvalidRowError, match=r"column 'key' is bigint, .* before string: .*give both in one type"):
        writer.delete_keys("o", spark.sql("SELECT 1L AS key"))


DECIMAL = "CAST(1.1BD AS decimal(38,18))"
DECIMAL_KEYS: list[tuple[str, str, Callable[[sp.SavepointWriter, SparkSession], Any]]] = [
    ("key", "new states", lambda w, s: w.with_keyed_state("o", s.sql(f"SELECT {DECIMAL} AS key, 1L AS v"))),
    ("key", "updates", lambda w, s: w.update_keyed_state("o", "total", s.sql(f"SELECT {DECIMAL} AS key, 1L AS value"))),
    ("key", "deletions", lambda w, s: w.delete_keys("o", s.sql(f"SELECT {DECIMAL} AS key"))),
]


@pytest.mark.parametrize(("column", "call"), [(c, f) for c, _, f in DECIMAL_KEYS], ids=[name for _, name, _ in DECIMAL_KEYS])
def test_decimal_columns_are_no_keys(spark: SparkSession, tmp_path: Path, column: str, call: Callable[..., Any]) -> None:
    """They would get the scale of the column: 1.1 of decimal(38,18) is another key than the job's 1.1."""
    writer = base(spark, tmp_path, "('1.1', 1L, array(1L))", key_type=T.BIG_DEC())
    with pytest.raises(sp.InvalidRowError, match=rf"'{re.escape(column)}' is of Spark type decimal\(38,18\), .* scale 18;"):
        call(writer, spark)


def test_new_keys_have_the_scale_of_their_column(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql(f"SELECT {DECIMAL} AS key, map(1.10BD, 1L) AS v")
    states = {"v": sp.MapState(T.BIG_DEC(), T.LONG())}
    sp.SavepointWriter.new(spark).with_keyed_state("o", rows, key_type=T.BIG_DEC(), states=states).write(tmp_path / "new")
    assert values(tmp_path / "new", "v") == {"1.100000000000000000": [("1.10", 1)]}


def test_keys_to_look_up_have_the_scale_of_their_text(spark: SparkSession, tmp_path: Path) -> None:
    """A list of numbers keeps the scale of each; a column of decimals has one for all, and is refused."""
    base(spark, tmp_path, "('1.1', 1L, array(1L)), ('2.00', 2L, array(2L))", key_type=T.BIG_DEC())
    reader = sp.SavepointReader.read(spark, tmp_path / "base")
    keys = [Decimal("1.1"), Decimal("2.00"), Decimal("1.10")]
    for given in (keys, list(map(str, keys)), spark.createDataFrame([(str(key),) for key in keys], "key string")):
        found = reader.read_keyed_state("o", "total", keys=given).collect()
        assert sorted(row["key"] for row in found) == ["1.1", "2.00"]
    with pytest.raises(sp.OptionError, match=r"column 'key' is of Spark type decimal\(3,2\), .*CAST\(key AS string\) has 2"):
        reader.read_keyed_state("o", "total", keys=spark.createDataFrame([(key,) for key in keys], "key decimal(3,2)"))
    assert hash_codes(T.BIG_DEC(), pa.array(["1.1", "1.10"])).tolist() == [11 * 31 + 1, 110 * 31 + 2]  # BigDecimal.hashCode


def test_a_state_that_is_replaced_forgets_its_updates(spark: SparkSession, tmp_path: Path) -> None:
    writer = base(spark, tmp_path, TEXTS)
    writer.update_keyed_state("o", "total", spark.sql("SELECT 'z' AS key, 50L AS value"))
    writer.with_keyed_state("o", spark.sql("SELECT 'x' AS key, 'text' AS total")).write(tmp_path / "new")
    assert values(tmp_path / "new", "total") == {"x": "text"}


def test_a_state_that_is_removed_is_not_written(spark: SparkSession, tmp_path: Path) -> None:
    writer = base(spark, tmp_path, TEXTS)
    writer.with_keyed_state("o", spark.sql("SELECT 'x' AS key, 1L AS total, 2L AS other"))
    writer.remove_state("o", "total")
    with pytest.raises(sp.NotFoundError, match="total"):
        writer.remove_state("o", "total")
    summary = writer.write(tmp_path / "new")
    assert set(summary.operators[0].states) == {"history", "other"}
    assert values(tmp_path / "new", "other") == {"x": 2}


def test_keys_are_deleted_from_what_was_added_too(spark: SparkSession, tmp_path: Path) -> None:
    writer = base(spark, tmp_path, TEXTS)
    both = spark.sql("SELECT * FROM VALUES ('a', 5L), ('b', 6L) t(key, total)")
    gone = spark.sql("SELECT 'a' AS key")
    writer.with_keyed_state("o", both).delete_keys("o", gone)
    writer.with_keyed_state("new", both).delete_keys("new", gone)
    with pytest.raises(sp.InvalidRowError, match="operator new: state 'total': column 'key' is of Spark type int"):
        writer.delete_keys("new", spark.sql("SELECT 1 AS key"))
    writer.write(tmp_path / "new")
    assert values(tmp_path / "new", "total") == values(tmp_path / "new", "total", "new") == {"b": 6}
    assert values(tmp_path / "new", "history") == {"A": [2]}


def test_evolving_undoes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.sql("SELECT key, named_struct('a', 1L, 'b', 'x') AS account FROM VALUES ('a'), ('b') t(key)")
    states = {"account": sp.ValueState(T.POJO("com.acme.Account", ACCOUNT))}
    sp.SavepointWriter.new(spark).with_keyed_state("o", df, states=states).write(tmp_path / "base")
    gone = spark.sql("SELECT 'a' AS key")
    for names in ((), ("account",)):
        writer = sp.SavepointWriter.from_existing(spark, tmp_path / "base").delete_keys("o", gone, *names)
        with pytest.raises(sp.OptionError, match="operator o, state 'account' was changed before"):
            writer.evolve_state("o", "account", EVOLVED)
    writer = sp.SavepointWriter.from_existing(spark, tmp_path / "base")
    writer.update_keyed_state("o", "account", df.withColumnRenamed("account", "value"))
    with pytest.raises(sp.OptionError, match="operator o, state 'account' was changed before"):
        writer.evolve_state("o", "account", EVOLVED)
    writer = sp.SavepointWriter.from_existing(spark, tmp_path / "base")
    writer.evolve_state("o", "account", EVOLVED).delete_keys("o", gone).write(tmp_path / "new")
    assert values(tmp_path / "new", "account") == {"b": {"a": 1, "b": "x", "c": 0}}


def test_keyed_and_operator_state_of_one_name(spark: SparkSession) -> None:
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    with pytest.raises(sp.OptionError, match="'total' is keyed state of the source savepoint, which would be lost"):
        writer.with_list_state("orders", "total", spark.range(1))
    with pytest.raises(sp.OptionError, match="'discounts' is operator state of the source savepoint"):
        writer.with_keyed_state("catalog", spark.sql("SELECT 'a' AS key, 1L AS discounts"))


def test_no_timers_are_no_change_that_is_passed_over(spark: SparkSession) -> None:
    none = spark.sql("SELECT 'a' AS key, 1L AS timestamp WHERE false")
    writer = sp.SavepointWriter.from_existing(spark, ORDERS_PATH)
    with pytest.raises(sp.OptionError, match=r"operator orders: there are no rows.*remove_state for '_timer_state/.*event_user"):
        writer.with_timers("orders", none)


@pytest.mark.parametrize("number", ["0", "１２"])
def test_a_max_parallelism_that_is_none(spark: SparkSession, tmp_path: Path, number: str) -> None:
    rows = spark.sql("SELECT 'a' AS key, 1L AS total").write.format("flink-savepoint").option("uid", "o").mode("append")
    with pytest.raises(Exception, match=r"maxParallelism='0': expected a number of at least 1|maxParallelism='１２'"):
        rows.option("maxParallelism", number).save(str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_window_that_no_state_takes(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 'a' AS key, window(timestamp'2024-01-01 00:00:00', '1 minute') AS window, 1L AS total")
    writer = sp.SavepointWriter.new(spark)
    with pytest.raises(sp.InvalidRowError, match="operator o: column 'window' would be ignored: no state has windows"):
        writer.with_keyed_state("o", rows, states={"total": T.LONG()})


def test_keys_of_one_class_with_other_fields(spark: SparkSession) -> None:
    kinds = [T.POJO("com.acme.Key", {"id": type_}) for type_ in (T.LONG(), T.INT())]
    rows = spark.sql("SELECT named_struct('id', 1) AS key, 1L AS a, 2L AS b")
    hashed: dict[str, Any] = {"key_hash": lambda keys: np.ones(len(keys), dtype=np.int32)}
    writer = sp.SavepointWriter.new(spark).with_keyed_state("o", rows, states={"a": T.LONG()}, key_type=kinds[0], **hashed)
    writer.with_keyed_state("o", rows, states={"b": T.LONG()}, key_type=kinds[0], **hashed)
    with pytest.raises(sp.OptionError, match=r"has keys of type POJO<com\.acme\.Key>"):
        writer.with_keyed_state("o", rows, states={"c": T.LONG()}, key_type=kinds[1], **hashed)


def test_elements_that_are_maps_come_in_rows(spark: SparkSession, tmp_path: Path) -> None:
    states = {"maps": sp.ListState(T.MAP(T.STRING(), T.LONG()))}
    rows = spark.sql("SELECT 'k' AS key, array(map('a', 1L)) AS maps")
    sp.SavepointWriter.new(spark).with_keyed_state("o", rows, states=states).write(tmp_path / "base")
    elements = ", ".join(f"('k', {i}, map('n', {i}L))" for i in (11, *range(11)))
    df = spark.sql(f"SELECT * FROM VALUES {elements} t(key, list_index, list_value)")
    sp.SavepointWriter.from_existing(spark, tmp_path / "base").update_keyed_state("o", "maps", df).write(tmp_path / "new")
    assert values(tmp_path / "new", "maps") == {"k": [[("n", i)] for i in range(12)]}
