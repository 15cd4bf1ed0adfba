"""Layouts of Flink CDC: splits and assigner states of the MySQL source, and of the incremental source of other databases.

Flink CDC: ``MySqlSplitSerializer``, ``SourceSplitSerializer``, and ``PendingSplitsStateSerializer`` of both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from state_processor.connectors.codecs import (
    BOOL,
    INT,
    LONG,
    TEXT,
    UTF,
    AtEnd,
    Cases,
    Codec,
    Constant,
    Content,
    Enumerated,
    FirstThatReads,
    Framed,
    Kept,
    ListOf,
    Mapped,
    OptionalOf,
    Struct,
    Versions,
    json_bytes_text,
    json_text,
    of_version,
)
from state_processor.connectors.java import (
    ROW_TEXT,
    HexText,
    JavaClassDescription,
    JavaInstance,
    JavaObjectCodec,
    described,
    single,
)
from state_processor.errors import InvalidRowError

CATALOG: Final = "catalog"
SCHEMA: Final = "schema"
TABLE: Final = "table"
_PARTS: Final = (CATALOG, SCHEMA, TABLE)
_OPTIONAL_KEYS: Final = ("nativeType", "length", "scale", "defaultValueExpression")
_LATER_KEYS: Final = ("comment", "hasDefaultValue", "enumValues")
"""Keys that tables and columns lack in the bytes of releases before 2.4. The content lacks them then, too."""
_COLUMN_KEYS: Final = (
    *("name", "jdbcType", "nativeType", "typeName", "typeExpression", "charsetName", "length", "scale", "position", "optional"),
    *("autoIncremented", "generated", "comment", "hasDefaultValue", "defaultValueExpression", "enumValues"),
)


# Ids


def table_id(text: str, quote: str, catalog_first: bool) -> dict[str, Any]:
    """Return the parts of an id.

    Of two parts, the first is the catalog or the schema. Without quotes, points of a name look like those between parts.
    """
    parts = _quoted_parts(text, quote) if quote else text.split(".")
    if len(parts) > 2 and not quote and not catalog_first:
        parts = [parts[0], ".".join(parts[1:])]
    if len(parts) > len(_PARTS):
        parts = [*parts[:2], ".".join(parts[2:])]
    id_: dict[str, Any] = dict.fromkeys(_PARTS)
    names = {1: (TABLE,), 2: (CATALOG if catalog_first else SCHEMA, TABLE)}.get(len(parts), _PARTS)
    return id_ | dict(zip(names, parts, strict=True))


def _quoted_parts(text: str, quote: str) -> list[str]:
    """Return the parts of an id in quotes. A name that begins or ends with a quote is not quoted again."""
    plain = f"{quote}(?:[^{quote}]|{quote}{quote})*{quote}"
    part = f"(?:{plain}|{quote}[^.]*|[^.]*{quote})"
    match = re.fullmatch(rf"({part})(?:\.({part}))?(?:\.({part}))?", text, re.DOTALL)
    if match is None:
        return text.split(".")
    parts = []
    for name in match.groups():
        if name is not None:
            is_quoted = len(name) > 1 and re.fullmatch(plain, name, re.DOTALL)
            parts.append(name[1:-1].replace(quote * 2, quote) if is_quoted else name)
    return parts


def table_text(content: Content, quote: str) -> str:
    """Return the text of an id."""
    if not isinstance(content, Mapping) or content.get(TABLE) is None:
        raise InvalidRowError(f"a table id needs {', '.join(map(repr, _PARTS))}; found {content!r}")
    parts = [content[name] for name in _PARTS if content.get(name) is not None]
    return ".".join(_in_quotes(part, quote) if quote else part for part in parts)


def _in_quotes(name: str, quote: str) -> str:
    return name if quote in (name[:1], name[-1:]) else quote + name.replace(quote, quote * 2) + quote


def catalog_first(content: Mapping[str, Any]) -> bool:
    """Return the flag ``useCatalogBeforeSchema`` of Flink CDC."""
    return content.get(CATALOG) is not None or content.get(SCHEMA) is None


@cache
def id_codec(quote: str) -> Codec:
    """Return the codec of an id in quotes."""
    return Kept(Mapped(UTF, lambda text: table_id(text, quote, True), lambda content: table_text(content, quote)))


DOUBLE_QUOTED: Final = id_codec('"')
BACK_QUOTED: Final = id_codec("`")


# Changes of tables, offsets


def _change(text: str, first: bool) -> dict[str, Any]:
    change = json.loads(text)
    table = change["table"]
    columns = []
    for column in table["columns"]:
        keys = [key for key in _COLUMN_KEYS if key in column or key not in _LATER_KEYS]
        columns.append({key: column.get(key) for key in keys})
    return {
        "type": change["type"],
        "id": table_id(change["id"], '"', first),
        "defaultCharsetName": table["defaultCharsetName"],
        "primaryKeyColumnNames": table["primaryKeyColumnNames"],
        "columns": columns,
        **{key: change[key] for key in ("comment",) if key in change},
    }


def _written_column(column: Mapping[str, Any]) -> dict[str, Any]:
    return {key: column[key] for key in _COLUMN_KEYS if _is_written(column, key)}


def _is_written(column: Mapping[str, Any], key: str) -> bool:
    if key in _OPTIONAL_KEYS:
        return column.get(key) is not None
    return key in column or key not in _LATER_KEYS


def _change_text(content: Content) -> str:
    table = {
        "defaultCharsetName": content["defaultCharsetName"],
        "primaryKeyColumnNames": content["primaryKeyColumnNames"],
        "columns": list(map(_written_column, content["columns"])),
    }
    comment = {key: content[key] for key in ("comment",) if key in content}
    return json_text({"type": content["type"], "id": table_text(content["id"], '"'), "table": table, **comment})


@cache
def change_codec(text: Codec, first: bool) -> Codec:
    """Return the codec of a table change."""
    return Kept(Mapped(text, lambda json_text: _change(json_text, first), _change_text))


OFFSET: Final = Kept(Mapped(TEXT, json.loads, json_bytes_text))
"""An offset: names and texts, in the order of Java's ``HashMap``."""


