"""The state of sources of Flink CDC, for tests of all sources."""

from __future__ import annotations

from typing import Any

from state_processor.plugins.flink_cdc import layouts as flink_cdc
from tests.backends.connectors.split_families import Family

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
FAMILIES = {"mysql-cdc": MYSQL}
