"""Pending checkpoints of write-ahead sinks, such as the Cassandra sink with exactly-once guarantee.

Flink: ``GenericWriteAheadSink``. Such a sink writes the records of a checkpoint to a file of its own, and sends them when the
checkpoint is complete. Its list state has the files that are left, in Java serialization.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from state_processor.connectors import COMMITTABLE, Format, Formats, SinkConnector, Values, time_of
from state_processor.connectors.java import JavaInstance, class_name, read_java_object
from state_processor.errors import InvalidRowError, UnsupportedFormatError
from state_processor.serializers import DataInput, DataOutput

PENDING_CHECKPOINTS: Final = "pending-checkpoints"
"""The name of the list state."""

_PENDING: Final = "org.apache.flink.streaming.runtime.operators.GenericWriteAheadSink$PendingCheckpoint"
_IN_FILES: Final = ("FileStateHandle", "RelativeFileStateHandle")
_IN_MEMORY: Final = "ByteStreamStateHandle"


def _read(source: DataInput) -> list[Values]:
    start = source.position
    pending = read_java_object(source).content
    if not isinstance(pending, JavaInstance) or pending.class_name != _PENDING:
        raise source.corrupt(f"a {_PENDING} expected, found {class_name(pending)}", start)
    handle = pending.get("stateHandle")
    return [
        {
            "pending_checkpoint": pending.get("checkpointId"),
            "written_by_subtask": pending.get("subtaskId"),
            "timestamp": time_of(pending.get("timestamp"), source, start, "timestamp"),
            "handle": class_name(handle).rpartition(".")[2],
            **_location(handle),
        }
    ]


def _location(handle: Any) -> Values:
    """Return where the records are: a file, or bytes in the state. Both are unknown for handles of other classes."""
    kind = class_name(handle).rpartition(".")[2]
    if kind in _IN_FILES:
        return {"file": _path(handle.get("filePath")), "size": handle.get("stateSize"), "records": None}
    if kind == _IN_MEMORY:
        data = bytes(byte & 0xFF for byte in handle.get("data"))
        return {"file": None, "size": len(data), "records": data}
    return {"file": None, "size": None, "records": None}


def _path(path: Any) -> str:
    uri = path.get("uri") if isinstance(path, JavaInstance) else path
    text = uri.get("string") if isinstance(uri, JavaInstance) else uri
    if not isinstance(text, str):
        raise UnsupportedFormatError(f"a path of class {class_name(path)} has no known text")
    return text


def _write(rows: list[Values], target: DataOutput) -> None:
    raise InvalidRowError("a pending checkpoint of a write-ahead sink can't be changed: leave out its row, or keep all columns")


WRITE_AHEAD: Final = SinkConnector(
    name="write-ahead",
    fields=(
        pa.field("pending_checkpoint", pa.int64()),
        pa.field("written_by_subtask", pa.int32()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("handle", pa.string()),
        pa.field("file", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("records", pa.binary()),
    ),
    writer=Formats("writers of write-ahead sinks", {}),
    committables=Formats("committables of write-ahead sinks", {}),
    element_of=lambda row, number: number,
    own_committer=Formats("pending checkpoints of write-ahead sinks", {0: (Format(_read, _write),)}),
    own_states={COMMITTABLE: PENDING_CHECKPOINTS},
    about="A row is a pending checkpoint. Records up to a few kilobytes are in the state itself, without their type.",
)

CONNECTORS: Final = (WRITE_AHEAD,)
