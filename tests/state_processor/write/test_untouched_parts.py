"""Read, change, write: unchanged values that Kryo wrote keep their bytes, and changed values keep their classes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import state_processor as sp
from state_processor.serializers.kryo.serializer import KryoValue
from tests import baskets

T = sp.Types
HEAP, ROCKSDB = (path / "savepoint" for path in (baskets.HEAP, baskets.ROCKSDB))


@pytest.fixture(scope="module", params=[HEAP, ROCKSDB], ids=["heap", "rocksdb"])
def base(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture(scope="module")
def updated(base: Path, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All states with another owner in each basket."""
    target = tmp_path_factory.mktemp("updated") / "savepoint"
    baskets.with_other_owners(spark, base, flatten=base == ROCKSDB).write(target)
    return target


@pytest.mark.parametrize("state", baskets.STATES)
def test_untouched_fields_keep_their_bytes(state: str, base: Path, updated: Path) -> None:
    before, after = baskets.values(base, state), baskets.values(updated, state)
    assert before.keys() == after.keys()
    assert len(before) > 10
    holding = set()
    for place, old in before.items():
        was, is_ = baskets.basket_of(state, old), baskets.basket_of(state, after[place])
        assert is_["owner"] == (None if was["owner"] is None else was["owner"] + "!")
        for name in was.keys() - {"owner"}:
            assert baskets.raw(is_[name]) == baskets.raw(was[name]), name
            holding |= {name} if isinstance(was[name], KryoValue) and was[name].value else set()
    assert {"items", "counts", "lines", "nested", "tiers", "days"} <= holding


def test_changed_fields_keep_their_classes(base: Path, spark: SparkSession, tmp_path: Path) -> None:
    baskets.with_more(spark, base).write(tmp_path / "savepoint")
    before, after = baskets.values(base, "basket"), baskets.values(tmp_path / "savepoint", "basket")
    grown = set()
    for place, was in before.items():
        is_ = after[place]
        for name in was:
            if name not in ("codes", "items") or was[name] is None:
                assert baskets.raw(is_[name]) == baskets.raw(was[name])
                continue
            assert [*is_[name].value] == [*was[name].value, 5 if name == "codes" else "last"]
            if was[name].value:
                assert is_[name].node.class_name == was[name].node.class_name
                grown.add(was[name].node.class_name)
    assert grown == {f"java.util.{name}" for name in ("ArrayList", "LinkedList", "HashSet", "LinkedHashSet", "TreeSet")}


def test_types_from_values(base: Path, spark: SparkSession) -> None:
    rows = sp.SavepointReader.read(spark, base).read_keyed_state("baskets", "basket", infer_kryo=True)
    types = {field.name: field.dataType.simpleString() for field in rows.schema["value"].dataType}
    assert types["counts"] == "map<string,int>"
    assert types["items"] == "array<string>"
    assert types["never"] == types["nested"] == "string"  # always empty; lists of lists
    beside = sp.SavepointReader.read(spark, base).read_keyed_state("baskets", infer_kryo=True)
    assert {f.name: f.dataType.simpleString() for f in beside.schema["history"].dataType.elementType} == types


def test_what_can_not_be_encoded_is_named(base: Path, spark: SparkSession, tmp_path: Path) -> None:
    rows = sp.SavepointReader.read(spark, base).read_keyed_state("baskets", "basket")
    rows = baskets.changed(rows, "value", counts=f.lit('{"new": 5}'))
    writer = sp.SavepointWriter.from_existing(spark, base).update_keyed_state("baskets", "basket", rows)
    with pytest.raises(sp.InvalidRowError, match=r"state 'basket', key '.*': value.counts: {\"new\": 5} differs from") as refused:
        writer.write(tmp_path / "savepoint")
    assert "declare the content of the part by types" in str(refused.value)


def test_columns_that_need_types(spark: SparkSession) -> None:
    rows = sp.SavepointReader.read(spark, HEAP).read_keyed_state("baskets", "basket", types=baskets.DECLARED)
    writer = sp.SavepointWriter.from_existing(spark, HEAP)
    with pytest.raises(sp.InvalidRowError, match=r"takes string there.*declare its type by types={'value.codes': '…'}"):
        writer.update_keyed_state("baskets", "basket", rows)
    writer.update_keyed_state("baskets", "basket", rows, types=baskets.DECLARED)
    plain = sp.SavepointReader.read(spark, HEAP).read_keyed_state("baskets", "basket")
    with pytest.raises(sp.OptionError, match="state 'basket': earlier rows have other types"):
        writer.update_keyed_state("baskets", "basket", plain)


@pytest.fixture
def baskets_allowed(spark: SparkSession) -> Iterator[None]:
    sp.register(spark, allow_serializers="tests.baskets")
    yield
    sp.register(spark, allow_serializers=[])


@pytest.mark.usefixtures("baskets_allowed")
def test_the_sink_carries_too(base: Path, spark: SparkSession, tmp_path: Path) -> None:
    rows = sp.SavepointReader.read(spark, base).read_keyed_state("baskets", "basket")
    rows = baskets.changed(rows, "value", owner=f.lit("sink"))
    sink = rows.write.format("flink-savepoint").mode("append").option("uid", "baskets").option("state", "basket")
    sink.option("serializers", "tests.baskets").option("base", str(base)).save(str(tmp_path / "savepoint"))
    before, after = baskets.values(base, "basket"), baskets.values(tmp_path / "savepoint", "basket")
    for place, was in before.items():
        assert after[place]["owner"] == "sink"
        others = was.keys() - {"owner"}
        assert {n: baskets.raw(after[place][n]) for n in others} == {n: baskets.raw(was[n]) for n in others}


@pytest.mark.parametrize(
    ("path", "type_", "message"),
    [
        (
            "value.total",
            T.LIST(T.LONG()),
            r"state 'basket' \(VALUE\) does not have a part 'value.total' that Kryo wrote; known parts: value",
        ),
        ("value.items", T.MAP(T.STRING(), T.LONG()), "value.items of state 'basket' is declared as java.util.List"),
        ("value.items", 5, "'value.items' is given 5; expected a type of Types"),
    ],
)
def test_types_that_do_not_fit(path: str, type_: Any, message: str) -> None:
    with pytest.raises(sp.OptionError, match=message):
        next(sp.arrow.read_state(HEAP, "baskets", "basket", types={path: type_}))


def test_types_as_text_of_options(spark: SparkSession) -> None:
    rows = spark.read.format("flink-savepoint").option("uid", "baskets").option("state", "basket")
    rows = rows.option("types", '{"value.items": "LIST<STRING>", "value.codes": "SET<LONG>"}').load(str(HEAP))
    types = {field.name: field.dataType.simpleString() for field in rows.schema["value"].dataType}
    assert (types["items"], types["codes"]) == ("array<string>", "array<bigint>")
