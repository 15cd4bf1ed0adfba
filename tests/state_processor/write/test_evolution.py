"""States read in types that they were not written in: as Flink restores them, or refuses to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.stored_operator import find_operator, operator_states
from state_processor.serializers.base import TypeSerializer, Verdict
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.types.flink_types import Types
from tests.corpus import FIXTURES, Case, all_cases, cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVOLVED = all_cases("*/evolution-v2-*")
ORDERS = cases(FIXTURES, "*/orders-*")
CLASS = "fixtures.evo.Profile"


def before(case: Case) -> Case:
    """The savepoint that a case of evolution was restored from."""
    return Case(case.directory.parent / case.directory.name.replace("-v2-", "-v1-"))


def refused(case: Case) -> Case:
    """The same savepoint restored by a job with an incompatible type."""
    return Case(case.directory.parent / case.directory.name.replace("-v2-", "-v3-incompatible-"))


def written_type(case: Case, uid: str, state: str) -> TypeSerializer:
    snapshot = open_snapshot(case.snapshot)
    found = operator_states(snapshot, find_operator(snapshot, uid))[state].value
    assert found is not None
    return found


def values(case: Case, uid: str, state: str, **reading: Any) -> dict[Any, Any]:
    return {r["key"]: r["value"] for b in sp.arrow.read_state(case.snapshot, uid, state, **reading) for r in b.to_pylist()}


def expected(case: Case, uid: str, state: str) -> dict[Any, Any]:
    (operator,) = (o for o in case.expected["operators"] if o["uid"] == uid)
    (found,) = (s for s in operator["states"] if s["name"] == state)
    return {e["key"]: {n: v for n, v in e["value"].items() if n != "@class"} for e in found["entries"]}


@pytest.mark.parametrize("case", EVOLVED, ids=lambda c: c.id)
def test_as_flink_migrated_it(case: Case) -> None:
    """Values that the restored job did not touch have the new field's default; it gave all others another value."""
    migrated = {k: v for k, v in expected(case, "profiles", "profile").items() if v["d"] == 0}
    assert len(migrated) >= 10
    read = values(before(case), "profiles", "profile", schema=written_type(case, "profiles", "profile"))
    assert read.keys() == expected(before(case), "profiles", "profile").keys()
    assert {k: read[k] for k in migrated} == migrated
    assert {v["d"] for v in read.values()} == {0}


@pytest.mark.parametrize("case", EVOLVED, ids=lambda c: c.id)
def test_as_flink_refuses_it(case: Case) -> None:
    cause = refused(case).expected["restore_error"]
    assert any("StateMigrationException" in line or f"String field {CLASS}.a to java.lang.Integer" in line for line in cause)
    wanted = Types.POJO(CLASS, {"a": Types.STRING(), "b": Types.STRING(), "c": Types.DOUBLE()})
    with pytest.raises(sp.StateMigrationError, match=f"field 'a' of {CLASS}: INT was written, STRING is required"):
        sp.arrow.read_state(before(case).snapshot, "profiles", "profile", schema=wanted)


@pytest.mark.parametrize("case", EVOLVED[:1], ids=lambda c: c.id)
def test_through_spark(case: Case, spark: SparkSession) -> None:
    reader = sp.SavepointReader.read(spark, before(case).snapshot)
    frame = reader.read_keyed_state("profiles", "profile", schema=written_type(case, "profiles", "profile"))
    assert frame.schema.simpleString() == "struct<key:string,value:struct<a:int,b:string,d:bigint>>"
    rows = {r["key"]: r["value"].asDict() for r in frame.collect()}
    migrated = {k: v for k, v in expected(case, "profiles", "profile").items() if v["d"] == 0}
    assert {k: rows[k] for k in migrated} == migrated
    with pytest.raises(sp.StateMigrationError, match="field 'a'"):
        reader.read_keyed_state("profiles", "profile", schema=Types.POJO(CLASS, {"a": Types.LONG()}))


def without(pojo: TypeSerializer, *names: str) -> TypeSerializer:
    """A POJO without some of its fields."""
    assert isinstance(pojo, PojoSerializer)
    fields = {f.name: f.serializer for f in pojo.fields if f.name not in names}
    return Types.POJO(pojo.class_name, fields)


@pytest.mark.parametrize("case", ORDERS, ids=lambda c: c.id)
def test_fields_of_every_format(case: Case) -> None:
    plain = values(case, "orders", "profile")
    pojo = written_type(case, "orders", "profile")
    assert isinstance(pojo, PojoSerializer)
    nested = {f.name: f.serializer for f in pojo.fields}
    address = without(nested["address"], "city")
    changed = {**nested, "address": address, "born": Types.LOCAL_DATE(), "known": Types.BOOLEAN()}
    del changed["tier"]
    read = values(case, "orders", "profile", schema={"value": Types.POJO(pojo.class_name, changed)})
    assert read.keys() == plain.keys()
    for key, value in read.items():
        old = plain[key]
        del old["tier"]
        if old["address"] is not None:
            del old["address"]["city"]
        assert value == {**old, "born": None, "known": False}


@pytest.mark.parametrize("case", ORDERS[:1], ids=lambda c: c.id)
def test_whole_operator(case: Case) -> None:
    wanted = without(written_type(case, "orders", "profile"), "tier", "address")
    batches = list(sp.arrow.read_state(case.snapshot, "orders", schema={"profile": wanted}))
    field = batches[0].schema.field("profile").type
    assert "tier" not in [f.name for f in field]
    plain = {r["key"]: r["profile"] for b in sp.arrow.read_state(case.snapshot, "orders") for r in b.to_pylist()}
    for row in (r for b in batches for r in b.to_pylist()):
        old = plain[row["key"]]
        assert row["profile"] == (None if old is None else {n: v for n, v in old.items() if n not in ("tier", "address")})
    with pytest.raises(sp.OptionError, match="the column 'nowhere'"):
        sp.arrow.read_state(case.snapshot, "orders", schema={"nowhere": wanted})


@pytest.mark.parametrize("case", ORDERS[:1], ids=lambda c: c.id)
def test_check_compatibility(case: Case, spark: SparkSession) -> None:
    reader = sp.SavepointReader.read(spark, case.snapshot)

    def verdict(state: str, new_type: TypeSerializer) -> Verdict:
        return reader.check_compatibility("orders", state, new_type).verdict

    pojo = written_type(case, "orders", "profile")
    total = written_type(case, "orders", "total")
    assert verdict("profile", pojo) is Verdict.COMPATIBLE_AS_IS
    assert verdict("profile", without(pojo, "tier")) is Verdict.COMPATIBLE_AFTER_MIGRATION
    assert verdict("total", total) is Verdict.COMPATIBLE_AS_IS
    assert verdict("total", TtlSerializer(Types.LONG(), total)) is Verdict.COMPATIBLE_AFTER_MIGRATION
    refused_ = reader.check_compatibility("orders", "total", Types.STRING())
    assert refused_.is_incompatible
    assert "StringSerializer" in refused_.reason
    with pytest.raises(sp.NotFoundError, match="totl"):
        reader.check_compatibility("orders", "totl", total)


@pytest.mark.parametrize("case", ORDERS[:1], ids=lambda c: c.id)
def test_key_is_not_migrated(case: Case) -> None:
    with pytest.raises(sp.StateMigrationError, match="state 'total', key: STRING can't be read as LONG"):
        sp.arrow.read_state(case.snapshot, "orders", "total", schema={"key": Types.LONG(), "value": pa.float64()})
