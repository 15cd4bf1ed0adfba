"""The reader without Spark has the methods of the reader with Spark, and the rows of the functions."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.read.scans import ProjectedReader
from state_processor.serializers.decode_options import DecodeOptions
from tests.state_processor.samples import FIXTURES, ORDERS_PATH, TYPES_PATH, WINDOWS_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.spark
def test_both_readers_have_the_same_methods() -> None:
    with_spark = {name for name in public(sp.SavepointReader) if not name.startswith("plot_")}
    assert with_spark - public(sp.arrow.SavepointReader) == set()
    for name in with_spark - {"read", "path"}:
        ours = inspect.signature(getattr(sp.arrow.SavepointReader, name)).parameters
        theirs = inspect.signature(getattr(sp.SavepointReader, name)).parameters
        assert list(ours) == list(theirs), name


@pytest.mark.spark
def test_a_session_opens_the_reader_of_spark(spark: SparkSession) -> None:
    assert isinstance(sp.open(ORDERS_PATH, spark, time_zone="UTC"), sp.SavepointReader)
    assert isinstance(sp.open(ORDERS_PATH), sp.arrow.SavepointReader)


CALLS: dict[str, tuple[Any, Any]] = {
    "value": (lambda r: r.read_keyed_state("orders", "total"), lambda p: sp.arrow.read_state(p, "orders", "total")),
    "map": (
        lambda r: r.read_keyed_state("orders", "items", flatten=False),
        lambda p: sp.arrow.read_state(p, "orders", "items", flatten=False),
    ),
    "operator": (lambda r: r.read_keyed_state("orders"), lambda p: sp.arrow.read_state(p, "orders")),
    "timers": (lambda r: r.read_timers("orders"), lambda p: sp.arrow.read_timers(p, "orders")),
    "list": (lambda r: r.read_list_state("catalog", "pending"), lambda p: sp.arrow.read_state(p, "catalog", "pending")),
    "union": (lambda r: r.read_union_state("catalog", "offsets"), lambda p: sp.arrow.read_state(p, "catalog", "offsets")),
    "broadcast": (
        lambda r: r.read_broadcast_state("catalog", "discounts"),
        lambda p: sp.arrow.read_state(p, "catalog", "discounts"),
    ),
    "operators": (lambda r: r.operators(), sp.arrow.operators),
    "states": (lambda r: r.states(), sp.arrow.states),
    "handles": (lambda r: r.handles(), sp.arrow.handles),
    "sizes": (lambda r: r.size_report("orders", by="key"), lambda p: sp.arrow.size_report(p, "orders", by="key")),
}


@pytest.mark.parametrize("call", CALLS)
def test_methods_read_what_functions_read(call: str) -> None:
    of_reader, of_function = CALLS[call]
    rows, expected = of_reader(sp.open(ORDERS_PATH)), of_function(ORDERS_PATH)
    tables = [r if isinstance(r, pa.Table) else r.read_all() for r in (rows, expected)]
    assert tables[0].equals(tables[1])
    assert tables[0].num_rows


def test_a_kind_is_checked() -> None:
    reader = sp.open(ORDERS_PATH)
    with pytest.raises(sp.NotFoundError, match="is not in windows; read it with"):
        reader.read_window_state("orders", "total")
    with pytest.raises(sp.NotFoundError, match="pending"):
        reader.read_broadcast_state("catalog", "pending")
    with pytest.raises(sp.NotFoundError, match="is BROADCAST; read it with read_broadcast_state"):
        reader.read_list_state("catalog", "discounts")
    with pytest.raises(sp.NotFoundError, match="is BROADCAST; read it with kind='BROADCAST'"):
        sp.arrow.read_state(ORDERS_PATH, "catalog", "discounts", kind="KEYED")
    with pytest.raises(TypeError, match="unexpected keyword argument 'key'"):
        reader.read_keyed_state("orders", "total", key="amelia")  # type: ignore[call-arg]


def test_lookup_and_compatibility() -> None:
    reader = sp.open(ORDERS_PATH)
    assert reader.lookup("orders", "amelia", "total").states["total"]["value"].to_pylist() == [3950]
    assert "incompatible" in str(reader.check_compatibility("orders", "total", sp.Types.STRING())).lower()


COUNTED: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "value": (("orders", "total"), {}),
    "map": (("orders", "items"), {}),
    "map by key": (("orders", "items"), {"flatten": False}),
    "list": (("orders", "history"), {}),
    "operator": (("orders",), {}),
    "keys": (("orders", "total"), {"keys": ["amelia", "nobody"]}),
    "expired": (("orders", "session"), {"ttl": "7d", "as_of": "2100-01-01T00:00:00Z", "expired": "hide"}),
    "timers": (("orders", None, "TIMER"), {}),
    "union": (("catalog", "offsets"), {}),
    "broadcast": (("catalog", "discounts"), {}),
    "operator list": (("catalog", "pending"), {}),
}


@pytest.mark.parametrize("variant", ["hashmap-canonical", "hashmap-native", "rocksdb-incremental", "rocksdb-native"])
@pytest.mark.parametrize("case", COUNTED)
def test_count_is_the_number_of_rows(case: str, variant: str) -> None:
    (uid, *names), options = COUNTED[case]
    state, kind = (*names, None, None)[:2]
    (metadata,) = (FIXTURES / "1.20.5" / f"orders-{variant}").rglob("_metadata")
    path = str(metadata.parent)
    rows = sp.arrow.read_state(path, uid, state, kind=kind, **options).read_all().num_rows
    assert sp.open(path).count(uid, *names, **options) == rows
    assert rows == {"keys": 1, "expired": 0}.get(case, rows)


@pytest.mark.parametrize("case", ["value", "map"])
def test_count_decodes_nothing_where_each_entry_is_a_row(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProjectedReader, "read", lambda *_: pytest.fail("rows are read"))
    (uid, *names), options = COUNTED[case]
    assert sp.open(ORDERS_PATH).count(uid, *names, **options) > 0


@pytest.mark.parametrize("option", [{"columns": ["key"]}, {"metadata": True}, {"nanos": "string"}, {"row_kind": True}])
def test_count_refuses_options_of_columns(option: dict[str, Any]) -> None:
    with pytest.raises(sp.OptionError, match=rf"{next(iter(option))} acts only on values: read the state"):
        sp.open(ORDERS_PATH).count("orders", "total", **option)


def test_options_of_opening_act_on_every_read() -> None:
    reader = sp.open(ORDERS_PATH, uids=["orders"], time_zone="America/New_York")
    assert (
        reader.read_keyed_state("orders", "total").read_all().num_rows
        == sp.open(ORDERS_PATH).read_keyed_state("orders", "total").read_all().num_rows
    )
    with pytest.raises(sp.OptionError, match="time_zone"):
        sp.open(ORDERS_PATH, time_zone="Nowhere")


def test_terminals_show_operators_and_states() -> None:
    text = repr(sp.open(ORDERS_PATH))
    lines = text.splitlines()
    assert lines[0] == f"SavepointReader({ORDERS_PATH!r})"
    assert lines[1].split() == ["operator", "parallelism", "size", "states"]
    (orders,) = (line for line in lines if line.startswith("orders"))
    assert "total, session, profile, history" in orders
    assert "<td" in sp.open(ORDERS_PATH)._repr_html_()


def test_rows_are_shown_and_not_consumed() -> None:
    rows = sp.open(ORDERS_PATH).read_keyed_state("orders", "total")
    first, *shown = repr(rows).splitlines()
    assert first == "Rows(key: string, value: int64)"
    table = rows.read_all()
    assert shown[0].split() == ["key", "value"]
    assert shown[2].split() == [table["key"][0].as_py(), str(table["value"][0].as_py())]
    assert (len(shown), shown[-1]) == (13, "…")
    assert "<td" in rows._repr_html_()
    next(rows)
    assert repr(rows) == first


REQUIRED = {"key", "window", "timestamp", "domain", "service", "list_index", "_key_group", "_subtask"}


@pytest.mark.parametrize("path", [ORDERS_PATH, TYPES_PATH, WINDOWS_PATH])
def test_columns_that_flink_never_has_null_are_not_nullable(path: str) -> None:
    reader = sp.open(path)
    for state in reader.states().to_pylist():
        if state["namespace_type"] is None:
            continue
        timers = state["state_kind"].endswith("TIMER")
        options: dict[str, Any] = {"metadata": True, "nanos": "string"}
        rows = sp.arrow.read_state(path, state["operator_uid"], state["state_name"], **options)
        table = rows.read_all()
        required = {field.name for field in table.schema if not field.nullable}
        expected = REQUIRED & set(table.schema.names)
        assert required == (expected - {"window"} if state["namespace_type"] == "GLOBAL_WINDOW" else expected), state
        assert timers == ("timestamp" in required)
        assert not any(table[name].null_count for name in required)


@pytest.mark.parametrize(
    ("type_", "nullable"),
    [
        (sp.Types.STRING(), False),
        (sp.Types.TUPLE([sp.Types.STRING(), sp.Types.INT()]), False),
        (sp.Types.ROW_DATA("id BIGINT, name STRING"), False),
        (sp.Types.PRIMITIVE_ARRAY(sp.Types.BYTE()), False),
        (sp.Types.SQL_DATE(), True),
        (sp.Types.NULLABLE(sp.Types.LONG()), True),
    ],
)
def test_keys_whose_values_may_be_null_are_nullable(type_: Any, nullable: bool, tmp_path: Path) -> None:
    key = pa.nulls(0, type_.arrow_type(DecodeOptions()))
    rows = pa.table({"key": key, "value": pa.nulls(0, pa.int64())})
    writer = sp.arrow.SavepointWriter.new().with_keyed_state("a", rows, key_type=type_, states={"value": sp.Types.LONG()})
    writer.write(tmp_path / "s")
    assert sp.open(tmp_path / "s").read_keyed_state("a", "value").schema.field("key").nullable is nullable
    assert sp.open(tmp_path / "s").read_keyed_state("a").schema.field("key").nullable is nullable


def test_rows_are_written_whether_their_key_is_nullable_or_not(tmp_path: Path) -> None:
    read = sp.open(ORDERS_PATH).read_keyed_state("orders", "total", keys=["amelia"]).read_all()
    nullable = read.cast(pa.schema([field.with_nullable(True) for field in read.schema]))
    for number, rows in enumerate((read, nullable)):
        sp.arrow.SavepointWriter.from_existing(ORDERS_PATH).update_keyed_state("orders", "total", rows).write(
            tmp_path / str(number)
        )
    files = [sorted(f.read_bytes() for f in (tmp_path / str(n)).iterdir() if f.name != "_metadata") for n in range(2)]
    assert files[0] == files[1]
    both = pa.concat_tables([read, pa.table({"key": ["z"], "value": [1]})], promote_options="default")
    assert both.schema.field("key").nullable