PACKAGE: Final = "org.apache.flink.cdc.connectors"
_FORMER_PACKAGE: Final = "com.ververica.cdc.connectors"
"""The package before 3.1."""
MYSQL_SPLITS: Final = f"{PACKAGE}.mysql.source.split.MySqlSplitSerializer"
MYSQL_ASSIGNER: Final = f"{PACKAGE}.mysql.source.assigners.state.PendingSplitsStateSerializer"
BASE_SPLITS: Final = f"{PACKAGE}.base.source.meta.split.SourceSplitSerializer"
BASE_ASSIGNER: Final = f"{PACKAGE}.base.source.assigner.state.PendingSplitsStateSerializer"

STATUSES: Final = {
    0: "INITIAL_ASSIGNING",
    1: "INITIAL_ASSIGNING_FINISHED",
    2: "NEWLY_ADDED_ASSIGNING",
    3: "NEWLY_ADDED_ASSIGNING_SNAPSHOT_FINISHED",
    4: "NEWLY_ADDED_ASSIGNING_FINISHED",
}


# What both sources have


def _position(position: Mapping[str, str]) -> dict[str, Any]:
    return {"file": position["file"], "pos": str(position["pos"])}


_FIRST_OFFSET: Final = Mapped(
    Struct.of(("file", UTF), ("pos", LONG)), _position, lambda content: {"file": content["file"], "pos": int(content["pos"])}
)


def _snapshot_split(table: Codec, offset: Codec, schemas: Codec) -> Struct:
    return Struct.of(
        ("tableId", table),
        ("splitId", UTF),
        ("splitKeyType", UTF),
        ("splitStart", ROW_TEXT),
        ("splitEnd", ROW_TEXT),
        ("highWatermark", offset),
        ("tableSchemas", schemas),
    )


def _stream_split(offset: Codec, info: Codec, schemas: Codec) -> Struct:
    return Struct.of(
        ("splitId", UTF),
        (None, Constant(UTF, "")),
        ("startingOffset", offset),
        ("endingOffset", offset),
        ("finishedSnapshotSplitInfos", ListOf(info)),
        ("tableSchemas", schemas),
    )


