"""Layouts of Iceberg: manifests and committables of the sinks, splits and enumerator of the source.

Iceberg: ``DeltaManifestsSerializer``, ``IcebergCommittableSerializer``, ``DynamicCommittableSerializer``,
``IcebergFilesCommitter``, ``IcebergSourceSplitSerializer``, ``IcebergEnumeratorStateSerializer``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from state_processor.connectors.codecs import (
    BOOL,
    BYTES,
    INT,
    LONG,
    UTF,
    Codec,
    Constant,
    Content,
    Framed,
    ListOf,
    Mapped,
    OneOf,
    OptionalOf,
    Remark,
    Struct,
    Text,
    Versions,
    decode_modified_utf8,
    encode_modified_utf8,
    of_version,
    read_all,
    to_bytes,
)
from state_processor.errors import InvalidRowError
from state_processor.plugins.iceberg.first_split import first_split
from state_processor.plugins.iceberg.manifests import MANIFEST
from state_processor.plugins.iceberg.objects import WRITE_RESULT
from state_processor.serializers import DataInput

_PACKAGE: Final = "org.apache.iceberg.flink"
DELTA_MANIFESTS: Final = f"{_PACKAGE}.sink.DeltaManifestsSerializer"
COMMITTABLES: Final = f"{_PACKAGE}.sink.IcebergCommittableSerializer"
DYNAMIC_COMMITTABLES: Final = f"{_PACKAGE}.sink.dynamic.DynamicCommittableSerializer"
COMMITTER_STATE: Final = "org.apache.flink.table.runtime.typeutils.SortedMapSerializer"
SPLITS: Final = f"{_PACKAGE}.source.split.IcebergSourceSplitSerializer"
WRITE_RESULTS: Final = f"{_PACKAGE}.sink.WriteResultSerializer"
ENUMERATOR: Final = f"{_PACKAGE}.source.enumerator.IcebergEnumeratorStateSerializer"
COMMITTER_STATE_NAME: Final = "iceberg-files-committer-state"


# Sinks

_FRAMED: Final = Framed(MANIFEST, empty_is_null=True)
DELTAS: Final[Versions] = {
    1: Struct.of(("dataManifest", MANIFEST), (None, Remark("deleteManifest", None)), (None, Remark("referencedDataFiles", []))),
    2: Struct.of(("dataManifest", _FRAMED), ("deleteManifest", _FRAMED), ("referencedDataFiles", ListOf(UTF))),
}
_VERSIONED_DELTAS: Final = Struct.of(
    ("version", INT), ("deltas", lambda content: Framed(of_version(DELTAS, content["version"], DELTA_MANIFESTS)))
)


def _with_deltas(entry: dict[str, Any]) -> Content:
    value = entry["value"]
    deltas = read_all(_VERSIONED_DELTAS, DataInput(bytes.fromhex(value), "value"))["deltas"] if value else None
    return {"checkpointId": entry["checkpointId"], "deltaManifests": deltas, "value": value}


def _without_deltas(entry: Content) -> Any:
    """Return an entry with the bytes of its manifests. They take precedence over the manifests."""
    if entry.get("value") is not None:
        return entry
    deltas = entry["deltaManifests"]
    value = to_bytes(_VERSIONED_DELTAS, {"version": 2, "deltas": deltas}).hex() if deltas is not None else ""
    return {**entry, "value": value}


_ENTRY: Final = Mapped(
    Struct.of(("checkpointId", LONG), (None, Constant(BOOL, False)), ("value", BYTES)), _with_deltas, _without_deltas
)
_WHAT: Final = (
    f"one element of operator list state {COMMITTER_STATE_NAME}; a value is 4 bytes version 2, 4 bytes length, "
    "then DeltaManifests; an empty value is a checkpoint without files"
)
COMMITTER_ELEMENT: Final = Struct.of((None, Remark("what", _WHAT)), ("entries", ListOf(_ENTRY)))
_COMMITTABLE: Final = Struct.of(("jobId", UTF), ("operatorId", UTF), ("checkpointId", LONG), ("manifest", BYTES))
_TARGET: Final = Struct.of(("tableName", UTF), ("branch", UTF))
_FIRST_TARGET: Final = _TARGET + Struct.of(
    ("schemaId", INT), ("specId", INT), ("upsertMode", BOOL), ("equalityFields", ListOf(INT))
)
_JOB: Final = Struct.of(("jobId", UTF), ("operatorId", UTF), ("checkpointId", LONG))
_ONE_MANIFEST: Final = _JOB + Struct.of(("manifest", BYTES))


# Source


def _task(text: str) -> Content:
    """Return a task as its text, and what most readers look for in it."""
    fields = json.loads(text)
    return {
        "json": text,
        "location": fields["data-file"]["file-path"],
        "start": fields["start"],
        "length": fields["length"],
        "deletes": len(fields.get("delete-files", ())),
    }


def _task_text(content: Content) -> str:
    if not isinstance(content, Mapping) or not isinstance(content.get("json"), str):
        raise InvalidRowError(f"a task needs its text 'json', found {content!r}")
    text: str = content["json"]
    return text


def _split(text: Codec) -> Codec:
    task = Mapped(text, _task, _task_text)
    return Struct.of(("fileOffset", INT), ("recordOffset", LONG), ("tasks", ListOf(task)))


SPLIT: Final[Versions] = {
    1: first_split(_task, _task_text),
    2: _split(UTF),
    3: _split(Text(INT, encode_modified_utf8, decode_modified_utf8)),
}
_POSITION: Final = Struct.of(("snapshotId", OptionalOf(LONG)), ("snapshotTimestampMs", OptionalOf(LONG)))
_POSITION_VERSION: Final = 1
_VERSIONED_POSITION: Final = OptionalOf(Struct.of((None, Constant(INT, _POSITION_VERSION)), ("position", Framed(_POSITION))))


def _flat_position(content: Content) -> Content:
    position = content["position"] if content is not None else None
    return {"lastEnumeratedPosition": position, "positionVersion": _POSITION_VERSION}


def _nested_position(content: Content) -> Any:
    position = content["lastEnumeratedPosition"]
    return {"position": position} if position is not None else None


def _pending(content: Mapping[str, Any]) -> Codec:
    return ListOf(Struct.of(("split", Framed(of_version(SPLIT, content["splitVersion"], SPLITS))), ("status", UTF)))


_STATE: Final = Struct.of(
    (None, Mapped(_VERSIONED_POSITION, _flat_position, _nested_position)), ("splitVersion", INT), ("pendingSplits", _pending)
)

LAYOUTS: Final[Mapping[str, Versions]] = {
    DELTA_MANIFESTS: DELTAS,
    COMMITTABLES: {1: _COMMITTABLE},
    DYNAMIC_COMMITTABLES: {
        1: OneOf((_FIRST_TARGET + _ONE_MANIFEST, _TARGET + _ONE_MANIFEST)),
        2: _TARGET + _JOB + Struct.of(("manifests", ListOf(BYTES))),
    },
    COMMITTER_STATE: {0: COMMITTER_ELEMENT},
    WRITE_RESULTS: {1: WRITE_RESULT},
    SPLITS: SPLIT,
    ENUMERATOR: {1: _STATE, 2: _STATE + Struct.of(("enumerationSplitCountHistory", ListOf(INT)))},
}
