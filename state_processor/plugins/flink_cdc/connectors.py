"""Splits of Flink CDC: chunks of tables, the position in the log, and the assigner's memory of tables and chunks.

Flink CDC: ``MySqlSplit``, ``SourceSplitBase``, ``PendingSplitsState``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from state_processor.connectors import ASSIGNED, ContentSource, Part, SourceConnector, SplitListing, Values, json_part, part
from state_processor.connectors.codecs import Content
from state_processor.errors import InvalidRowError
from state_processor.plugins.flink_cdc import layouts as flink_cdc

KIND: Final = "kind"
TABLE: Final = "table"
FINISHED: Final = "FINISHED"
"""The assignment of a chunk that was read: the assigner has the position in the log at its end."""
_POSITIONS: Final = {"snapshot": "highWatermark", "binlog": "startingOffset", "stream": "startingOffset"}
_TABLE_PARTS: Final = ("catalog", "schema", "table")


def table_name(table: Mapping[str, Any]) -> str:
    """Return an id of a table as text."""
    return ".".join(table[name] for name in _TABLE_PARTS if table.get(name) is not None)


def _table_part() -> Part:
    def put(content: Content, value: Any) -> None:
        raise InvalidRowError(f"the table of a split can't be changed to {value!r}: remove the row, or keep the table")

    return Part(
        pa.field(TABLE, pa.string()), lambda content: table_name(content["tableId"]) if "tableId" in content else None, put
    )


def _offset(content: Content) -> Any:
    return content[_POSITIONS[content[KIND]]]


def _offset_part(name: str, key: str, type_: pa.DataType | None = None) -> Part:
    """Return a column with one entry of the position: the start in the log, or the end of a chunk that was read."""
    number = type_ is not None

    def take(content: Content) -> Any:
        part = (_offset(content) or {}).get(key)
        return int(part) if number and part is not None else part

    def put(content: Content, value: Any) -> None:
        offset = dict(_offset(content) or {})
        if value is None:
            offset.pop(key, None)
        else:
            offset[key] = str(value)
        content[_POSITIONS[content[KIND]]] = offset

    return Part(pa.field(name, type_ if type_ is not None else pa.string()), take, put)


def _whole_offset() -> Part:
    def take(content: Content) -> Any:
        offset = _offset(content)
        return None if offset is None else json.dumps(offset, ensure_ascii=False)

    def put(content: Content, value: Any) -> None:
        content[_POSITIONS[content[KIND]]] = None if value is None else json.loads(value)

    return Part(pa.field("offset", pa.string()), take, put)


_INFO: Final = pa.struct([(n, pa.string()) for n in ("table", "split_id", "split_start", "split_end", "offset")])
_SCHEMA: Final = pa.struct([("table", pa.string()), ("change", pa.string())])


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _info_row(info: Content) -> dict[str, Any]:
    return {
        "table": table_name(info["tableId"]),
        "split_id": info["splitId"],
        "split_start": _text(info["splitStart"]),
        "split_end": _text(info["splitEnd"]),
        "offset": _text(info["highWatermark"]),
    }


def _schema_row(schema: Content) -> dict[str, Any]:
    return {"table": table_name(schema["tableId"]), "change": _text(schema["change"])}


def _shrinkable_list(
    name: str, column: str, type_: pa.DataType, row: Callable[[Content], dict[str, Any]], total: str | None = None
) -> Part:
    """Return a column with a list: elements can be left out and not changed. ``total`` is the field with their number."""

    def take(content: Content) -> Any:
        return list(map(row, content[name])) if name in content else None

    def put(content: Content, value: Any) -> None:
        remaining = list(map(dict, value or ()))
        before = content.get(name, [])
        content[name] = [element for element in before if row(element) in remaining]
        if total is not None and content.get(total) == len(before):
            content[total] = len(content[name])

    return Part(pa.field(column, pa.list_(type_)), take, put)


def _columns(*offsets: Part) -> tuple[Part, ...]:
    return (
        part(KIND, pa.string(), "kind"),
        _table_part(),
        part("split_key_type", pa.string(), "splitKeyType"),
        json_part("split_start", "splitStart"),
        json_part("split_end", "splitEnd"),
        *offsets,
        _whole_offset(),
        json_part("ending_offset", "endingOffset"),
        _shrinkable_list("finishedSnapshotSplitInfos", "finished_splits", _INFO, _info_row, "totalFinishedSplitSize"),
        _shrinkable_list("tableSchemas", "table_schemas", _SCHEMA, _schema_row),
        part("suspended", pa.bool_(), "isSuspended"),
    )


def _state(content: Content) -> Any:
    return content["snapshotPendingSplits"] if content[KIND] == "hybrid" else content


def _finished(state: Content) -> set[str]:
    return {entry["splitId"] for entry in state.get("splitFinishedOffsets", ())}


def _tables(state: Content) -> set[str]:
    splits = [*state["remainingSplits"], *(entry["split"] for entry in state["assignedSplits"])]
    tables = [*state["alreadyProcessedTables"], *state.get("remainingTables", ()), *(split["tableId"] for split in splits)]
    return set(map(table_name, tables))


def _tables_of_splits(state: Content) -> set[str]:
    """Return the names of the tables whose splits an assigner has."""
    splits = [*(entry["split"] for entry in state["assignedSplits"]), *state["remainingSplits"]]
    return {table_name(split["tableId"]) for split in splits}


def forget_dropped(state: Content, before: Content) -> None:
    """Drop the memory of an assigner of removed splits and tables."""
    if "assignedSplits" not in state:
        return
    ids = {entry["key"] for entry in state["assignedSplits"]}
    for name in ("splitFinishedOffsets", "splitFinishedCheckpointIds"):
        if name in state:
            state[name] = [entry for entry in state[name] if entry["splitId"] in ids]
    dropped = _tables_of_splits(before) - _tables_of_splits(state)
    for name in ("alreadyProcessedTables", "remainingTables"):
        if name in state:
            state[name] = [table for table in state[name] if table_name(table) not in dropped]
    if "tableSchemas" in state:
        state["tableSchemas"] = [schema for schema in state["tableSchemas"] if table_name(schema["tableId"]) not in dropped]
    chunks = state.get("chunkSplitterState")
    if chunks is not None and table_name(chunks["currentSplittingTableId"]) in dropped:
        state["chunkSplitterState"] = None


def _listings(content: Content) -> Sequence[SplitListing]:
    state = _state(content)
    if state[KIND] != "snapshot":
        return ()
    finished = _finished(state)
    return (
        SplitListing("remainingSplits"),
        SplitListing(
            "assignedSplits",
            split=lambda entry: entry["split"],
            assignment=lambda entry: FINISHED if entry["key"] in finished else ASSIGNED,
            entry=lambda split, assignment: {"key": split["splitId"], "split": split},
            accepts=lambda assignment: assignment in (ASSIGNED, FINISHED),
        ),
    )


def _no_state(rows: Sequence[Values]) -> Content:
    raise InvalidRowError(
        "the state of an assigner of Flink CDC can't be made from splits: add its row, with the column 'enumerator'"
    )


_USUAL: Final = {flink_cdc.MYSQL_ASSIGNER: 5}
"""The version to write if a savepoint lacks it: version 6 needs an option of the source."""


def _connector(name: str, what: str, splits: str, assigner: str, *offsets: Part, about: str) -> SourceConnector:
    source = ContentSource(
        name=name,
        what=what,
        layouts=flink_cdc.LAYOUTS,
        splits=splits,
        enumerator=assigner,
        parts=_columns(*offsets),
        split_id=lambda content: str(content["splitId"]),
        split_version=lambda content: int(_state(content)["splitVersion"]),
        listings=_listings,
        new_state=_no_state,
        tidy=forget_dropped,
        root=_state,
        listed=lambda row: row[KIND] == "snapshot",
        role="assigner",
        usual=_USUAL.get(assigner),
        keeps_assigned=True,
        about=about,
    ).connector()
    return replace(source, layouts=flink_cdc.with_former_package(source.layouts))


MYSQL_CDC: Final = _connector(
    "mysql-cdc",
    "MySQL CDC",
    flink_cdc.MYSQL_SPLITS,
    flink_cdc.MYSQL_ASSIGNER,
    _offset_part("file", "file"),
    _offset_part("position", "pos", pa.int64()),
    _offset_part("gtids", "gtids"),
    _offset_part("server_id", "server_id"),
    about=(
        "``file``, ``position``, ``gtids`` and ``server_id`` are the position in the binlog; ``offset`` has all of it as JSON."
    ),
)

CDC: Final = _connector(
    "cdc",
    "incremental CDC",
    flink_cdc.BASE_SPLITS,
    flink_cdc.BASE_ASSIGNER,
    *(_offset_part(name, name) for name in ("lsn", "scn", "commit_lsn")),
    _offset_part("resume_token", "resumeToken"),
    about=(
        "The source of Postgres (``lsn``), Oracle (``scn``), SQL Server and Db2 (``commit_lsn``) and MongoDB "
        "(``resume_token``). ``offset`` has all of the position as JSON."
    ),
)

CONNECTORS: Final = (MYSQL_CDC, CDC)
