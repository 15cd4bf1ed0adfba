"""Splits of ``FileSource``: regions of files.

Flink: ``FileSourceSplitSerializer``, ``PendingSplitsCheckpointSerializer``, ``Path.serializeToDataOutputView``.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from state_processor.backends.connectors.connector import (
    PROCESSED,
    SPLIT_ID,
    UNASSIGNED,
    Connector,
    EnumeratedSplit,
    EnumeratorState,
    Format,
    Formats,
    Values,
    Versioned,
)
from state_processor.backends.connectors.file_sink import millis_of, read_little, time_of
from state_processor.serializers.core.basic import StringSerializer
from state_processor.serializers.io import DataInput, DataOutput

PATH: Final = "path"
OFFSET: Final = "offset"
LENGTH: Final = "length"
MODIFIED: Final = "modification_time"
FILE_SIZE: Final = "file_size"
HOSTS: Final = "hosts"
READER_OFFSET: Final = "reader_offset"
RECORDS: Final = "records_after_offset"

_FOUND: Final = "paths found"
_PENDING: Final = "paths of pending splits"
_SPLIT_VERSION: Final = 1
_MAGIC: Final = 0xDEADBEEF
_NO_PORT: Final = -1
_URI: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?"
    r"(?://(?:(?P<user>[^/@]*)@)?(?P<host>[^/:]*)(?::(?P<port>\d+))?)?"
    r"(?P<path>.*)",
    re.DOTALL,
)
_TEXT: Final = StringSerializer()


def _read_text(source: DataInput) -> str | None:
    return _TEXT.read(source) if source.read_boolean() else None


def _write_text(text: str | None, target: DataOutput) -> None:
    target.write_boolean(text is not None)
    if text is not None:
        _TEXT.write(text, target)


def _read_path(source: DataInput) -> str | None:
    if not source.read_boolean():
        return None
    scheme, user, host = _read_text(source), _read_text(source), _read_text(source)
    port = source.read_int()
    path, query, fragment = _read_text(source) or "", _read_text(source), _read_text(source)
    authority = "" if host is None else "//" + (f"{user}@" if user else "") + host + (f":{port}" if port >= 0 else "")
    tail = ("" if query is None else f"?{query}") + ("" if fragment is None else f"#{fragment}")
    return (f"{scheme}:" if scheme else "") + authority + path + tail


def _write_path(path: str | None, target: DataOutput) -> None:
    target.write_boolean(path is not None)
    if path is None:
        return
    parts = _URI.fullmatch(path)
    assert parts is not None  # every text has this form
    _write_text(parts["scheme"], target)
    _write_text(parts["user"], target)
    _write_text(parts["host"] or None, target)
    target.write_int(int(parts["port"] or _NO_PORT))
    _write_text(parts["path"], target)
    _write_text(None, target)
    _write_text(None, target)


def _read_region(source: DataInput) -> Values:
    return {SPLIT_ID: source.read_utf(), PATH: _read_path(source), OFFSET: source.read_long(), LENGTH: source.read_long()}


def _read_position(source: DataInput) -> Values:
    hosts = [source.read_utf() for _ in range(source.read_count("hosts", 2))]
    began = source.read_boolean()
    return {
        HOSTS: hosts,
        READER_OFFSET: source.read_long() if began else None,
        RECORDS: source.read_long() if began else None,
    }


def _read_split(source: DataInput) -> Values:
    values, start = _read_region(source), source.position
    values |= {MODIFIED: time_of(source.read_long(), source, start, "modification time"), FILE_SIZE: source.read_long()}
    return values | _read_position(source)


def _write_split(values: Values, target: DataOutput) -> None:
    _write_region(values, target)
    target.write_long(millis_of(values[MODIFIED]) if values[MODIFIED] is not None else 0)
    target.write_long(values[FILE_SIZE] if values[FILE_SIZE] is not None else values[OFFSET] + values[LENGTH])
    _write_position(values, target)


def _read_old_split(source: DataInput) -> Values:
    """Read a split from before Flink 1.15: without the file's time and size, under the same version."""
    return _read_region(source) | {MODIFIED: None, FILE_SIZE: None} | _read_position(source)


