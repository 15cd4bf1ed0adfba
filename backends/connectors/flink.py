"""Sources and sinks that come with Flink: ``FileSource``, ``FileSink`` and ``NumberSequenceSource``.

The splits of files are regions; the sink has buckets with files in progress and files to be committed. ``StreamingFileSink``
before ``FileSink`` has the same state, and ``DataGeneratorSource`` and the sources of collections have the splits of a sequence.

Flink: ``FileSourceSplitSerializer``, ``PendingSplitsCheckpointSerializer``, ``Path.serializeToDataOutputView``;
``FileWriterBucketStateSerializer``, ``BucketStateSerializer``, ``FileSinkCommittableSerializer``,
``OutputStreamBasedPartFileWriter``, ``LocalRecoverableSerializer``, ``HadoopRecoverableSerializer``;
``NumberSequenceSource.SplitSerializer``, ``.CheckpointSerializer``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Final

import pyarrow as pa

from state_processor.backends.connectors.connector import (
    CHECKPOINT,
    PROCESSED,
    SPLIT_ID,
    UNASSIGNED,
    Connector,
    EnumeratedSplit,
    EnumeratorState,
    Format,
    Formats,
    SinkConnector,
    Values,
    Versioned,
)
from state_processor.serializers.core.basic import StringSerializer
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.support.errors import CorruptSnapshotError, InvalidRowError

# FileSource

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
    hosts = source.read_list("hosts", DataInput.read_utf, 2)
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
    target.write_long(_millis_of(values[MODIFIED]) if values[MODIFIED] is not None else 0)
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
    magic = _read_little(source)
    if magic != _MAGIC:
        raise source.corrupt(f"{magic:#x} is where pending splits have {_MAGIC:#x}", source.position - 4)
    version, split_count, path_count = _read_little(source), _read_little(source), _read_little(source)
    if (split_count + path_count) * 4 > source.remaining:
        raise source.corrupt(f"{split_count} splits and {path_count} paths announced, {source.remaining} bytes left")
    splits = []
    for _ in range(split_count):
        split = Versioned(version, source.read_bytes(_read_little(source), "split"))
        splits.append(EnumeratedSplit(_SPLITS.read(split, source.source), UNASSIGNED, split=split))
    paths = [source.read_bytes(_read_little(source), "path").decode("utf-8", "replace") for _ in range(path_count)]
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


# FileSink

BUCKET: Final = "bucket_id"
BUCKET_PATH: Final = "bucket_path"
CREATED: Final = "creation_time"
STATUS: Final = "file_status"
TEMPORARY: Final = "temporary_path"
FILE_STATE: Final = "file"
FILE_VERSION: Final = "file_version"

IN_PROGRESS: Final = "IN_PROGRESS"
PENDING: Final = "PENDING"
CLEAN_UP: Final = "CLEAN_UP"

_BUCKET_MAGIC: Final = 0x1E764B79
_COMMITTABLE_MAGIC: Final = 0x1E765C80
_IN_PROGRESS_MAGIC: Final = 0xB3A4073D
_PENDING_MAGIC: Final = 0x2C853C89
_LOCAL_MAGIC: Final = 0x1E744B57
_HADOOP_MAGIC: Final = 0xD7436C5E
_STRING_VERSION: Final = 1
_NO_TIME: Final = (1 << 63) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_OF_FILE: Final = (PATH, TEMPORARY, LENGTH)
_ALL: Final = (BUCKET, BUCKET_PATH, CREATED, STATUS, *_OF_FILE, FILE_STATE, FILE_VERSION, CHECKPOINT)


def _file_values(file: Versioned) -> Values:
    """Return the path of a file, the path of its temporary file, and the number of its valid bytes.

    Each file system has bytes of its own; of those other than local files and HDFS only the path of the file is known, which
    Flink writes since version 1.15.
    """
    nothing: Values = dict.fromkeys(_OF_FILE)
    try:
        return nothing | _wrapped_file(DataInput(file.data), file.version)
    except CorruptSnapshotError:
        return nothing


def _wrapped_file(source: DataInput, version: int) -> Values:
    magic = source.read_int() & 0xFFFFFFFF
    if magic not in (_IN_PROGRESS_MAGIC, _PENDING_MAGIC):
        return _recoverable(DataInput(source.data))
    values: Values = {}
    if version >= 2:
        if source.read_boolean():
            values[PATH] = source.read_utf()
        size = source.read_long() if magic == _PENDING_MAGIC else -1
        if size >= 0:
            values[LENGTH] = size
    return _recoverable(DataInput(Versioned.read(source).data)) | values


def _recoverable(source: DataInput) -> Values:
    if source.remaining < 20 or _read_little(source) not in (_LOCAL_MAGIC, _HADOOP_MAGIC):
        return {}
    length = int.from_bytes(source.read_bytes(8, "long"), "little", signed=True)
    sizes = _read_little(source), _read_little(source)
    path, temporary = (source.read_bytes(size, "path").decode("utf-8", "replace") for size in sizes)
    return {PATH: path, TEMPORARY: temporary, LENGTH: length}


def _read_little(source: DataInput) -> int:
    """Read an unsigned integer, low byte first, as the serializers of files alone have them."""
    return int.from_bytes(source.read_bytes(4, "int"), "little")


def _file_row(status: str, file: Versioned) -> Values:
    return {STATUS: status, FILE_STATE: file.data, FILE_VERSION: file.version} | _file_values(file)


def _file_of(row: Values) -> Versioned:
    """Return the bytes of a row's file."""
    if row[FILE_STATE] is None or row[FILE_VERSION] is None:
        raise InvalidRowError(f"bucket {row[BUCKET]!r}: a file that is {row[STATUS]} needs {FILE_STATE!r} and {FILE_VERSION!r}")
    file = Versioned(row[FILE_VERSION], bytes(row[FILE_STATE]))
    stored = _file_values(file)
    if changed := [name for name in _OF_FILE if row[name] != stored[name]]:
        raise InvalidRowError(
            f"bucket {row[BUCKET]!r}: {changed[0]!r} is {row[changed[0]]!r}, but {stored[changed[0]]!r} in the bytes of the "
            "file; files can be left out, not changed"
        )
    return file


