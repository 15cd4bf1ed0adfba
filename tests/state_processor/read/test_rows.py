"""Rows that were read from a snapshot are written in the types that they were read with."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import state_processor as sp
from state_processor.read.rows import METADATA, read_type
from state_processor.support.errors import CorruptSnapshotError, InvalidRowError, NotFoundError
from tests.state_processor.samples import ORDERS_PATH, TYPES_PATH, WINDOWS_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = ("state_kind", "key_type", "namespace_type", "value_type", "map_key_type", "ttl")


def types(path: Any, uid: str) -> dict[str, tuple[Any, ...]]:
    rows = sp.arrow.states(path).to_pylist()
    return {r["state_name"]: tuple(r[name] for name in TYPES) for r in rows if r["operator_uid"] == uid}


def differing(path: Any, other: str, uid: str) -> list[str]:
    rows = sp.arrow.diff_summary(other, path, uid).to_pylist()
    return [r["state_name"] for r in rows if r["inserts"] or r["deletes"] or r["updates"]]


def new() -> Any:
    return sp.arrow.SavepointWriter.new(flink_version="2.3")


@pytest.mark.parametrize("form", ["stream", "table", "file"])
def test_all_states_of_an_operator(form: str, tmp_path: Path) -> None:
    rows: Any = sp.arrow.read_state(ORDERS_PATH, "orders", metadata=True)
    if form != "stream":
        rows = rows.read_all()
    if form == "file":
        pyarrow.parquet.write_table(rows, tmp_path / "rows.parquet")
        rows = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    writer = new().with_keyed_state("orders", rows).with_timers("orders", sp.arrow.read_timers(ORDERS_PATH, "orders"))
    for name, method in (("pending", "with_list_state"), ("offsets", "with_union_state"), ("discounts", "with_broadcast_state")):
        getattr(writer, method)("catalog", name, sp.arrow.read_state(ORDERS_PATH, "catalog", name).read_all())
    writer.write(tmp_path / "savepoint")
    for uid in ("orders", "catalog"):
        assert differing(tmp_path / "savepoint", ORDERS_PATH, uid) == []
        written, stored = types(tmp_path / "savepoint", uid), types(ORDERS_PATH, uid)
        assert written == {name: stored[name] for name in written}
        assert stored.keys() - written.keys() <= {"_timer_state/processing_user-timers"}  # without timers


def test_every_type(tmp_path: Path) -> None:
    for operator in sp.open(TYPES_PATH).operators().to_pylist():
        if (uid := operator["operator_uid"]) and any("VALUE" in kind for kind, *_ in types(TYPES_PATH, uid).values()):
            new().with_keyed_state(uid, sp.arrow.read_state(TYPES_PATH, uid, nanos="string", row_kind=True)).write(tmp_path / uid)
            written, stored = types(tmp_path / uid, uid), types(TYPES_PATH, uid)
            assert written == {name: stored[name] for name in written}
            assert differing(tmp_path / uid, TYPES_PATH, uid) == []


def test_dataframes(spark: SparkSession, tmp_path: Path) -> None:
    rows = sp.SavepointReader.read(spark, ORDERS_PATH).read_keyed_state("orders", metadata=True).filter("key <> 'amelia'")
    sp.SavepointWriter.new(spark, flink_version="2.3").with_keyed_state("orders", rows).write(tmp_path / "savepoint")
    written, stored = types(tmp_path / "savepoint", "orders"), types(ORDERS_PATH, "orders")
    assert len(written) == 5
    assert written == {name: stored[name] for name in written}


def test_windows(tmp_path: Path) -> None:
    """A single state has its own name; windows need no type."""
    rows = sp.arrow.read_state(WINDOWS_PATH, "tumbling-reduce", "window-contents", flatten=False)
    new().with_keyed_state("w", rows).with_timers("w", sp.arrow.read_timers(WINDOWS_PATH, "tumbling-reduce")).write(
        tmp_path / "savepoint"
    )
    assert types(tmp_path / "savepoint", "w").items() <= types(WINDOWS_PATH, "tumbling-reduce").items()


def test_losses_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "state_processor"):
        new().with_keyed_state("orders", sp.arrow.read_state(ORDERS_PATH, "orders"))
    timers, times = (record.getMessage() for record in caplog.records)
    assert "do not have '_timer_state/" in timers
    assert "copy_operator" in timers
    assert "rows of 'session' do not have times of last access" in times
    assert "metadata=True" in times
    caplog.clear()
    with caplog.at_level(logging.WARNING, "state_processor"):
        new().with_keyed_state("orders", sp.arrow.read_state(ORDERS_PATH, "orders", "total"))
    assert caplog.records == []


def test_rows_of_elements_are_refused() -> None:
    with pytest.raises(
        InvalidRowError, match=r"'map_value': each row has an element of the state 'items' of kind MAP.*flatten=False"
    ):
        new().with_keyed_state("orders", sp.arrow.read_state(ORDERS_PATH, "orders", "items"))


def test_types_of_an_operator(tmp_path: Path) -> None:
    found = sp.open(ORDERS_PATH).types("orders")
    assert list(found) == ["total", "session", "profile", "history", "items"]
    assert str(found.key) == "STRING"
    rows = pa.Table.from_batches(sp.arrow.read_state(ORDERS_PATH, "orders")).to_pylist()
    schema = pa.schema([f.remove_metadata() for f in sp.arrow.read_state(ORDERS_PATH, "orders").schema])
    table = pa.Table.from_pylist(rows, schema)
    new().with_keyed_state("orders", table, key_type=found.key, states=found).write(tmp_path / "savepoint")
    written, stored = types(tmp_path / "savepoint", "orders"), types(ORDERS_PATH, "orders")
    assert written == {name: stored[name] for name in found}
    assert differing(tmp_path / "savepoint", ORDERS_PATH, "orders")[len(found) :] == []
    with pytest.raises(NotFoundError, match="does not have keyed state"):
        sp.open(ORDERS_PATH).types("catalog")


def test_each_read_has_the_types_of_its_state() -> None:
    texts = {"total": "LONG", "session": "STRING", "history": "LIST<STRING>"}
    for name in (*texts, *texts):
        column = sp.arrow.read_state(ORDERS_PATH, "orders", name, flatten=False).schema.field("value")
        read = read_type(column)
        assert read is not None
        assert (str(read.type), read.state, read.has_ttl) == (texts[name], name, name == "session")


def test_damaged_metadata() -> None:
    for text in (
        b"",
        b"{}",
        b'{"type": "?"}',
        b'{"type": "AAAA", "rows": [], "state": "", "kind": "", "ttl": 0, "elements": 0, "left_out": []}',
    ):
        with pytest.raises(CorruptSnapshotError):
            read_type(pa.field("value", pa.int64(), metadata={METADATA: text}))