def _write_old_split(values: Values, target: DataOutput) -> None:
    _write_region(values, target)
    _write_position(values, target)


def _write_region(values: Values, target: DataOutput) -> None:
    target.write_utf(values[SPLIT_ID])
    _write_path(values[PATH], target)
    target.write_long(values[OFFSET])
    target.write_long(values[LENGTH])


def _write_position(values: Values, target: DataOutput) -> None:
    hosts = values[HOSTS] or []
    target.write_int(len(hosts))
    for host in hosts:
        target.write_utf(host)
    target.write_boolean(values[READER_OFFSET] is not None)
    if values[READER_OFFSET] is not None:
        target.write_long(values[READER_OFFSET])
        target.write_long(values[RECORDS] or 0)


_SPLITS: Final = Formats(
    "splits of files", {_SPLIT_VERSION: (Format(_read_split, _write_split), Format(_read_old_split, _write_old_split))}
)


def _write_little(value: int, target: DataOutput) -> None:
    target.write_bytes(value.to_bytes(4, "little"))


def _read_pending(source: DataInput) -> EnumeratorState:
    magic = read_little(source)
    if magic != _MAGIC:
        raise source.corrupt(f"{magic:#x} is where pending splits have {_MAGIC:#x}", source.position - 4)
    version, split_count, path_count = read_little(source), read_little(source), read_little(source)
    if (split_count + path_count) * 4 > source.remaining:
        raise source.corrupt(f"{split_count} splits and {path_count} paths announced, {source.remaining} bytes left")
    splits = []
    for _ in range(split_count):
        split = Versioned(version, source.read_bytes(read_little(source), "split"))
        splits.append(EnumeratedSplit(_SPLITS.read(split, source.source), UNASSIGNED, split=split))
    paths = [source.read_bytes(read_little(source), "path").decode("utf-8", "replace") for _ in range(path_count)]
    pending = {split.values[PATH] for split in splits}
    nothing = dict.fromkeys((SPLIT_ID, OFFSET, LENGTH, MODIFIED, FILE_SIZE, HOSTS, READER_OFFSET, RECORDS))
    done = (EnumeratedSplit(nothing | {PATH: path}, PROCESSED) for path in paths if path not in pending)
    return EnumeratorState((*splits, *done), {_FOUND: paths, _PENDING: pending})


def _write_pending(state: EnumeratorState, target: DataOutput) -> None:
    splits = [s for s in state.splits if s.assignment != PROCESSED]
    done = [s.values[PATH] for s in state.splits if s.assignment == PROCESSED]
    pending = {*done, *state.details.get(_PENDING, ())}
    listed = [path for path in state.details.get(_FOUND, ()) if path in pending]
    paths = [*listed, *(path for path in done if path not in listed)]
    for number in (_MAGIC, _SPLIT_VERSION, len(splits), len(paths)):
        _write_little(number, target)
    for data in (*(_SPLITS.write(s.values, _SPLIT_VERSION).data for s in splits), *(p.encode() for p in paths)):
        _write_little(len(data), target)
        target.write_bytes(data)


FILE: Final = Connector(
    name="file",
    fields=(
        pa.field(PATH, pa.string()),
        pa.field(OFFSET, pa.int64()),
        pa.field(LENGTH, pa.int64()),
        pa.field(MODIFIED, pa.timestamp("us", tz="UTC")),
        pa.field(FILE_SIZE, pa.int64()),
        pa.field(HOSTS, pa.list_(pa.string())),
        pa.field(READER_OFFSET, pa.int64()),
        pa.field(RECORDS, pa.int64()),
    ),
    splits=_SPLITS,
    enumerator=Formats("enumerator of files", {1: (Format(_read_pending, _write_pending),)}),
    required=(PATH,),
    about=(
        "``offset`` and ``length`` bound the region in bytes. Reading goes on at ``reader_offset``, after as many "
        "records from there as ``records_after_offset`` says; both are null where it has not begun. The enumerator "
        "keeps splits that no reader has yet, and the paths that it has found before: those without a pending split are "
        "rows with the assignment ``PROCESSED`` and no split."
    ),
)