def _check_magic(source: DataInput, expected: int, title: str) -> None:
    magic = source.read_int() & 0xFFFFFFFF
    if magic != expected:
        raise source.corrupt(f"{magic:#x} is where {title} has {expected:#x}", source.position - 4)


def _read_bucket_id(source: DataInput) -> str:
    written = Versioned.read(source)
    text = DataInput(written.data, source.source)
    size = _read_little(text)
    if written.version != _STRING_VERSION or size != text.remaining:
        raise source.corrupt("the id of a bucket is not text")
    return text.read_bytes(size, "text").decode("utf-8", "replace")


def _write_bucket_id(bucket: str, target: DataOutput) -> None:
    text = bucket.encode()
    Versioned(_STRING_VERSION, len(text).to_bytes(4, "little") + text).write(target)


def time_of(millis: int, source: DataInput, start: int, title: str) -> datetime:
    """Return a time in milliseconds since 1970, which ``source`` has at ``start``.

    Raises
    ------
    CorruptSnapshotError
        It is out of the range of times. ``title`` names the time in the message.
    """
    try:
        return _EPOCH + millis * _MILLISECOND
    except OverflowError:
        raise source.corrupt(f"{title} {millis}", start) from None


def _millis_of(time: datetime) -> int:
    """Return the milliseconds of a time since 1970."""
    return (time - _EPOCH) // _MILLISECOND


def _read_bucket(source: DataInput) -> list[Values]:
    """Read a bucket and its file in progress: one row. Without such a file, the row describes the bucket."""
    _check_magic(source, _BUCKET_MAGIC, "a bucket")
    bucket = dict.fromkeys(_ALL) | {BUCKET: _read_bucket_id(source), BUCKET_PATH: source.read_utf()}
    start, created = source.position, source.read_long()
    bucket[CREATED] = None if created == _NO_TIME else time_of(created, source, start, "creation time")
    return [bucket | (_file_row(IN_PROGRESS, Versioned.read(source)) if source.read_boolean() else {})]


def _write_bucket(rows: list[Values], target: DataOutput) -> None:
    bucket = rows[0]
    target.write_int(_BUCKET_MAGIC)
    _write_bucket_id(bucket[BUCKET], target)
    target.write_utf(bucket[BUCKET_PATH])
    target.write_long(_NO_TIME if bucket[CREATED] is None else _millis_of(bucket[CREATED]))
    current = [_file_of(row) for row in rows if row[STATUS] == IN_PROGRESS]
    if len(current) > 1:
        raise InvalidRowError(f"bucket {bucket[BUCKET]!r} has {len(current)} files in progress; it can have one")
    target.write_boolean(bool(current))
    for file in current:
        file.write(target)


def _read_bucket_with_pending(source: DataInput) -> list[Values]:
    """Read a bucket of ``StreamingFileSink``, which keeps the files to be committed by checkpoint."""
    (bucket,) = _read_bucket(source)
    version, checkpoints = source.read_int(), source.read_count("checkpoints", 12)
    shared = {name: bucket[name] for name in (BUCKET, BUCKET_PATH, CREATED)}
    pending = []
    for _ in range(checkpoints):
        checkpoint_id = source.read_long()
        for _ in range(source.read_count("files", 4)):
            file = Versioned(version, source.read_bytes(source.read_count("bytes"), "file"))
            pending.append(dict.fromkeys(_ALL) | shared | {CHECKPOINT: checkpoint_id} | _file_row(PENDING, file))
    return [bucket, *pending] if bucket[STATUS] is not None or not pending else pending


