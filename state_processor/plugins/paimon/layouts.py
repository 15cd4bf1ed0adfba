"""Layouts of Paimon: commit messages, committables, states of writers and coordinators, splits.

Paimon: ``CommitMessageSerializer``, ``CommittableSerializer``, ``ManifestCommittableSerializer``, ``DataFileMeta.SCHEMA``,
``IndexFileMeta.SCHEMA``, ``DataSplit``, ``FileStoreSourceSplitSerializer``, ``StoreSinkWriteStateImpl``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from state_processor.connectors.codecs import (
    BOOL,
    BYTE,
    BYTES,
    INT,
    LONG,
    STRING,
    TEXT,
    UTF,
    Cases,
    Codec,
    Constant,
    Content,
    Framed,
    Kept,
    ListOf,
    Mapped,
    OneOf,
    OptionalOf,
    Remark,
    Struct,
    Versions,
    of_version,
    read_all,
    to_bytes,
)
from state_processor.connectors.java import (
    WRITES_MORE,
    BinaryValue,
    JavaClassDescription,
    TimestampData,
    parse_logical_type,
    read_custom_object,
    write_custom_object,
)
from state_processor.errors import InvalidRowError, UnsupportedFormatError
from state_processor.serializers import DataInput, DataOutput, RowDataSerializer

# Rows of unknown types

# Rows: Flink's binary rows. The types are known in metadata of files, and unknown in keys and partitions.

_WORD: Final = 8
_INLINE: Final = 7
_MARK: Final = 0x80
_INT: Final = "INT"
_BIGINT: Final = "BIGINT"
_STRING: Final = "STRING"


def untyped_row(arity: int, body: bytes) -> dict[str, Any]:
    """Return the content of a row whose types are not in the bytes.

    ``row`` has the bytes, ``values`` are guessed: text if a slot refers to text, otherwise an integer. A number that
    needs more than 32 bits is a ``BIGINT``.
    """
    return {"arity": arity, "values": [_value(arity, body, i) for i in range(arity)], "row": body.hex()}


def _header(arity: int) -> int:
    return (arity + 8 + 63) // 64 * _WORD


def _value(arity: int, body: bytes, index: int) -> Content:
    bit = index + 8
    if body[bit // 8] >> bit % 8 & 1:
        return None
    start = _header(arity) + index * _WORD
    slot = body[start : start + _WORD]
    text = _text(body, slot, _header(arity) + arity * _WORD)
    if text is not None:
        return {"type": _STRING, "value": text}
    if not any(slot[4:]):
        return {"type": _INT, "value": int.from_bytes(slot[:4], "little", signed=True)}
    return {"type": _BIGINT, "value": int.from_bytes(slot, "little", signed=True)}


def _text(body: bytes, slot: bytes, fixed: int) -> str | None:
    size = slot[-1] - _MARK
    if 0 <= size <= _INLINE and not any(slot[size:_INLINE]):
        data = slot[:size]
    else:
        size, offset = int.from_bytes(slot[:4], "little"), int.from_bytes(slot[4:], "little")
        if offset < fixed or offset % _WORD or size <= _INLINE or offset + size > len(body):
            return None
        data = body[offset : offset + size]
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def untyped_body(content: Content) -> tuple[int, bytes]:
    """Return the arity and the bytes of such a row; without ``row``, they are made of ``values``."""
    arity = content["arity"]
    if content.get("row") is not None:
        body = bytes.fromhex(content["row"])
        if len(body) < _header(arity) + arity * _WORD:
            raise InvalidRowError(
                f"a row of {arity} fields has at least {_header(arity) + arity * _WORD} bytes, found {len(body)}"
            )
        return arity, body
    values = content["values"]
    if len(values) != arity:
        raise InvalidRowError(f"'arity' is {arity}, but there are {len(values)} values")
    types = [_INT if value is None else value["type"] for value in values]
    fields = [None if value is None else value["value"] for value in values]
    return arity, RowDataSerializer(_row_type([f"f{i} {type_}" for i, type_ in enumerate(types)])).row(fields).data


def _row_type(fields: list[str]) -> Any:
    return parse_logical_type(f"ROW<{', '.join(fields)}>")


@dataclass(frozen=True, slots=True)
class UntypedRow:
    """The number of fields and a row; ``sized``: with their common length before them, else they end with the bytes."""

    sized: bool
    min_size: int = 0

    def read(self, source: DataInput) -> dict[str, Any]:
        start = source.position
        size = source.read_count("bytes") if self.sized else source.remaining
        if size < 4:
            raise source.corrupt(f"{size} bytes are too few for a row", start)
        arity = source.read_int()
        body = source.read_bytes(size - 4, "row")
        if arity < 0 or len(body) < _header(arity) + arity * _WORD:
            raise source.corrupt(f"{len(body)} bytes are too few for a row of {arity} fields", start)
        return untyped_row(arity, body)

    def write(self, content: Content, target: DataOutput) -> None:
        arity, body = untyped_body(content)
        if self.sized:
            target.write_int(4 + len(body))
        target.write_int(arity)
        target.write_bytes(body)


# Rows of known types


@dataclass(frozen=True, slots=True)
class Column:
    """A field of a row: its name, its type of Flink SQL, and how values become content and the reverse."""

    name: str
    type: str
    to_content: Callable[[Any], Content] = lambda value: value
    to_value: Callable[[Content], Any] = lambda content: content


def column_of_bytes(name: str, codec: Codec) -> Column:
    """Return a column of bytes that are content of a codec."""

    def to_content(data: bytes) -> Content:
        source = DataInput(data, name)
        content = codec.read(source)
        if not source.at_end():
            raise source.corrupt(f"{source.remaining} bytes are left over")
        return content

    def to_value(content: Content) -> bytes:
        target = DataOutput()
        codec.write(content, target)
        return target.to_bytes()

    return Column(name, "BYTES", to_content, to_value)


def column_of_hex(name: str) -> Column:
    """Return a column of bytes that are shown in hexadecimal."""
    return Column(name, "BYTES", bytes.hex, bytes.fromhex)


def column_of_time(name: str) -> Column:
    """Return a column of timestamps that are shown in milliseconds."""
    return Column(name, "TIMESTAMP(3)", lambda value: value.millis, TimestampData)


def column_of_row(name: str, *columns: Column) -> Column:
    """Return a column of rows."""
    return Column(
        name, row_text(columns), lambda value: row_content(columns, value), lambda content: row_values(columns, content)
    )


def column_of_array(name: str, element: str) -> Column:
    """Return a column of arrays of numbers or text."""
    return Column(name, f"ARRAY<{element}>", lambda value: list(_plain(value)), list)


def column_of_rows(name: str, *columns: Column) -> Column:
    """Return a column of arrays of rows."""
    return Column(
        name,
        f"ARRAY<{row_text(columns)}>",
        lambda value: [row_content(columns, row) for row in _plain(value)],
        lambda content: [row_values(columns, row) for row in content],
    )


def _plain(value: Any) -> Any:
    return value.content() if isinstance(value, BinaryValue) else value


def row_text(columns: tuple[Column, ...]) -> str:
    """Return the type of rows of some columns."""
    return f"ROW<{', '.join(f'{column.name} {column.type}' for column in columns)}>"


def row_content(columns: tuple[Column, ...], row: Any) -> dict[str, Any]:
    """Return the content of a row."""
    values = zip(columns, _plain(row), strict=True)
    return {column.name: None if value is None else column.to_content(value) for column, value in values}


def row_values(columns: tuple[Column, ...], content: Mapping[str, Any]) -> list[Any]:
    """Return the values of a row."""
    missing = [column.name for column in columns if column.name not in content]
    if missing:
        raise InvalidRowError(f"field {missing[0]!r} is missing; there are {', '.join(map(repr, content))}")
    return [None if content[c.name] is None else c.to_value(content[c.name]) for c in columns]


class TypedRow:
    """A row of known types with its size before it."""

    def __init__(self, *columns: Column) -> None:
        self.columns = columns
        self._serializer = RowDataSerializer(parse_logical_type(row_text(columns)))  # type: ignore[arg-type]
        self.min_size = self._serializer.min_size

    def read(self, source: DataInput) -> dict[str, Any]:
        return row_content(self.columns, self._serializer.read(source))

    def write(self, content: Content, target: DataOutput) -> None:
        self._serializer.write(row_values(self.columns, content), target)


# Serializers

MESSAGES: Final = "org.apache.paimon.table.sink.CommitMessageSerializer"
COMMITTABLES: Final = "org.apache.paimon.flink.sink.CommittableSerializer"
MULTI_TABLE: Final = "org.apache.paimon.flink.sink.MultiTableCommittableSerializer"
MANIFESTS: Final = "org.apache.paimon.manifest.ManifestCommittableSerializer"
WRAPPED_MANIFESTS: Final = "org.apache.paimon.flink.sink.WrappedManifestCommittableSerializer"
SPLITS: Final = "org.apache.paimon.flink.source.FileStoreSourceSplitSerializer"
PENDING: Final = "org.apache.paimon.flink.source.PendingSplitsCheckpointSerializer"
SIMPLE_SPLITS: Final = "org.apache.paimon.flink.source.SimpleSourceSplitSerializer"
COORDINATOR: Final = "org.apache.paimon.flink.sink.state.CoordinatorStateSerializer"
CHECKPOINT_COMMITTABLES: Final = "org.apache.paimon.flink.sink.coordinator.CheckpointCommittablesSerializer"
WRITER_STATE_NAME: Final = "paimon_store_sink_write_state"
WRITER_STATES: Final = "org.apache.flink.api.java.typeutils.runtime.TupleSerializer"


# Metadata of files

_ROW_BYTES: Final = UntypedRow(sized=False)


def _stats(name: str) -> Column:
    return column_of_row(
        name,
        column_of_bytes("minValues", _ROW_BYTES),
        column_of_bytes("maxValues", _ROW_BYTES),
        column_of_array("nullCounts", "BIGINT"),
    )


_FILE_COLUMNS: Final = (
    Column("fileName", "STRING"),
    Column("fileSize", "BIGINT"),
    Column("rowCount", "BIGINT"),
    column_of_bytes("minKey", _ROW_BYTES),
    column_of_bytes("maxKey", _ROW_BYTES),
    _stats("keyStats"),
    _stats("valueStats"),
    Column("minSequenceNumber", "BIGINT"),
    Column("maxSequenceNumber", "BIGINT"),
    Column("schemaId", "BIGINT"),
    Column("level", "INT"),
    column_of_array("extraFiles", "STRING"),
    column_of_time("creationTimeMillis"),
    Column("deleteRowCount", "BIGINT"),
    column_of_hex("embeddedIndex"),
    Column("fileSourceByte", "TINYINT"),
    column_of_array("valueStatsCols", "STRING"),
    Column("externalPath", "STRING"),
    Column("firstRowId", "BIGINT"),
    column_of_array("writeCols", "STRING"),
    column_of_array("columnMaxSequenceNumbers", "BIGINT"),
)
_FILE_SOURCES: Final = {0: "APPEND", 1: "COMPACT"}


def _with_source(content: dict[str, Any]) -> Content:
    code = content.get("fileSourceByte")
    return content | ({"fileSource": None if code is None else _FILE_SOURCES[code]} if "fileSourceByte" in content else {})


def _without_source(content: Content) -> Any:
    if content.get("fileSource") is None or content.get("fileSourceByte") is not None:
        return content
    return {**content, "fileSourceByte": {name: code for code, name in _FILE_SOURCES.items()}[content["fileSource"]]}


_COUNTS: Final = range(15, len(_FILE_COLUMNS) + 1)
_FILES: Final = {count: Mapped(TypedRow(*_FILE_COLUMNS[:count]), _with_source, _without_source) for count in _COUNTS}
_FILES_OF_MESSAGE: Final = {1: 15, 2: 15, 3: 16, 4: 17, 5: 17, 6: 18, 7: 18, 8: 19, 9: 20, 10: 20, 11: 20, 12: 20, 13: 21}
_FILES_OF_SPLIT: Final = {1: 15, 2: 16, 3: 17, 4: 17, 5: 18, 6: 18, 7: 19, 8: 20, 9: 21}
"""The number of columns of a file by the version of the message, and of the split."""


def _index_row(version: int) -> Codec:
    ranges = (Column("dataFileName", "STRING"), Column("offset", "INT"), Column("length", "INT"), Column("cardinality", "BIGINT"))
    columns = [
        Column("indexType", "STRING"),
        Column("fileName", "STRING"),
        Column("fileSize", "BIGINT"),
        Column("rowCount", "BIGINT"),
        column_of_rows("dvRanges", *(ranges if version >= 5 else ranges[:3])),
    ]
    if version >= 9:
        columns.append(Column("externalPath", "STRING"))
    if version >= 11:
        meta = [
            Column("rowRangeStart", "BIGINT"),
            Column("rowRangeEnd", "BIGINT"),
            Column("indexFieldId", "INT"),
            column_of_array("extraFieldIds", "INT"),
            column_of_hex("indexMeta"),
        ]
        columns.append(column_of_row("globalIndexMeta", *meta, *([column_of_hex("sourceMeta")] if version >= 12 else [])))
    return TypedRow(*columns)


# Messages and committables


def _message(version: int) -> Codec:
    files = ListOf(_FILES[_FILES_OF_MESSAGE[version]])
    indexes = ListOf(_index_row(version))
    data = Struct.of(("newFiles", files), ("deletedFiles", files), ("changelogFiles", files))
    compact = Struct.of(("compactBefore", files), ("compactAfter", files), ("changelogFiles", files))
    index = Struct.of(("newIndexFiles", indexes), ("deletedIndexFiles", indexes))
    begin = Struct.of(("partition", UntypedRow(sized=True)), ("bucket", INT))
    if version >= 7:
        begin += Struct.of(("totalBuckets", OptionalOf(INT)))
    if version >= 10:
        return begin + Struct.of(("dataIncrement", data + index), ("compactIncrement", compact + index))
    last = index if version > 2 else Struct.of(("newIndexFiles", indexes))
    return begin + Struct.of(("dataIncrement", data), ("compactIncrement", compact), ("indexIncrement", last))


MESSAGE: Final[Versions] = {version: _message(version) for version in _FILES_OF_MESSAGE}


@dataclass(frozen=True, slots=True)
class VersionLast:
    """A message with its version behind it, up to the end of the bytes."""

    versions: Versions
    what: str
    name: str
    version: str
    min_size: int = 4

    def read(self, source: DataInput) -> dict[str, Any]:
        if source.remaining < 4:
            raise source.corrupt(f"{source.remaining} bytes are too few for a message")
        version = DataInput(source.data, source.source, source.end - 4, source.end).read_int()
        content = read_all(of_version(self.versions, version, self.what), source.slice(source.position, source.end - 4))
        source.position = source.end
        return {self.version: version, self.name: content}

    def write(self, content: Content, target: DataOutput) -> None:
        version = content[self.version]
        of_version(self.versions, version, self.what).write(content[self.name], target)
        target.write_int(version)


_WITH_VERSION: Final = VersionLast(MESSAGE, MESSAGES, "commitMessage", "commitMessageVersion")
_LOG_OFFSET: Final = VersionLast(
    {1: Struct.of(("bucket", INT), ("offset", LONG))}, "a log offset", "logOffset", "logOffsetVersion"
)
COMMITTABLE: Final[Versions] = {
    2: Struct.of(
        ("checkpointId", LONG), (None, Cases({0: ("FILE", _WITH_VERSION), 1: ("LOG_OFFSET", _LOG_OFFSET)}, number=BYTE))
    ),
    3: Struct.of(("checkpointId", LONG), (None, _WITH_VERSION)),
}


def _messages(content: Mapping[str, Any]) -> Codec:
    return ListOf(of_version(MESSAGE, content["commitMessageVersion"], MESSAGES))


def _manifest(version: int) -> Codec:
    fields = Struct.of(("identifier", LONG), ("watermark", OptionalOf(LONG, BOOL, False, True)))
    if version <= 4:
        fields += Struct.of(("logOffsets", ListOf(Struct.of(("bucket", INT), ("offset", LONG)))))
    if version >= 4:
        fields += Struct.of(("properties", ListOf(Struct.of(("key", UTF), ("value", UTF)))))
    return fields + Struct.of(("commitMessageVersion", INT), ("commitMessages", _messages))


MANIFEST: Final[Versions] = {version: _manifest(version) for version in range(2, 6)}
_MESSAGES_OF_MANIFEST: Final = {5: range(11, 14), 4: range(7, 12), 3: range(1, 8)}
"""The versions of messages that releases write with a version of a manifest: the bytes alone can fit several versions."""


def _of_release(version: int) -> Codec:
    versions = _MESSAGES_OF_MANIFEST[version]

    def checked(content: Content) -> Content:
        if content["commitMessageVersion"] not in versions:
            raise InvalidRowError(
                f"commit messages of version {content['commitMessageVersion']} are not written in a manifest of version {version}"
            )
        return content

    return Mapped(MANIFEST[version], checked, checked)


_ANY_MANIFEST: Final = OneOf(tuple(map(_of_release, _MESSAGES_OF_MANIFEST)), (1, 0, 2))
_WRAPPED: Final = Struct.of(
    ("checkpointId", LONG),
    ("watermark", LONG),
    ("manifestCommittables", ListOf(Struct.of(("identifier", TEXT), ("manifestCommittable", Framed(_ANY_MANIFEST))))),
)


def _committables(content: Mapping[str, Any]) -> Codec:
    return ListOf(Framed(of_version(COMMITTABLE, content["committableVersion"], COMMITTABLES)))


def _of_checkpoint(version: int) -> Codec:
    fields = Struct.of(("checkpointId", LONG), ("watermark", LONG))
    if version >= 2:
        fields += Struct.of(("idle", BOOL))
    return fields + Struct.of(("committableVersion", INT), ("committables", _committables))


_COORDINATOR: Final = Struct.of(
    ("commitUser", UTF),
    ("committerStates", ListOf(Struct.of(("key", STRING), ("value", OptionalOf(BYTES, BOOL, False, True))))),
)
_PARTITION: Final = Framed(_ROW_BYTES)
WRITER_STATE: Final[Codec] = Struct.of(
    (None, Remark("what", f"one element of the union list state {WRITER_STATE_NAME}")),
    ("tableName", STRING),
    ("key", STRING),
    ("partition", _PARTITION),
    ("bucket", INT),
    ("value", BYTES),
)


# Splits

_MAGIC: Final = -2394839472490812314
_DATA_SPLIT: Final = "org.apache.paimon.table.source.DataSplit"
_LIST: Final = "Ljava/util/List;"
_WITH_BEFORE: Final = range(1, 9)
"""The versions of releases whose splits can have files from before a change. Later releases have other splits for them."""


def _class_of_split(version: int) -> JavaClassDescription:
    """Return the description of the class, whose fields the releases changed: primitive types first, then by name."""
    before = ((_LIST, "beforeDeletionFiles"), (_LIST, "beforeFiles")) if version in _WITH_BEFORE else ()
    buckets = (("Ljava/lang/Integer;", "totalBuckets"),) if version >= 6 else ()
    fields = (
        *(("I", "bucket"), ("Z", "isStreaming"), ("Z", "rawConvertible"), ("J", "snapshotId")),
        *before,
        *(("Ljava/lang/String;", "bucketPath"), (_LIST, "dataDeletionFiles"), (_LIST, "dataFiles")),
        ("Lorg/apache/paimon/data/BinaryRow;", "partition"),
        *buckets,
    )
    return JavaClassDescription(_DATA_SPLIT, 7, fields, flags=WRITES_MORE, custom=True)


def _data_split(version: int) -> Codec:
    deletion = Struct.of(("path", UTF), ("offset", LONG), ("length", LONG))
    if version >= 4:
        deletion += Struct.of(("cardinality", Mapped(LONG, _unless_negative, lambda value: -1 if value is None else value)))
    deletions = OptionalOf(ListOf(OptionalOf(deletion, BYTE, 1, 0)), BYTE, 1, 0)
    files = ListOf(_FILES[_FILES_OF_SPLIT[version]])
    fields = Struct.of(("snapshotId", LONG), ("partition", UntypedRow(sized=True)), ("bucket", INT), ("bucketPath", UTF))
    if version >= 6:
        fields += Struct.of(("totalBuckets", OptionalOf(INT)))
    if version in _WITH_BEFORE:
        fields += Struct.of(("beforeFiles", files), ("beforeDeletionFiles", deletions))
    else:
        fields += Struct.of((None, Constant(INT, 0)), (None, Constant(BYTE, 0)))
    return fields + Struct.of(
        ("dataFiles", files), ("dataDeletionFiles", deletions), ("isStreaming", BOOL), ("rawConvertible", BOOL)
    )


def _unless_negative(value: int) -> int | None:
    return None if value == -1 else value


DATA_SPLIT: Final[Versions] = {version: _data_split(version) for version in _FILES_OF_SPLIT}


@dataclass(frozen=True, slots=True)
class _JavaSplit:
    """A ``DataSplit`` as a Java object. Its data begin with a magic number and a version, except in version 1."""

    min_size: int = 5

    def read(self, source: DataInput) -> dict[str, Any]:
        start = source.position
        name, data = read_custom_object(source)
        if name != _DATA_SPLIT:
            raise UnsupportedFormatError(f"{source.source}, offset {start}: splits of the class {name} are not known")
        inner = DataInput(data, f"{source.source}, data of the split at offset {start}")
        version = 1
        if inner.remaining >= 12 and inner.read_long() == _MAGIC:
            version = inner.read_int()
        else:
            inner.position = 0
        content: dict[str, Any] = read_all(of_version(DATA_SPLIT, version, name), inner)
        return {"class": name, "dataSplitVersion": version} | content

    def write(self, content: Content, target: DataOutput) -> None:
        version = content["dataSplitVersion"]
        data = to_bytes(of_version(DATA_SPLIT, version, _DATA_SPLIT), content)
        if version > 1:
            data = to_bytes(LONG, _MAGIC) + to_bytes(INT, version) + data
        target.write_bytes(write_custom_object(_class_of_split(version), data))


_SOURCE_SPLIT: Final = Struct.of(("id", UTF), ("split", Kept(_JavaSplit())), ("recordsToSkip", LONG))
_NO_SNAPSHOT: Final = Mapped(LONG, _unless_negative, lambda value: -1 if value is None else value)

_TABLE_ID: Final = (("database", TEXT), ("table", TEXT))
LAYOUTS: Final[Mapping[str, Versions]] = {
    MESSAGES: MESSAGE,
    COMMITTABLES: COMMITTABLE,
    MULTI_TABLE: {version: Struct.of(*_TABLE_ID, (None, codec)) for version, codec in COMMITTABLE.items()},
    MANIFESTS: MANIFEST,
    WRAPPED_MANIFESTS: {1: _WRAPPED},
    CHECKPOINT_COMMITTABLES: {1: _of_checkpoint(1), 2: _of_checkpoint(2)},
    COORDINATOR: {1: _COORDINATOR},
    SPLITS: {1: _SOURCE_SPLIT},
    PENDING: {1: Struct.of(("splits", ListOf(Framed(_SOURCE_SPLIT))), ("currentSnapshotId", _NO_SNAPSHOT))},
    SIMPLE_SPLITS: {0: Struct.of(("splitId", TEXT), ("value", TEXT))},
    WRITER_STATES: {0: WRITER_STATE},
}