_TOTAL: Final = Struct.of(("totalFinishedSplitSize", INT))
_CURRENT: Final = "currentSplittingTableId"
_CHUNKS: Final = OptionalOf(Struct.of((_CURRENT, DOUBLE_QUOTED), ("nextChunkStart", single(ROW_TEXT)), ("nextChunkId", INT)))
_STATUS: Final = Struct.of((None, Enumerated("assignerStatus", STATUSES, "assignerStatusCode")))
_FINISHED: Final = Struct.of(("isAssignerFinished", BOOL))


def _snapshots(splits: Mapping[int, Cases]) -> Versions:
    """Return the codecs of the splits of an assigner. Flink fails for a split of the log there."""
    return {version: Cases({1: split.by_number[1]}) for version, split in splits.items()}


def _assigned(table: Codec, split: Codec, offset: Codec) -> Struct:
    framed = Framed(split)
    return Struct.of(
        ("alreadyProcessedTables", ListOf(table)),
        ("remainingSplits", ListOf(framed)),
        ("assignedSplits", ListOf(Struct.of(("key", UTF), ("split", framed)))),
        ("splitFinishedOffsets", ListOf(Struct.of(("splitId", UTF), ("offset", offset)))),
    )


def _remaining_tables(table: Codec) -> Struct:
    return Struct.of(("remainingTables", ListOf(table)), ("isTableIdCaseSensitive", BOOL))


def _known_id(table_id: Content, state: Mapping[str, Any]) -> Content:
    """Return an id of two parts. The rest of the state decides whether the first part is the catalog or the schema.

    Two parts of Postgres, which alone has the offset ``lsn``, are a schema and a table.
    """
    if table_id["schema"] is not None or table_id["catalog"] is None:
        return table_id
    tables = [*state["alreadyProcessedTables"], *state.get("remainingTables", ())]
    tables += [entry["tableId"] for entry in (*state["remainingSplits"], *state.get("tableSchemas", ()))]
    tables += [entry["split"]["tableId"] for entry in state["assignedSplits"]]
    shifted = table_id | {"catalog": None, "schema": table_id["catalog"]}
    if table_id in tables or shifted in tables:
        return table_id if table_id in tables else shifted
    offsets = [entry["offset"] for entry in state["splitFinishedOffsets"]]
    if any("lsn" in offset for offset in offsets if offset is not None):
        return shifted
    two_parts = [table for table in tables if (table["catalog"] is None) != (table["schema"] is None)]
    return shifted if not two_parts or two_parts[0]["catalog"] is None else table_id


def _with_known_id(state: dict[str, Any]) -> Content:
    chunks = state["chunkSplitterState"]
    if chunks is None:
        return state
    return state | {"chunkSplitterState": chunks | {_CURRENT: _known_id(chunks[_CURRENT], state)}}


def _assigner(snapshot: Callable[[int], Codec], stream: str, assigned: str) -> Codec:
    """Return the codec of an assigner's state: a phase of snapshots, a phase of the log, or a source with both."""

    def cases(content: Mapping[str, Any]) -> Codec:
        inner = snapshot(content["splitVersion"])
        flag = Struct.of((assigned, BOOL))
        both = Struct.of(("snapshotPendingSplits", inner)) + flag
        return Cases({1: ("snapshot", inner), 2: (stream, flag), 3: ("hybrid", both)})

    written = Struct.of(("splitVersion", INT), (None, cases))
    return Mapped(written, _version_inside, _version_outside)


def _version_inside(content: dict[str, Any]) -> Content:
    if content["kind"] != "hybrid":
        return content
    inner = {"kind": "snapshot", "splitVersion": content["splitVersion"]} | content["snapshotPendingSplits"]
    return {"kind": "hybrid"} | {n: v for n, v in content.items() if n != "splitVersion"} | {"snapshotPendingSplits": inner}


def _version_outside(content: Content) -> Any:
    return (
        {**content, "splitVersion": content["snapshotPendingSplits"]["splitVersion"]} if content["kind"] == "hybrid" else content
    )


# MySQL


