"""SavepointWriter.migrate: reports, refusals and results; tests/interop uses real Flink."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.backends.formats.key_group_file import CanonicalSource
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.keyed_splits import keyed_handles
from state_processor.backends.read.stored_operator import find_operator, operator_states
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.write.assembly import commit_savepoint, metadata_version
from state_processor.backends.write.staging import Staging
from state_processor.serializers import register_kryo_class
from state_processor.serializers.core.pojo_fields import PojoValue
from state_processor.serializers.core.time_values import LocalDate
from state_processor.serializers.io import DataInput
from state_processor.serializers.kryo.serializer import KryoValue
from state_processor.serializers.registry import Registrations, register
from state_processor.serializers.runtime.cep import (
    DeweyNumberSerializer,
    EventIdSerializer,
    NodeIdSerializer,
    OldSharedBufferNodeSerializer,
    SharedBufferEdgeSerializer,
)
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.serializers.runtime.scala import OptionSerializer
from state_processor.write.build import SavepointBuild
from state_processor.write.plan.reports import CONVERTED, IMPOSSIBLE, LEFT_OUT, UNCHANGED
from state_processor.write.tasks.local_engine import LocalEngine
from tests.backends.operator_files import SubtaskHandles, new_operator
from tests.interop.rewriting import write_keyed
from tests.state_processor.samples import FIXTURES, ORDERS_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = sp.Types
BASKETS = FIXTURES / "migration" / "1.20.5" / "baskets-hashmap-native"
SOURCE = str(BASKETS / "savepoint")
CANONICAL = FIXTURES / "migration" / "1.18.1" / "baskets-rocksdb-canonical" / "savepoint"
LINE, TIER = "io.stateprocessor.interop.Line", "io.stateprocessor.interop.Tier"
LINES = T.LIST(T.POJO(LINE, {"product": T.STRING(), "pieces": T.INT(), "remarks": T.LIST(T.STRING())}))
OF_BASKETS = {"lines": LINES, "never": T.LIST(T.INT())}
TYPES = {
    "baskets": {
        **dict.fromkeys(("basket", "history", "by-day", "draft"), OF_BASKETS),
        "pair": {f"f1.{path}": type_ for path, type_ in OF_BASKETS.items()},
    },
    "lists": {"open": OF_BASKETS, "samples": OF_BASKETS},
}


@pytest.fixture
def described(own_registrations: None) -> None:
    """The classes of the fixture that Kryo wrote are known."""
    register_kryo_class(LINE, {"product": "java.lang.String", "pieces": "int", "remarks": "java.util.List<java.lang.String>"})
    register_kryo_class(TIER, ["BRONZE", "SILVER", "GOLD"])


@pytest.fixture
def undescribed(own_registrations: None) -> None:
    """Nothing is known of them, whatever other tests have described."""
    register(lambda _: Registrations())


def migrated(version: str = "2.3", types: Any = None, source: str | Path = SOURCE) -> SavepointBuild:
    """A migration that is planned in this process."""
    plan = SavepointBuild.from_existing(source)
    plan.migrate(LocalEngine(), version, types)
    return plan


def write(plan: SavepointBuild, target: Path) -> sp.WriteSummary:
    staging = Staging(str(target), "migrated")
    plan.prepare(staging)
    return plan.write(staging, LocalEngine())


def outcomes(plan: SavepointBuild) -> dict[str, str]:
    return {report.state: report.outcome for report in plan.migration_report()}


def test_what_values_do_not_tell_has_to_be_named(described: None) -> None:
    plan = migrated("2.3")
    reports = {report.state: report for report in plan.migration_report()}
    assert reports["total"].outcome == reports["plain"].outcome == UNCHANGED
    assert reports["bits"].changes == ("KRYO<java.util.BitSet>: from Kryo 2 to Kryo 5",)
    assert reports["sales"].changes == ("key: KRYO<java.time.LocalDate>: from Kryo 2 to Kryo 5",)
    assert reports["_timer_state/event_user-timers"].outcome in (UNCHANGED, CONVERTED)
    basket = reports["basket"]
    assert basket.outcome == IMPOSSIBLE
    lines, never = sorted(basket.problems)
    hash_ = operator_id("baskets")
    assert f"lines is a java.util.List, and its elements are of class {LINE}, and only the job decides" in lines
    assert f"types={{OperatorIdentifier.for_uid_hash('{hash_}'): {{'basket': {{'lines': Types.LIST(Types.STRING())}}}}}}" in lines
    assert "never is a java.util.List, and all elements are null or missing" in never
    assert {p.partition(" is a ")[0] for p in reports["pair"].problems} == {"f1.lines", "f1.never"}
    with pytest.raises(sp.StateMigrationError, match=r"7 states can't be migrated to Flink 2\.3") as problem:
        plan.prepare(Staging("/nowhere", "migrated"))
    assert all(f"/{name} (" in str(problem.value) for name in ("basket", "history", "by-day", "draft", "pair", "open", "samples"))


def test_named_types_make_it_possible(described: None, tmp_path: Path) -> None:
    plan = migrated("2.3", TYPES)
    report = plan.migration_report()
    assert report.impossible == ()
    assert len(report.having(CONVERTED)) == 12
    assert str(report).startswith("for Flink 2.3: 4 unchanged, 12 converted, 0 left out, 0 impossible\n")
    basket = next(r for r in report if r.state == "basket")
    assert (basket.uid, basket.uid_hash, basket.kind) == ("baskets", operator_id("baskets"), "VALUE")
    assert set(basket.changes) == {
        "since: KRYO<java.time.LocalDate>: from Kryo 2 to Kryo 5",
        "items: KRYO<java.util.List> becomes NULLABLE<LIST<NULLABLE<STRING>>>",
        "codes: KRYO<java.util.Set> becomes NULLABLE<SET<LONG>>",
        "counts: KRYO<java.util.Map> becomes NULLABLE<MAP<NULLABLE<STRING>,INT>>",
        "prices: KRYO<java.util.Collection> becomes NULLABLE<LIST<NULLABLE<DOUBLE>>>",
        "days: KRYO<java.util.List> becomes NULLABLE<LIST<NULLABLE<KRYO<java.time.LocalDate>>>>",
        f"tiers: KRYO<java.util.Set> becomes NULLABLE<SET<ENUM<{TIER}>>>",
        "images: KRYO<java.util.List> becomes NULLABLE<LIST<NULLABLE<BYTES>>>",
        f"lines: KRYO<java.util.List> becomes NULLABLE<LIST<NULLABLE<POJO<{LINE}>>>>",
        "best.remarks: KRYO<java.util.List> becomes NULLABLE<LIST<NULLABLE<STRING>>>",
        "never: KRYO<java.util.List> becomes NULLABLE<LIST<NULLABLE<INT>>>",
        "nested: KRYO<java.util.List>: from Kryo 2 to Kryo 5",
        "notes: KRYO<java.util.ArrayList>: from Kryo 2 to Kryo 5",
    }
    summary = write(plan, tmp_path / "new")
    assert summary.migration == report
    assert open_snapshot(tmp_path / "new").metadata.version == metadata_version("2.3")
    assert_baskets(tmp_path / "new")
    again = migrated(source=tmp_path / "new", version="2.3")
    assert set(outcomes(again).values()) == {UNCHANGED}


def assert_baskets(savepoint: Path) -> None:
    """Every value of every basket, by the serializers that the header restores; maps have null keys, which no column can have."""
    expected = json.loads((BASKETS / "expected.json").read_text("utf-8"))
    (operator,) = (o for o in expected["operators"] if o["uid"] == "baskets")
    wanted = {e["key"]: e["value"] for e in next(s for s in operator["states"] if s["name"] == "basket")["entries"]}
    snapshot = open_snapshot(savepoint)
    serializer = operator_states(snapshot, find_operator(snapshot, "baskets"))["basket"].value
    assert serializer is not None
    found = {STRING.read(DataInput(key)): serializer.deserialize(value) for key, value in _entries(savepoint, "basket")}
    assert found.keys() == wanted.keys()
    for key, basket in wanted.items():
        shown = {name: _plain(value) for name, value in found[key].items()}
        for name in ("codes", "tiers"):
            shown[name] = shown[name] and sorted(shown[name], key=str)
        assert shown == {name: value for name, value in basket.items() if name != "@class"}


def _entries(savepoint: Path, name: str) -> Iterator[tuple[bytes, bytes]]:
    snapshot = open_snapshot(savepoint)
    for handle in keyed_handles(find_operator(snapshot, "baskets"), snapshot):
        source = handle.open(snapshot)
        assert isinstance(source, CanonicalSource)
        for buffer, _, entries in source.blocks(name, handle.key_groups):
            yield from ((bytes(buffer[a:b]), bytes(buffer[c:d])) for a, b, c, d in entries[:, :4].tolist())


def _plain(value: Any) -> Any:
    """A value in the terms of expected.json."""
    if isinstance(value, KryoValue):
        return _plain(value.value)
    if isinstance(value, PojoValue):
        return {"@class": value.class_name, **{name: _plain(v) for name, v in value.items()}}
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, LocalDate):
        return str(value)
    if isinstance(value, list) and value and all(isinstance(v, tuple) and len(v) == 2 for v in value):
        return sorted([list(pair) for pair in value], key=lambda pair: json.dumps(pair, separators=(",", ":")))
    return [_plain(v) for v in value] if isinstance(value, list) else value


def test_states_that_are_left_out_do_not_matter(undescribed: None, tmp_path: Path) -> None:
    plan = migrated(source=CANONICAL, version="2.3")
    problems = {report.state: " ".join(report.problems) for report in plan.migration_report().impossible}
    assert set(problems) == {"basket", "history", "by-day", "draft", "pair", "open", "samples"}
    assert all("register_kryo_class('io.stateprocessor.interop." in text for text in problems.values())
    for name in ("history", "by-day", "draft", "pair", "basket"):
        plan.remove_state("baskets", name)
    with pytest.raises(sp.StateMigrationError, match="2 states can't be migrated"):
        plan.prepare(Staging(str(tmp_path / "new"), "migrated"))
    plan.remove_operator("lists")
    write(plan, tmp_path / "new")
    states = operator_states(snapshot := open_snapshot(tmp_path / "new"), find_operator(snapshot, "baskets"))
    assert set(states) == {"bits", "total", "_timer_state/event_user-timers", "_timer_state/processing_user-timers"}
    table = pa.Table.from_batches(sp.arrow.read_state(tmp_path / "new", "baskets", "bits"))
    assert sorted(table.column("value").to_pylist()) == [[i, 3 * i + 100] for i in range(12)]
    days = pa.Table.from_batches(sp.arrow.read_state(tmp_path / "new", "days", "sales"))
    assert sorted(days.column("value").to_pylist()) == list(range(12))


def test_wrong_arguments(described: None) -> None:
    with pytest.raises(sp.OptionError, match="does not start from another"):
        SavepointBuild.new().migrate(LocalEngine(), "2.3")
    with pytest.raises(sp.OptionError, match=r"types: values are only converted to Flink 2\.0 and later"):
        migrated("1.20", {"baskets": {}})
    with pytest.raises(sp.OptionError, match="there is no migration to report on"):
        SavepointBuild.from_existing(SOURCE).migration_report()
    with pytest.raises(sp.NotFoundError, match="operator 'basket'"):
        migrated("2.3", {"basket": {}})
    with pytest.raises(sp.NotFoundError, match="no state 'baskets' in operator baskets"):
        migrated("2.3", {"baskets": {"baskets": T.LONG()}})
    with pytest.raises(sp.OptionError, match=r"state 'total': a type is given for the path '', .* such values: none"):
        migrated("2.3", {"baskets": {"total": T.LONG()}})
    with pytest.raises(sp.OptionError, match=r"given for the path 'item', .* 'items'"):
        migrated("2.3", {"baskets": {"basket": {"item": T.LIST(T.STRING())}}})


def test_types_that_do_not_fit_the_values(described: None) -> None:
    plan = migrated("2.3", {"baskets": {"basket": {**OF_BASKETS, "items": T.LIST(T.LONG())}}})
    (basket,) = (r for r in plan.migration_report() if r.state == "basket")
    assert "an object of class java.lang.String can't be a value of LONG" in " ".join(basket.problems)


STRING, VOID = T.STRING(), VoidNamespaceSerializer()
EDGE = SharedBufferEdgeSerializer(NodeIdSerializer(EventIdSerializer()), DeweyNumberSerializer())
BUFFER = StateDescription.of(
    "sharedBuffer-entries",
    "MAP",
    STRING,
    VOID,
    NodeIdSerializer(EventIdSerializer()),
    OldSharedBufferNodeSerializer(T.LIST(EDGE)),
)
OPTIONS = StateDescription.of("options", "VALUE", STRING, VOID, None, OptionSerializer(T.LONG()))
TOTAL = StateDescription.of("total", "VALUE", STRING, VOID, None, T.LONG())


def of_flink_1(target: Path, *states: tuple[StateDescription, list[Any]]) -> Path:
    """A savepoint of Flink 1.x with the values of some states by keys a, b and so on."""
    staging = Staging(str(target), "written")
    staging.prepare()
    tables = [
        (state, [pa.RecordBatch.from_pydict({"key": list("abcd"[: len(values)]), "value": values})] if values else [])
        for state, values in states
    ]
    files = write_keyed(staging, operator_id("cep"), tables, 2, 128)
    subtasks = {i: SubtaskHandles(keyed=handle) for i, handle in files.items()}
    commit_savepoint(staging, [new_operator("cep", 2, 128, subtasks)], version=metadata_version("1.20"))
    return target


def test_empty_states_of_removed_serializers_are_left_out(tmp_path: Path) -> None:
    """Flink 1.15 to 1.20 register the buffer of older versions whenever they restore a pattern matching."""
    source = of_flink_1(tmp_path / "old", (BUFFER, []), (OPTIONS, []), (TOTAL, [1, 2]))
    plan = migrated(source=source, version="2.0")
    assert outcomes(plan) == {"sharedBuffer-entries": LEFT_OUT, "options": LEFT_OUT, "total": UNCHANGED}
    write(plan, tmp_path / "new")
    snapshot = open_snapshot(tmp_path / "new")
    assert set(operator_states(snapshot, find_operator(snapshot, "cep"))) == {"total"}
    table = pa.Table.from_batches(sp.arrow.read_state(tmp_path / "new", "cep", "total"))
    assert sorted(table.column("value").to_pylist()) == [1, 2]


def test_entries_of_removed_serializers_are_not_lost(tmp_path: Path) -> None:
    source = of_flink_1(tmp_path / "old", (OPTIONS, [1]), (TOTAL, [1]))
    plan = migrated(source=source, version="2.0")
    assert outcomes(plan) == {"options": IMPOSSIBLE, "total": UNCHANGED}
    (report,) = plan.migration_report().impossible
    assert "Flink 2.0 has removed the Scala API" in report.problems[0]
    assert "remove_state" in report.problems[0]
    with pytest.raises(sp.StateMigrationError, match="/options "):
        write(plan, tmp_path / "new")


def test_a_savepoint_without_anything_to_migrate_is_copied(tmp_path: Path) -> None:
    """Byte for byte."""
    source = of_flink_1(tmp_path / "old", (TOTAL, [1, 2, 3]))
    summary = write(migrated(source=source, version="2.1"), tmp_path / "new")
    assert [o.carried for o in summary.operators] == [True]
    old, new = (
        sorted(p.read_bytes() for p in directory.iterdir() if p.name != "_metadata") for directory in (source, tmp_path / "new")
    )
    assert old == new


@pytest.mark.spark
def test_with_spark_and_other_changes(spark: SparkSession, described: None, tmp_path: Path) -> None:
    """Tasks analyse and convert values; other changes apply to migrated state."""
    writer = sp.SavepointWriter.from_existing(spark, SOURCE).migrate("2.3", TYPES)
    assert writer.migration_report().impossible == ()
    writer.with_parallelism("baskets", 3).remove_operator("days")
    changed = spark.createDataFrame([("customer-3", 7), ("newcomer", 8)], "key string, value bigint")
    writer.update_keyed_state("baskets", "total", changed)
    writer.delete_keys("baskets", spark.createDataFrame([("customer-5",)], "key string"))
    reader = sp.SavepointReader.read(spark, SOURCE)
    bits = reader.read_keyed_state("baskets", "bits").where("key = 'customer-1'").selectExpr("key", "array(5) AS value")
    writer.update_keyed_state("baskets", "bits", bits)
    writer.write(tmp_path / "new")
    new = sp.SavepointReader.read(spark, str(tmp_path / "new"))
    totals = {r.key: r.value for r in new.read_keyed_state("baskets", "total").collect()}
    assert totals == {f"customer-{i}": 1000 * i for i in range(12) if i != 5} | {"customer-3": 7, "newcomer": 8}
    masks = {r.key: r.value for r in new.read_keyed_state("baskets", "bits").collect()}
    assert masks == {f"customer-{i}": [i, 3 * i + 100] for i in range(12) if i != 5} | {"customer-1": [5]}
    (basket,) = new.read_keyed_state("baskets", "basket", nanos="string", keys=["customer-2"]).collect()
    assert basket.value["items"] == ["tea", "müsli 2", "tea"]
    assert basket.value.counts == {"a2": 2, "b": None}
    masks = [r.value for r in new.read_union_state("lists", "masks").collect()]
    assert sorted(masks) == [[i, 3 * i + 100] for i in range(12)]


def test_what_flink_2_wrote_is_unchanged() -> None:
    assert set(outcomes(migrated(source=ORDERS_PATH, version="2.3")).values()) == {UNCHANGED}