def _write_bucket_with_pending(rows: list[Values], target: DataOutput) -> None:
    _write_bucket(rows, target)
    by_checkpoint: dict[int, list[Versioned]] = {}
    for row in rows:
        if row[STATUS] == PENDING:
            by_checkpoint.setdefault(row[CHECKPOINT], []).append(_file_of(row))
    versions = {file.version for file in chain.from_iterable(by_checkpoint.values())} or {1}
    if len(versions) > 1:
        raise InvalidRowError(f"bucket {rows[0][BUCKET]!r}: pending files of several versions {sorted(versions)}")
    target.write_int(versions.pop())
    target.write_int(len(by_checkpoint))
    for checkpoint_id, files in sorted(by_checkpoint.items()):
        target.write_long(checkpoint_id)
        target.write_int(len(files))
        for file in files:
            target.write_int(len(file.data))
            target.write_bytes(file.data)


def _read_old_committable(source: DataInput) -> Values:
    _check_magic(source, _COMMITTABLE_MAGIC, "a committable")
    return _read_files(source, dict.fromkeys(_ALL))


def _read_files(source: DataInput, row: Values) -> Values:
    """Read the file of a committable: a file to commit, or a file to remove."""
    for status in (PENDING, CLEAN_UP):
        if source.read_boolean():
            if row[STATUS] is not None:
                raise source.corrupt("a committable has several files")
            row |= _file_row(status, Versioned.read(source))
    return row


def _read_committable(source: DataInput) -> Values:
    _check_magic(source, _COMMITTABLE_MAGIC, "a committable")
    row = _read_files(source, dict.fromkeys(_ALL) | {BUCKET: source.read_utf()})
    if source.read_boolean():
        if row[STATUS] is not None:
            raise source.corrupt("a committable has several files")
        row |= {STATUS: CLEAN_UP, PATH: source.read_utf()}
    return row


def _refuse(row: Values, target: DataOutput) -> None:
    raise InvalidRowError(f"committable of bucket {row[BUCKET]!r}: files can be left out, not changed")


FILE_SINK: Final = SinkConnector(
    name="file",
    fields=(
        pa.field(BUCKET, pa.string()),
        pa.field(BUCKET_PATH, pa.string()),
        pa.field(CREATED, pa.timestamp("us", tz="UTC")),
        pa.field(STATUS, pa.string()),
        pa.field(PATH, pa.string()),
        pa.field(TEMPORARY, pa.string()),
        pa.field(LENGTH, pa.int64()),
        pa.field(FILE_STATE, pa.binary()),
        pa.field(FILE_VERSION, pa.int32()),
    ),
    writer=Formats(
        "buckets of FileSink",
        {
            1: (Format(_read_bucket_with_pending, _write_bucket_with_pending),),
            2: (Format(_read_bucket_with_pending, _write_bucket_with_pending),),
            3: (Format(_read_bucket, _write_bucket),),
        },
    ),
    committables=Formats(
        "committables of FileSink",
        {1: (Format(_read_old_committable, _refuse),), 2: (Format(_read_committable, _refuse),)},
    ),
    element_of=lambda row, number: row[BUCKET],
    required=(BUCKET, BUCKET_PATH),
    about=(
        "A file is a row: ``IN_PROGRESS`` where a writer continues it, ``PENDING`` where it is to be committed, "
        "``CLEAN_UP`` where it is to be removed. Buckets without a file are rows without ``file_status``."
    ),
)


# NumberSequenceSource

FROM: Final = "from_number"
TO: Final = "to_number"
_SMALLEST_RANGE: Final = 18


def _read_range(source: DataInput) -> Values:
    return {SPLIT_ID: source.read_utf(), FROM: source.read_long(), TO: source.read_long()}


def _write_range(values: Values, target: DataOutput) -> None:
    target.write_utf(values[SPLIT_ID])
    target.write_long(values[FROM])
    target.write_long(values[TO])


def _read_remaining(source: DataInput) -> EnumeratorState:
    count = source.read_count("splits", _SMALLEST_RANGE)
    return EnumeratorState(tuple(EnumeratedSplit(_read_range(source), UNASSIGNED) for _ in range(count)))


def _write_remaining(state: EnumeratorState, target: DataOutput) -> None:
    target.write_int(len(state.splits))
    for split in state.splits:
        _write_range(split.values, target)


SEQUENCE: Final = Connector(
    name="sequence",
    fields=(pa.field(FROM, pa.int64()), pa.field(TO, pa.int64())),
    splits=Formats("splits of a number sequence", {1: (Format(_read_range, _write_range),)}),
    enumerator=Formats("enumerator of a number sequence", {1: (Format(_read_remaining, _write_remaining),)}),
    required=(SPLIT_ID, FROM, TO),
    about=(
        "``from_number`` is the next number to emit, ``to_number`` the last one; the enumerator keeps splits no reader has yet."
    ),
)
