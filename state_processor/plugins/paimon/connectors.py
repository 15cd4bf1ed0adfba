"""Splits of Paimon's source, and state of its sinks: files that are left to commit, and the state of writers.

Paimon: ``FileStoreSourceSplit``, ``PendingSplitsCheckpoint``; ``CommitterOperator`` (``ManifestCommittable``,
``WrappedManifestCommittable``), ``StoreSinkWriteStateImpl``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from state_processor.connectors import (
    RAW_BYTES,
    WRITER,
    ContentSource,
    Format,
    Formats,
    Part,
    SinkConnector,
    SplitListing,
    Values,
    changed_content,
    json_part,
    part,
    row_of,
)
from state_processor.connectors.codecs import Codec, Content
from state_processor.errors import InvalidRowError
from state_processor.plugins.paimon import layouts as paimon
from state_processor.serializers import DataInput, DataOutput

TABLE: Final = "table"


# The source


def _files(content: Content) -> list[str]:
    return _names(content["split"]["dataFiles"])


def _names(files: Sequence[Content]) -> list[str]:
    return [file["fileName"] for file in files]


def _fixed(content: Content, value: Any) -> None:
    raise InvalidRowError("the files of a split can't be changed; remove the split, or change 'records_to_skip'")


PAIMON: Final = ContentSource(
    name="paimon",
    what="Paimon",
    layouts=paimon.LAYOUTS,
    splits=paimon.SPLITS,
    enumerator=paimon.PENDING,
    parts=(
        part("records_to_skip", pa.int64(), "recordsToSkip"),
        part("snapshot_id", pa.int64(), "split", "snapshotId"),
        part("bucket", pa.int32(), "split", "bucket"),
        part("bucket_path", pa.string(), "split", "bucketPath"),
        json_part("partition", "split", "partition", "values"),
        Part(pa.field("files", pa.list_(pa.string())), _files, _fixed),
    ),
    split_id=lambda content: str(content["id"]),
    listings=lambda content: (SplitListing("splits"),),
    new_state=lambda rows: {"splits": [], "currentSnapshotId": None},
    about="The state of the enumerator has the next snapshot to read (``currentSnapshotId``).",
).connector()


# The sinks

_WRITTEN_FILES: Final = pa.struct(
    [
        pa.field("partition", pa.string()),
        pa.field("bucket", pa.int32()),
        *(pa.field(name, pa.list_(pa.string())) for name in ("new_files", "compact_before", "compact_after")),
    ]
)


def _messages(content: Content) -> list[dict[str, Any]]:
    return list(map(_message_row, content["commitMessages"]))


def _message_row(message: Content) -> dict[str, Any]:
    return {
        "partition": json.dumps(message["partition"]["values"], ensure_ascii=False),
        "bucket": message["bucket"],
        "new_files": _names(message["dataIncrement"]["newFiles"]),
        "compact_before": _names(message["compactIncrement"]["compactBefore"]),
        "compact_after": _names(message["compactIncrement"]["compactAfter"]),
    }


def _fixed_commit(content: Content, value: Any) -> None:
    raise InvalidRowError("'files' can't be changed: leave out the row, or change the other columns")


_COMMITTED: Final = (
    part("commit_identifier", pa.int64(), "identifier"),
    part("watermark", pa.int64(), "watermark"),
    json_part("properties", "properties"),
    Part(pa.field("files", pa.list_(_WRITTEN_FILES)), _messages, _fixed_commit),
)
_STATE: Final = (
    part(TABLE, pa.string(), "tableName"),
    part("state_key", pa.string(), "key"),
    part("bucket", pa.int32(), "bucket"),
    json_part("partition", "partition", "values"),
    Part(
        pa.field("value", pa.binary()),
        lambda content: bytes.fromhex(content["value"]),
        lambda content, value: content.update(value=value.hex()),
    ),
)
_FIELDS: Final = tuple({p.name: p.field for p in (*_STATE, *_COMMITTED)}.values())
_BLANK: Final = dict.fromkeys(f.name for f in _FIELDS)


def _of_one(codec: Codec, parts: Sequence[Part]) -> Format[list[Values]]:
    """Return the format of an element that is one row."""

    def write(rows: list[Values], target: DataOutput) -> None:
        (row,) = rows
        codec.write(changed_content(parts, codec.read(_raw(row)), row), target)

    return Format(lambda source: [_BLANK | row_of(parts, codec.read(source))], write)


def _raw(row: Values) -> DataInput:
    if row.get(RAW_BYTES) is None:
        raise InvalidRowError(f"state of Paimon's sink can't be added; keep the column {RAW_BYTES!r}")
    return DataInput(bytes(row[RAW_BYTES]), RAW_BYTES)


_WRAPPED: Final = paimon.LAYOUTS[paimon.WRAPPED_MANIFESTS][1]
_ENTRIES: Final = "manifestCommittables"


def _read_wrapped(source: DataInput) -> list[Values]:
    entries = _WRAPPED.read(source)[_ENTRIES]
    return [_BLANK | {TABLE: e["identifier"]} | row_of(_COMMITTED, e["manifestCommittable"]) for e in entries] or [_BLANK]


def _write_wrapped(rows: list[Values], target: DataOutput) -> None:
    content = _WRAPPED.read(_raw(rows[0]))
    by_table = {entry["identifier"]: entry for entry in content[_ENTRIES]}
    unknown = [row[TABLE] for row in rows if row[TABLE] not in by_table]
    if unknown:
        raise InvalidRowError(f"table {unknown[0]!r} is not in the committable; expected one of {', '.join(map(repr, by_table))}")
    entries = []
    for row in rows:
        entry = by_table[row[TABLE]]
        entries.append(entry | {"manifestCommittable": changed_content(_COMMITTED, entry["manifestCommittable"], row)})
    _WRAPPED.write(content | {_ENTRIES: entries}, target)


PAIMON_SINK: Final = SinkConnector(
    name="paimon",
    fields=_FIELDS,
    writer=Formats("writers of Paimon", {0: (_of_one(paimon.WRITER_STATE, _STATE),)}),
    own_committer=Formats(
        "committables of Paimon",
        {
            1: (Format(_read_wrapped, _write_wrapped),),
            **{version: (_of_one(codec, _COMMITTED),) for version, codec in paimon.MANIFEST.items()},
        },
    ),
    layouts={name: codecs for name, codecs in paimon.LAYOUTS.items() if name not in PAIMON.layouts},
    own_states={WRITER: paimon.WRITER_STATE_NAME},
    about="A row is a commit of a table. Version 1 is the commit of a sink of many tables: one row for each table.",
)

CONNECTORS: Final = (PAIMON, PAIMON_SINK)
