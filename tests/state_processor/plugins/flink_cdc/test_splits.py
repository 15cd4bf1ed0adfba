"""Splits and assigners of Flink CDC as tables: positions in the log, tables that are dropped, and text that stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from state_processor import connectors
from state_processor.backends.connectors.connector import CoordinatorState, SourceState, Versioned
from state_processor.backends.connectors.source_splits import written_source
from state_processor.errors import InvalidRowError
from state_processor.plugins.flink_cdc import layouts as flink_cdc
from state_processor.serializers.io import DataOutput
from state_processor.serializers.java.object_input import JavaInstance
from state_processor.serializers.java.object_output import JavaClassDescription, write_java_object
from tests.backends.connectors.source_tests import Family, SourceWithoutNewSplitsTests, rows_of

TABLE = {"catalog": "shop", "schema": None, "table": "orders"}
OTHER = {"catalog": "shop", "schema": None, "table": "users"}
OFFSET = {"ts_sec": "0", "file": "mysql-bin.000003", "pos": "154", "kind": "SPECIFIC", "row": "0", "event": "0"}
SCHEMA = {
    "type": "CREATE",
    "id": TABLE,
    "defaultCharsetName": "utf8",
    "primaryKeyColumnNames": ["id"],
    "columns": [],
    "comment": None,
}


def chunk(table: dict[str, Any], number: int, mark: Any = None) -> dict[str, Any]:
    return {
        "kind": "snapshot",
        "tableId": table,
        "splitId": f"shop.{table['table']}:{number}",
        "splitKeyType": "ROW<`id` INT>",
        "splitStart": None,
        "splitEnd": [{"class": "java.lang.Integer", "value": 7}],
        "highWatermark": mark,
        "tableSchemas": [],
    }


def info(table: dict[str, Any], number: int) -> dict[str, Any]:
    return {
        "tableId": table,
        "splitId": f"shop.{table['table']}:{number}",
        "splitStart": None,
        "splitEnd": None,
        "highWatermark": OFFSET,
    }


BINLOG = {
    "kind": "binlog",
    "splitId": "binlog-split",
    "startingOffset": OFFSET,
    "endingOffset": None,
    "finishedSnapshotSplitInfos": [info(TABLE, 0), info(OTHER, 0)],
    "tableSchemas": [{"tableId": TABLE, "change": SCHEMA}, {"tableId": OTHER, "change": SCHEMA | {"id": OTHER}}],
    "totalFinishedSplitSize": 2,
    "isSuspended": False,
}
ASSIGNER = {
    "kind": "hybrid",
    "snapshotPendingSplits": {
        "kind": "snapshot",
        "splitVersion": 4,
        "alreadyProcessedTables": [TABLE, OTHER],
        "remainingSplits": [],
        "assignedSplits": [{"key": f"shop.{t['table']}:0", "split": chunk(t, 0)} for t in (TABLE, OTHER)],
        "splitFinishedOffsets": [{"splitId": f"shop.{t['table']}:0", "offset": OFFSET} for t in (TABLE, OTHER)],
        "assignerStatus": "INITIAL_ASSIGNING_FINISHED",
        "assignerStatusCode": 1,
        "remainingTables": [],
        "isTableIdCaseSensitive": True,
        "tableSchemas": BINLOG["tableSchemas"],
        "chunkSplitterState": None,
    },
    "isBinlogSplitAssigned": True,
}
MYSQL = Family(
    flink_cdc.MYSQL_SPLITS,
    4,
    BINLOG,
    flink_cdc.MYSQL_ASSIGNER,
    5,
    ASSIGNER,
    edit_state=lambda state: state["snapshotPendingSplits"].update(assignerStatus="NEWLY_ADDED_ASSIGNING", assignerStatusCode=2),
    columns={"file": "mysql-bin.000002", "position": 4},
    fields={"startingOffset": OFFSET | {"file": "mysql-bin.000002", "pos": "4"}},
)


class TestMySql(SourceWithoutNewSplitsTests):
    connector = "mysql-cdc"
    family = MYSQL


def test_a_position_in_the_binlog() -> None:
    base = MYSQL.source_state()
    rows = rows_of(base)
    (binlog,) = [row for row in rows if row["kind"] == "binlog"]
    assert (binlog["file"], binlog["position"], binlog["subtask"], binlog["gtids"]) == ("mysql-bin.000003", 154, 0, None)
    binlog |= {"file": "mysql-bin.000002", "position": 4}
    (content,), assigner = MYSQL.decoded(written_source(rows, base))
    assert content == BINLOG | {"startingOffset": OFFSET | {"file": "mysql-bin.000002", "pos": "4"}}
    assert assigner == ASSIGNER
    binlog["offset"] = json.dumps(OFFSET | {"pos": "5"})
    with pytest.raises(InvalidRowError, match=r"'binlog-split'.*'file' and 'position'|'offset'.*contradicts"):
        written_source(rows, base)


def test_a_table_is_dropped() -> None:
    base = MYSQL.source_state()
    rows = [row for row in rows_of(base) if row["table"] != "shop.orders"]
    for row in rows:
        for name in ("finished_splits", "table_schemas"):
            row[name] = [entry for entry in row[name] or () if entry["table"] != "shop.orders"] if row[name] is not None else None
    (content,), assigner = MYSQL.decoded(written_source(rows, base))
    assert [entry["tableId"] for entry in content["finishedSnapshotSplitInfos"]] == [OTHER]
    assert [entry["tableId"] for entry in content["tableSchemas"]] == [OTHER]
    assert content["totalFinishedSplitSize"] == 1
    inner = assigner["snapshotPendingSplits"]
    assert inner["alreadyProcessedTables"] == [OTHER]
    assert [entry["key"] for entry in inner["assignedSplits"]] == ["shop.users:0"]
    assert [entry["splitId"] for entry in inner["splitFinishedOffsets"]] == ["shop.users:0"]
    assert [entry["tableId"] for entry in inner["tableSchemas"]] == [OTHER]


ORACLE_FACTORY = "org.apache.flink.cdc.connectors.oracle.source.meta.offset.RedoLogOffsetFactory"


def _with_factory_of_oracle(data: bytes) -> bytes:
    """Replace the factory of Postgres by one whose number is not known."""
    postgres = "org.apache.flink.cdc.connectors.postgres.source.offset.PostgresOffsetFactory"
    parent = JavaClassDescription("org.apache.flink.cdc.connectors.base.source.meta.offset.OffsetFactory", 1)

    def text(name: str, uid: int) -> bytes:
        classes = {d.name: d for d in (parent, JavaClassDescription(name, uid, parent=parent.name))}
        target = DataOutput()
        target.write_utf(write_java_object(JavaInstance(name), classes).hex())
        return target.to_bytes()

    before, after = text(postgres, -9086775444826524796), text(ORACLE_FACTORY, 77)
    assert before in data
    return data.replace(before, after)


def test_a_position_of_oracle_keeps_the_objects_of_its_connector() -> None:
    infos = [
        info(TABLE, 0)
        | {"offsetFactory": "org.apache.flink.cdc.connectors.postgres.source.offset.PostgresOffsetFactory"}
        | {"highWatermark": {"scn": "5"}}
    ]
    content = BINLOG | {"kind": "stream", "startingOffset": {"scn": "7"}, "finishedSnapshotSplitInfos": infos}
    content |= {"splitId": "stream-split", "isSnapshotCompleted": True, "totalFinishedSplitSize": 1}
    data = _with_factory_of_oracle(connectors.encode(flink_cdc.BASE_SPLITS, 6, content))
    base = SourceState("operator 'op'", ((0, Versioned(6, data)),), None)
    (row,) = rows_of(base)
    assert row["scn"] == "7"
    written = written_source([row | {"scn": "8"}], base)
    assert written.elements[0][8:] == data.replace(b'{"scn":"7"}', b'{"scn":"8"}')


def test_an_edited_enumerator_keeps_the_text_of_schemas() -> None:
    assigner = connectors.encode(flink_cdc.MYSQL_ASSIGNER, 5, ASSIGNER)
    comment, longer = b'"comment":null}', b'"comment":null, "new": 1}'
    start = assigner.index(b'{"type"')
    text_size = int.from_bytes(assigner[start - 4 : start], "big")
    text = assigner[start : start + text_size]
    other = text.replace(comment, longer)
    data = assigner.replace(text_size.to_bytes(4, "big") + text, len(other).to_bytes(4, "big") + other)
    assert data != assigner
    held = ((0, Versioned(4, connectors.encode(flink_cdc.MYSQL_SPLITS, 4, BINLOG))),)
    base = SourceState("operator 'op'", held, CoordinatorState(Versioned(5, data)))
    rows = rows_of(base)
    (row,) = [row for row in rows if row["split_id"] == "enumerator"]
    row["enumerator"] = row["enumerator"].replace('"isBinlogSplitAssigned": true', '"isBinlogSplitAssigned": false')
    written = CoordinatorState.read(written_source(rows, base).coordinator, "").enumerator.data
    assert written == data[:-1] + b"\0"
