"""Layouts of Paimon: commit messages, committables, states of writers and coordinators, splits.

Paimon: ``CommitMessageSerializer``, ``CommittableSerializer``, ``ManifestCommittableSerializer``, ``DataFileMeta.SCHEMA``,
``IndexFileMeta.SCHEMA``, ``DataSplit``, ``FileStoreSourceSplitSerializer``, ``StoreSinkWriteStateImpl``.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from state_processor.connectors.java import WRITES_MORE, JavaClassDescription, read_custom_object, write_custom_object
from state_processor.errors import InvalidRowError, UnsupportedFormatError
from state_processor.plugins.paimon.rows import (
    Column,
    TypedRow,
    UntypedRow,
    column_of_array,
    column_of_bytes,
    column_of_hex,
    column_of_row,
    column_of_rows,
    column_of_time,
)
from state_processor.serializers import DataInput, DataOutput

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


_FILES: Final = {
    count: Mapped(TypedRow(*_FILE_COLUMNS[:count]), _with_source, _without_source) for count in range(15, len(_FILE_COLUMNS) + 1)
}
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

LAYOUTS: Final[Mapping[str, Versions]] = {
    MESSAGES: MESSAGE,
    COMMITTABLES: COMMITTABLE,
    MULTI_TABLE: {
        version: Struct.of(("database", TEXT), ("table", TEXT), (None, codec)) for version, codec in COMMITTABLE.items()
    },
    MANIFESTS: MANIFEST,
    WRAPPED_MANIFESTS: {1: _WRAPPED},
    CHECKPOINT_COMMITTABLES: {1: _of_checkpoint(1), 2: _of_checkpoint(2)},
    COORDINATOR: {1: _COORDINATOR},
    SPLITS: {1: _SOURCE_SPLIT},
    PENDING: {1: Struct.of(("splits", ListOf(Framed(_SOURCE_SPLIT))), ("currentSnapshotId", _NO_SNAPSHOT))},
    SIMPLE_SPLITS: {0: Struct.of(("splitId", TEXT), ("value", TEXT))},
    WRITER_STATES: {0: WRITER_STATE},
}