def _mysql_split(version: int) -> Cases:
    offset = OptionalOf(OFFSET if version >= 2 else _FIRST_OFFSET)
    changes = change_codec(TEXT if version >= 2 else UTF, True)
    schemas = ListOf(Struct.of(("tableId", DOUBLE_QUOTED), ("change", changes)))
    info = Struct.of(
        ("tableId", DOUBLE_QUOTED),
        ("splitId", UTF),
        ("splitStart", ROW_TEXT),
        ("splitEnd", ROW_TEXT),
        ("highWatermark", offset),
    )
    binlog = _stream_split(offset, info, schemas)
    if version >= 3:
        binlog += _TOTAL
    if version >= 4:
        binlog += Struct.of(("isSuspended", AtEnd(BOOL)))
    return Cases({1: ("snapshot", _snapshot_split(BACK_QUOTED, offset, schemas)), 2: ("binlog", binlog)})


MYSQL_SPLIT: Final = {version: _mysql_split(version) for version in range(1, 5)}
"""4 since 2.2.0, whose releases up to 2.2.0 end before ``isSuspended``."""
_MYSQL_SNAPSHOTS: Final = _snapshots(MYSQL_SPLIT)


def _mysql_assigner(version: int) -> Codec:
    def snapshot(split_version: int) -> Struct:
        split = of_version(_MYSQL_SNAPSHOTS, split_version, MYSQL_SPLITS)
        offset = OptionalOf(OFFSET if split_version >= 2 else _FIRST_OFFSET)
        state = _assigned(DOUBLE_QUOTED, split, offset)
        state += (_STATUS + _remaining_tables(DOUBLE_QUOTED)) if version >= 3 else _FINISHED
        if version >= 4:
            changes = change_codec(TEXT if split_version >= 2 else UTF, True)
            state += Struct.of(("tableSchemas", ListOf(Struct.of(("tableId", DOUBLE_QUOTED), ("change", changes)))))
        if version >= 5:
            state += Struct.of(("chunkSplitterState", _CHUNKS))
        if version >= 6:
            state += Struct.of(("isSnapshotMetaReleased", BOOL))
        return state

    return _assigner(snapshot, "binlog", "isBinlogSplitAssigned")


# The incremental source


def _flagged(table: Codec) -> Codec:
    """Return the codec of an id after its flag. The flag is true if the first of two parts is the catalog."""

    def read(content: Mapping[str, Any]) -> Content:
        return table_id(content["text"], '"', content["first"])

    def write(content: Content) -> Any:
        return {"first": catalog_first(content), "text": table_text(content, '"')}

    return Kept(Mapped(Struct.of(("first", BOOL), ("text", table)), read, write))


_FLAGGED: Final = _flagged(UTF)
_FACTORY: Final = "base.source.meta.offset.OffsetFactory"
_PACKAGES: Final = (PACKAGE, _FORMER_PACKAGE)
_FACTORIES: Final = {
    f"{PACKAGE}.postgres.source.offset.PostgresOffsetFactory": -9086775444826524796,
    **{f"{package}.oracle.source.meta.offset.RedoLogOffsetFactory": 1 for package in _PACKAGES},
}
"""Factories of offsets whose class is known by its number, which the compiler derives from most classes."""


def _factory_content(factory: Any) -> Content:
    if not isinstance(factory, JavaInstance):
        raise TypeError("expected an OffsetFactory")
    return factory.class_name


def _factory_object(content: Content) -> Any:
    if content not in _FACTORIES:
        raise ValueError(f"the serialVersionUID of {content} is not known, only of {', '.join(_FACTORIES)}")
    return JavaInstance(content)


def _factory_classes() -> Iterator[JavaClassDescription]:
    for package in _PACKAGES:
        base = JavaClassDescription(f"{package}.{_FACTORY}", 1)
        yield base
        for name, uid in _FACTORIES.items():
            if name.startswith(package):
                yield JavaClassDescription(name, uid, parent=base.name)


_OFFSET_FACTORY: Final = Kept(
    HexText(
        JavaObjectCodec(
            _factory_content,
            _factory_object,
            described(*_factory_classes()),
        )
    )
)


