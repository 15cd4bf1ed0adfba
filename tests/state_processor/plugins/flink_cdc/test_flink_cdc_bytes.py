"""Bytes of Flink CDC, made from its sources by an encoder of their own: old releases, and names that need quotes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from state_processor import connectors
from tests.backends.connectors.java_data import Data

NULL_ROW = "aced000570"
NULL_ROW_OF_ONE = "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c020000787000000001" + "70"
SPLITS = "org.apache.flink.cdc.connectors.base.source.meta.split.SourceSplitSerializer"
ASSIGNER = "org.apache.flink.cdc.connectors.base.source.assigner.state.PendingSplitsStateSerializer"
MYSQL_SPLITS = "org.apache.flink.cdc.connectors.mysql.source.split.MySqlSplitSerializer"


def old_change(**column: Any) -> str:
    """Return a change of a table as Debezium before 1.9 wrote it: without comments, default values and values of enums."""
    written = {
        "name": "id",
        "jdbcType": 4,
        "typeName": "INT",
        "typeExpression": "INT",
        "charsetName": None,
        "position": 1,
        "optional": False,
        "autoIncremented": True,
        "generated": False,
    }
    table = {"defaultCharsetName": "utf8", "primaryKeyColumnNames": ["id"], "columns": [written | column]}
    return json.dumps({"type": "CREATE", "id": '"shop"."orders"', "table": table}, separators=(",", ":"))


def snapshot(table: str, change: str, *, flagged: bool) -> bytes:
    """Return a snapshot split of version 3 of the common incremental source."""
    data = Data().int(1).utf(table).utf("shop.orders:0").utf("ROW<`id` INT>").utf(NULL_ROW).utf(NULL_ROW).bool(False).int(1)
    if flagged:
        data.bool(True)
    return data.utf(table).sized(change.encode()).data


def round_trip(serializer: str, version: int, data: bytes) -> Any:
    """Return the content; its JSON has the same bytes, unless releases wrote several forms."""
    content = connectors.decode(serializer, version, data)
    assert connectors.encode(serializer, version, content) == data
    return json.loads(json.dumps(content))


@pytest.mark.parametrize("table", ["shop.orders", '"shop"."orders"'])
def test_schemas_of_releases_before_2_4_have_no_flag(table: str) -> None:
    data = snapshot(table, old_change(), flagged=False)
    content = round_trip(SPLITS, 3, data)
    (entry,) = content["tableSchemas"]
    assert entry["tableId"] == entry["change"]["id"] == {"catalog": "shop", "schema": None, "table": "orders"}
    assert "comment" not in entry["change"]
    assert entry["change"]["columns"][0].keys() & {"comment", "hasDefaultValue", "enumValues", "length"} == {"length"}
    assert (connectors.encode(SPLITS, 3, content) == data) is table.startswith('"')
    assert round_trip(SPLITS, 3, snapshot(table, old_change(), flagged=True)) == content


def test_the_package_before_3_1() -> None:
    data = snapshot('"shop"."orders"', old_change(), flagged=False)
    name = SPLITS.replace("org.apache.flink.cdc", "com.ververica.cdc")
    content = connectors.decode(name, 3, data)
    assert connectors.encode(name, 3, json.loads(json.dumps(content))) == data


def mysql_snapshot(table: str) -> bytes:
    data = Data().int(1).utf(table).utf("x").utf("ROW<`id` INT>").utf(NULL_ROW).utf(NULL_ROW)
    return data.bool(False).int(0).data


@pytest.mark.parametrize(
    ("text", "catalog", "table"),
    [
        ("`shop`.`or``ders`", "shop", "or`ders"),
        ("`shop`.`.or.ders.`", "shop", ".or.ders."),
        ("`shop`.`orders", "shop", "`orders"),
        ("`shop`.orders`", "shop", "orders`"),
        ("shop`.`orders`", "shop`", "orders"),
        ("`shop`.``", "shop", ""),
        ("``", None, ""),
    ],
)
def test_names_that_begin_or_end_with_a_quote_have_no_others(text: str, catalog: str | None, table: str) -> None:
    content = round_trip(MYSQL_SPLITS, 4, mysql_snapshot(text))
    assert content["tableId"] == {"catalog": catalog, "schema": None, "table": table}
    assert connectors.encode(MYSQL_SPLITS, 4, content) == mysql_snapshot(text)


def stream(version: int, tables: Mapping[str, str], factory: str, offset: bytes, *, info: str, first: bool) -> bytes:
    """Return a split of the log, of version 4 to 6, with one finished split."""
    data = Data().int(2).utf("stream-split").utf("").bool(True).sized(offset).bool(False).int(1)
    data.utf(info).utf("s:0").utf(NULL_ROW).utf(NULL_ROW).utf(factory).bool(True).sized(offset).bool(first).int(len(tables))
    for table, change in tables.items():
        data.bool(first).utf(table).sized(change.encode())
    data.int(1)
    return data.bool(False).bool(True).data if version == 6 else data.bool(False).data if version == 5 else data.data


def java_factory(name: str, uid: int) -> str:
    """Return an offset factory as Java writes it: an object without fields, of a class with one parent, in hexadecimal."""
    parent = "org.apache.flink.cdc.connectors.base.source.meta.offset.OffsetFactory"
    data = Data(bytes.fromhex("aced00057372")).utf(name).long(uid).raw("02000078").raw("72").utf(parent).long(1)
    return data.raw("0200007870").data.hex()


ORACLE = java_factory("org.apache.flink.cdc.connectors.oracle.source.meta.offset.RedoLogOffsetFactory", 1)
UNKNOWN = java_factory("com.acme.Factory", 0x0123456789ABCDEF)


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize(
    ("table", "info", "first", "expected"),
    [
        ('"a.b"."c.d"', "a.b.c.d", False, {"catalog": None, "schema": "a.b", "table": "c.d"}),
        ('"a"."b"."c.d"', "a.b.c.d", True, {"catalog": "a", "schema": "b", "table": "c.d"}),
        ('"a"."b.c.d"', "a.b.c.d", True, {"catalog": "a", "schema": None, "table": "b.c.d"}),
        ('"x"."y"', "a.b.c", False, {"catalog": None, "schema": "a", "table": "b.c"}),
    ],
)
def test_names_with_points(version: int, table: str, info: str, first: bool, expected: Any) -> None:
    change = old_change().replace('"\\"shop\\".\\"orders\\""', json.dumps(table))
    data = stream(version, {table: change}, ORACLE, b'{"scn":"7"}', info=info, first=first)
    content = round_trip(SPLITS, version, data)
    assert content["finishedSnapshotSplitInfos"][0]["tableId"] == expected
    assert connectors.encode(SPLITS, version, content) == data


@pytest.mark.parametrize(
    ("offset", "table", "schema"), [(b'{"lsn":"23576408"}', '"public"."t"', True), (b'{"scn":"7"}', '"shop"."t"', False)]
)
def test_the_table_whose_chunks_are_being_made(offset: bytes, table: str, schema: bool) -> None:
    """Its id has no flag. Other tables of two parts do not decide for Postgres."""
    data = Data().int(6).int(1).int(1).bool(True).utf('"db"."other"').int(0).int(0)
    data.int(1).utf("t:0").bool(True).sized(offset).int(0).int(0).bool(True).int(0).int(0)
    data.bool(True).utf(table).utf(NULL_ROW_OF_ONE).int(3)
    content = round_trip(ASSIGNER, 8, data.data)
    first = json.loads(table.split(".")[0])
    expected = {"catalog": None, "schema": first} if schema else {"catalog": first, "schema": None}
    assert content["chunkSplitterState"]["currentSplittingTableId"] == {**expected, "table": "t"}


def test_offsets_are_json_of_jackson() -> None:
    """Jackson writes characters beyond 16 bits as two escapes where it writes bytes, and control characters in capitals."""
    offset = b'{"resumeToken":"{\\"_data\\": \\"8\\"}","k":null,"f":"\\uD83D\\uDE00\xc3\xa9\\u001F\\n"}'
    data = stream(6, {}, ORACLE, offset, info="a.b", first=True)
    content = round_trip(SPLITS, 6, data)
    assert content["startingOffset"] == {"resumeToken": '{"_data": "8"}', "k": None, "f": "\U0001f600é\x1f\n"}
    assert connectors.encode(SPLITS, 6, content) == data


def test_a_factory_of_an_unknown_class_is_kept_while_the_rest_changes() -> None:
    data = stream(6, {}, UNKNOWN, b'{"lsn":"7"}', info="a.b", first=True)
    content = connectors.decode(SPLITS, 6, data)
    (info,) = content["finishedSnapshotSplitInfos"]
    assert info["offsetFactory"] == "com.acme.Factory"
    info["highWatermark"]["lsn"] = content["startingOffset"]["lsn"] = "8"
    assert connectors.encode(SPLITS, 6, content) == data.replace(b'"7"', b'"8"')
