"""Null as the value of an entry of a map state: writing, refusals, reading."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.write.entry_encoder import BlobAddress, KeyedStateEncoder
from state_processor.backends.write.tombstones import TombstoneEncoder
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import MapSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.support.errors import InvalidRowError
from state_processor.types.flink_types import Types
from tests.backends.state_files import (
    LONG,
    NAMESPACE_OF_VOID,
    STRING,
    VOID,
    canonical,
    group_of,
    keyed,
    keyed_header,
    long,
    operator,
    read_rows,
)
from tests.backends.state_files import string as text

NULL, PRESENT = b"\1", b"\0"


def values_written(value: TypeSerializer, rows: list[dict[str, Any]], type_: pa.DataType) -> list[bytes]:
    """What is written behind the key of each entry of a map from strings."""
    state = StateDescription.of("seen", "MAP", LONG, VOID, STRING, value)
    types = {"key": pa.int64(), "map_key": pa.string(), "map_value": type_, "value": type_}
    batch = pa.RecordBatch.from_pylist(rows, pa.schema([(name, types[name]) for name in rows[0]]))
    encoder = KeyedStateEncoder(state, BlobAddress(0, 1, 128), batch.schema, last_access=9)
    found = []
    for blobs in encoder.encode(batch):
        for blob in blobs.column("blob").to_pylist():
            at = 0
            while at < len(blob):
                at += 4 + int.from_bytes(blob[at : at + 4], "big")
                size = int.from_bytes(blob[at : at + 4], "big")
                found.append(blob[at + 4 : at + 4 + size])
                at += 4 + size
    return found


def entry(value: Any) -> list[dict[str, Any]]:
    return [{"key": 1, "map_key": "a", "map_value": value}]


def test_a_null_with_a_time_is_a_value_with_a_time() -> None:
    ttl = TtlSerializer.of(STRING)
    assert values_written(ttl, entry(None), pa.string()) == [PRESENT + long(9) + b"\0"]
    assert values_written(ttl, entry("x"), pa.string()) == [PRESENT + long(9) + text("x")]
    rows = [{"key": 1, "_last_access": 5_000, "value": [("a", None), ("b", "x")]}]
    times, maps = pa.timestamp("us", tz="UTC"), pa.map_(pa.string(), pa.string())
    common = pa.RecordBatch.from_pylist(rows, pa.schema([("key", pa.int64()), ("_last_access", times), ("value", maps)]))
    own = common.set_column(1, "_last_access", pa.array([[None, 7_000]], pa.list_(times)))
    state = StateDescription.of("seen", "MAP", LONG, VOID, STRING, ttl)
    for batch, access in ((common, (5, 5)), (own, (9, 7))):
        (blobs,) = KeyedStateEncoder(state, BlobAddress(0, 1, 128), batch.schema, last_access=9).encode(batch)
        (blob,) = blobs.column("blob").to_pylist()
        for time, value in zip(access, (b"\0", text("x")), strict=True):
            assert PRESENT + long(time) + value in blob


def test_null_stays_where_the_type_has_bytes_for_it() -> None:
    for value, type_ in (
        (STRING, pa.string()),
        (Types.BIG_INT(), pa.string()),
        (Types.LOCAL_DATE(), pa.date32()),
        (Types.POJO("com.acme.Point", {"x": LONG}), pa.struct([("x", pa.int64())])),
        (Types.NULLABLE(LONG), pa.int64()),
    ):
        assert values_written(value, entry(None), type_) == [NULL]


@pytest.mark.parametrize("value", [LONG, TtlSerializer.of(LONG), Types.LIST(LONG)], ids=str)
def test_null_is_refused_where_the_type_has_none(value: TypeSerializer) -> None:
    type_ = pa.list_(pa.int64()) if str(value).startswith("LIST") else pa.int64()
    with pytest.raises(InvalidRowError, match=r"state 'seen', key 1, map_key 'a': column map_value.* of row 0 is null"):
        values_written(value, entry(None), type_)
    maps = [{"key": 1, "value": [("a", None)]}]
    with pytest.raises(InvalidRowError, match=r"column value\.value.* of row 0 is null"):
        values_written(value, maps, pa.map_(pa.string(), type_))


@pytest.mark.parametrize("options", [{}, {"metadata": True}, {"flatten": False}, {"flatten": False, "metadata": True}])
def test_reading_drops_the_entries_that_flink_drops(options: dict[str, Any]) -> None:
    """A null entry of a map with TTL does not have a time: Flink's iterators skip and remove it."""
    header = keyed_header(LONG, [keyed("seen", MapSerializer(STRING, TtlSerializer.of(STRING)), "MAP")])
    group = group_of(LONG, 1)

    def place(name: str, key: int = 1) -> bytes:
        return long(key) + NAMESPACE_OF_VOID + text(name)

    entries = [(place("a"), PRESENT + long(5) + b"\0"), (place("b"), NULL), (place("c"), PRESENT + long(6) + text("x"))]
    rows = read_rows(operator(canonical(header, (group, group), {group: {0: entries}}).handle()), "seen", **options)
    if options.get("flatten", True):
        assert [(r["map_key"], r["map_value"]) for r in rows] == [("a", None), ("c", "x")]
    else:
        assert [r["value"] for r in rows] == [[("a", None), ("c", "x")]]
    assert all(r["_last_access"] is not None for r in rows if "_last_access" in r)
    (beside,) = read_rows(operator(canonical(header, (group, group), {group: {0: entries}}).handle()))
    assert beside["seen"] == [("a", None), ("c", "x")]
    alone = {group: {0: [(place("b"), NULL)]}}
    assert read_rows(operator(canonical(header, (group, group), alone).handle()), "seen", **options) == []


@pytest.mark.parametrize("column", ["key", "map_key"])
@pytest.mark.parametrize("encoder", [KeyedStateEncoder, TombstoneEncoder])
def test_keys_are_never_null(encoder: Any, column: str) -> None:
    """Neither where entries are written nor where they are marked to be deleted; a null text has bytes, and would be a key."""
    items = StateDescription.of("items", "MAP", STRING, VOID, STRING, LONG)
    columns = {"key": pa.array(["a", "b"]), "map_key": pa.array(["x", "y"])}
    if encoder is KeyedStateEncoder:
        columns["map_value"] = pa.array([1, 2])
    rows = pa.RecordBatch.from_pydict(columns | {column: pa.array(["a", None])})
    made = encoder(items, BlobAddress(0, 1, 128), rows.schema, context="operator orders")
    with pytest.raises(InvalidRowError, match=f"operator orders, state 'items', .*: column {column} of row 1 is null"):
        list(made.encode(rows))