def _base_info(version: int, offset: Codec) -> Codec:
    fields = Struct.of(
        ("tableId", UTF),
        ("splitId", UTF),
        ("splitStart", ROW_TEXT),
        ("splitEnd", ROW_TEXT),
        ("offsetFactory", _OFFSET_FACTORY),
        ("highWatermark", offset),
    )
    flag = "useCatalogBeforeSchema"

    def read(content: dict[str, Any]) -> Content:
        first = content.pop(flag, True)
        return content | {"tableId": table_id(content["tableId"], "", first)}

    def write(content: Content) -> Any:
        table = content["tableId"]
        return {**content, "tableId": table_text(table, ""), flag: catalog_first(table)}

    return Kept(Mapped(fields + Struct.of((flag, BOOL)) if version >= 4 else fields, read, write))


def _base_schemas(version: int) -> Codec:
    """Return the codec of schemas. Releases before 2.4 wrote ids without their flag, although later ones expect it."""
    texts = TEXT if version >= 2 else UTF
    changes = {first: change_codec(texts, first) for first in (False, True)}
    flagged = ListOf(
        Struct.of(("tableId", _FLAGGED), ("change", lambda content: changes[catalog_first(content["tableId"])])),
    )
    if version >= 4:
        return flagged
    return Kept(FirstThatReads((ListOf(Struct.of(("tableId", DOUBLE_QUOTED), ("change", changes[True]))), flagged)))


def _with_known_tables(split: dict[str, Any]) -> Content:
    """Return a split of the log. Its schemas have the parts of ids whose names contain points."""
    ids = [entry["tableId"] for entry in split["tableSchemas"]]
    by_text = {(table_text(table_id, ""), catalog_first(table_id)): table_id for table_id in ids}
    for info in split["finishedSnapshotSplitInfos"]:
        table_id = info["tableId"]
        info["tableId"] = by_text.get((table_text(table_id, ""), catalog_first(table_id)), table_id)
    return split


def _base_split(version: int) -> Cases:
    offset = OptionalOf(OFFSET if version >= 2 else _FIRST_OFFSET)
    schemas = _base_schemas(version)
    stream = _stream_split(offset, _base_info(version, offset), schemas)
    if version >= 3:
        stream += _TOTAL
    if version >= 5:
        stream += Struct.of(("isSuspended", BOOL))
    if version >= 6:
        stream += Struct.of(("isSnapshotCompleted", BOOL))
    table = _FLAGGED if version >= 4 else id_codec('"')
    with_ids = Mapped(stream, _with_known_tables, lambda content: content)
    return Cases({1: ("snapshot", _snapshot_split(table, offset, schemas)), 2: ("stream", with_ids)})


BASE_SPLIT: Final = {version: _base_split(version) for version in range(1, 7)}
_BASE_SNAPSHOTS: Final = _snapshots(BASE_SPLIT)


def _base_assigner(version: int) -> Codec:
    table = _FLAGGED if version >= 5 else id_codec('"')

    def snapshot(split_version: int) -> Codec:
        split = of_version(_BASE_SNAPSHOTS, split_version, BASE_SPLITS)
        offset = OptionalOf(OFFSET if split_version >= 2 else _FIRST_OFFSET)
        state = _assigned(table, split, offset) + (_STATUS if version >= 6 else _FINISHED)
        if version >= 3:
            state += _remaining_tables(table)
        if version >= 4:
            state += Struct.of(("tableSchemas", _base_schemas(split_version)))
        if version >= 7:
            ids = ListOf(Struct.of(("splitId", UTF), ("checkpointId", LONG)))
            state += Struct.of(("splitFinishedCheckpointIds", ids))
        if version >= 8:
            return Mapped(state + Struct.of(("chunkSplitterState", _CHUNKS)), _with_known_id, lambda content: content)
        return state

    return _assigner(snapshot, "stream", "isStreamSplitAssigned")


LAYOUTS: Final[Mapping[str, Versions]] = {
    MYSQL_SPLITS: MYSQL_SPLIT,
    MYSQL_ASSIGNER: {version: _mysql_assigner(version) for version in range(1, 7)},
    BASE_SPLITS: BASE_SPLIT,
    BASE_ASSIGNER: {version: _base_assigner(version) for version in range(1, 9)},
}


def with_former_package(layouts: Mapping[str, Versions]) -> dict[str, Versions]:
    """Return layouts with the names of their classes in Flink CDC before 3.1, too."""
    former = {name.replace(PACKAGE, _FORMER_PACKAGE, 1): versions for name, versions in layouts.items()}
    return {**layouts, **former}
