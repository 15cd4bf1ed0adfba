"""Checkpoint properties: the Java object stream at the end of ``_metadata`` (version 4 and later).

The stream is one ``org.apache.flink.runtime.checkpoint.CheckpointProperties`` or a Java null. It is parsed as data: classes that
it names are never loaded, and its content is never executed.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from state_processor.serializers.format_versions import FormatVersions
from state_processor.serializers.io import DataOutput
from state_processor.serializers.java.object_input import STREAM_HEADER
from state_processor.support.errors import CorruptSnapshotError, OptionError

SAVEPOINT: Final = "savepoint"
CHECKPOINT: Final = "checkpoint"
CANONICAL: Final = "CANONICAL"
NATIVE: Final = "NATIVE"

NULL_STREAM: Final = bytes.fromhex("aced000570")
"""A Java null. Every version of Flink with properties accepts it."""

_MOST_BYTES: Final = 1 << 16
"""Flink writes about 1200."""

_PACKAGE: Final = "org.apache.flink.runtime.checkpoint."
_SERIAL_VERSION: Final = 2
_SAVEPOINT_TYPE_VERSION: Final = -6879297871714708296
_CHECKPOINT_TYPE_VERSION: Final = -2963844630364414662
PROPERTIES: Final = FormatVersions("CheckpointProperties (serialVersionUID)", {_SERIAL_VERSION: "1.16"})
_KINDS: Final = {_PACKAGE + "SavepointType": SAVEPOINT, _PACKAGE + "CheckpointType": CHECKPOINT}
_FLAGS: Final = {
    "discardCancelled": "discard_cancelled",
    "discardFailed": "discard_failed",
    "discardFinished": "discard_finished",
    "discardSubsumed": "discard_subsumed",
    "discardSuspended": "discard_suspended",
    "forced": "forced",
    "unclaimed": "unclaimed",
}
_TYPE_FIELDS: Final = {
    "formatType": "format",
    "name": "name",
    "postCheckpointAction": "post_checkpoint_action",
    "sharingFilesStrategy": "sharing_files_strategy",
}


@dataclass(frozen=True, slots=True)
class CheckpointProperties:
    """Flink's ``CheckpointProperties``. A Java null becomes ``None``."""

    raw: bytes = field(default=NULL_STREAM, repr=False)  # the bytes of the stream
    kind: str | None = None  # ``'savepoint'`` or ``'checkpoint'``
    format: str | None = None  # ``'CANONICAL'`` or ``'NATIVE'`` for a savepoint
    name: str | None = None  # ``'Savepoint'``, ``'Suspend Savepoint'``, ``'Checkpoint'``, …
    post_checkpoint_action: str | None = None  # ``'NONE'``, ``'SUSPEND'`` or ``'TERMINATE'`` for a savepoint
    sharing_files_strategy: str | None = None  # ``'FORWARD_BACKWARD'``, ``'FORWARD'`` or ``'NO_SHARING'`` for a checkpoint
    discard_cancelled: bool | None = None
    discard_failed: bool | None = None
    discard_finished: bool | None = None
    discard_subsumed: bool | None = None
    discard_suspended: bool | None = None
    forced: bool | None = None
    unclaimed: bool | None = None


class _StrictBytes(io.BytesIO):
    """Bytes whose ``read`` fails instead of returning fewer bytes than requested. The parser would accept short strings."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if size is not None and len(data) < size:
            raise EOFError("the Java object stream ends too early")
        return data


@lru_cache(maxsize=64)
def _decode(raw: bytes) -> tuple[int, dict[str, Any]]:
    """Return the ``serialVersionUID`` of the object, and its fields."""
    flags = raw[len(_HEAD) : len(_HEAD) + len(_FLAGS)]
    for checkpoint_type in _TYPES:
        if flags.strip(b"\0\1") == b"" and raw == _HEAD + flags + checkpoint_type.stream():
            values = {ours: bool(flag) for (_, ours), flag in zip(sorted(_FLAGS.items()), flags, strict=True)}
            return _SERIAL_VERSION, values | checkpoint_type.values()
    return _parsed(raw)


def _parsed(raw: bytes) -> tuple[int, dict[str, Any]]:
    """Return the same of streams of other content."""
    from javaobj.v2.main import load as load_java_stream

    contents = load_java_stream(_StrictBytes(raw))
    if raw == NULL_STREAM:
        return _SERIAL_VERSION, {}
    properties = _fields(contents)
    checkpoint_type = properties["checkpointType"]
    values: dict[str, Any] = {"kind": _KINDS.get(checkpoint_type.classdesc.name)}
    values |= {ours: bool(properties[java]) for java, ours in _FLAGS.items() if java in properties}
    type_fields = _fields(checkpoint_type)
    values |= {ours: str(type_fields[java].value) for java, ours in _TYPE_FIELDS.items() if java in type_fields}
    return contents.classdesc.serial_version_uid, values


def _fields(instance: Any) -> dict[str, Any]:
    fields = {}
    for fields_of_class in instance.field_data.values():
        for described, value in fields_of_class.items():
            fields[described.name] = value
    return fields


def decode_properties(raw: bytes, source: str = "bytes", offset: int = 0) -> CheckpointProperties:
    """Decode the properties stream.

    ``raw``: the whole stream, to the end of ``_metadata``. ``source`` and ``offset``: source of the stream, for error messages.
    """
    if not raw.startswith(STREAM_HEADER) or len(raw) > _MOST_BYTES:
        # javaobj would accept other streams too, such as compressed ones
        raise CorruptSnapshotError(f"{source}, offset {offset}: expected CheckpointProperties in {len(raw)} bytes")
    try:
        serial_version, values = _decode(raw)
    except Exception as e:  # the parser raises errors of many classes; each one means damage
        reason = "" if isinstance(e, UnboundLocalError) else f": {e}"  # javaobj's, where a field does not have its class
        raise CorruptSnapshotError(f"{source}, offset {offset}: expected CheckpointProperties in the Java stream{reason}") from e
    PROPERTIES.check(serial_version, source, offset)
    return CheckpointProperties(raw, **values)


def savepoint_properties(format: str = CANONICAL) -> CheckpointProperties:
    """Return the properties that Flink writes for a savepoint.

    ``format``: ``'CANONICAL'`` or ``'NATIVE'``.
    """
    if format not in (CANONICAL, NATIVE):
        raise OptionError(f"expected the savepoint format {CANONICAL} or {NATIVE}, found {format!r}")
    flags = bytes(flag == "forced" for flag in sorted(_FLAGS))
    checkpoint_type = next(candidate for candidate in _TYPES if candidate.format == format and candidate.name == "Savepoint")
    return decode_properties(_HEAD + flags + checkpoint_type.stream())


class _JavaStream(DataOutput):
    """Writer of the records of Java's object serialization that ``CheckpointProperties`` needs."""

    __slots__ = ("handles",)

    _FIRST_HANDLE: Final = 0x7E0000

    def __init__(self) -> None:
        super().__init__()
        self.handles = 0

    def _new_handle(self) -> int:
        self.handles += 1
        return self._FIRST_HANDLE + self.handles - 1

    def string(self, text: str) -> None:
        self.write_byte(0x74)
        self._new_handle()
        self.write_utf(text)

    def _class(self, name: str, uid: int, flags: int, fields: list[tuple[str, str, str]]) -> int:
        self.write_byte(0x72)
        self.write_utf(name)
        self.write_long(uid)
        handle = self._new_handle()
        self.write_byte(flags)
        self.write_short(len(fields))
        for code, field_name, class_name in fields:
            self.write_bytes(code.encode())
            self.write_utf(field_name)
            if class_name:
                self.string(class_name)
        self.write_byte(0x78)
        return handle

    def instance(self, name: str, uid: int, fields: list[tuple[str, str, str]]) -> None:
        """Return the start of an object. Its field values follow in the order of ``fields``."""
        self.write_byte(0x73)
        self._class(name, uid, 2, fields)
        self.write_byte(0x70)
        self._new_handle()

    def enum(self, name: str, enum_class: int | None, constant: str) -> int:
        """Return an enum constant. The second enum refers to the handle of ``java.lang.Enum``."""
        self.write_byte(0x7E)
        self._class(name, 0, 0x12, [])
        if enum_class is None:
            enum_class = self._class("java.lang.Enum", 0, 0x12, [])
            self.write_byte(0x70)
        else:
            self.write_byte(0x71)
            self.write_int(enum_class)
        self._new_handle()
        self.string(constant)
        return enum_class


def _head() -> bytes:
    """Return the stream up to the flags."""
    out = _JavaStream()
    out.write_bytes(STREAM_HEADER)
    out.instance(
        _PACKAGE + "CheckpointProperties",
        _SERIAL_VERSION,
        [("Z", flag, "") for flag in sorted(_FLAGS)] + [("L", "checkpointType", f"L{_PACKAGE.replace('.', '/')}SnapshotType;")],
    )
    return out.to_bytes()


@dataclass(frozen=True, slots=True)
class _Type:
    """A checkpoint type of Flink; ``option`` is its action after the checkpoint, or its strategy of shared files."""

    kind: str
    format: str | None
    name: str
    option: str

    def values(self) -> dict[str, Any]:
        option = "sharing_files_strategy" if self.format is None else "post_checkpoint_action"
        values = {"kind": self.kind, "name": self.name, option: self.option}
        return values if self.format is None else values | {"format": self.format}

    def stream(self) -> bytes:
        """Return the stream after the flags."""
        out = _JavaStream()
        out.handles = 3  # the class of the properties, a string in it, and the properties
        text = ("L", "name", "Ljava/lang/String;")
        if self.format is None:
            strategy = _PACKAGE + "SnapshotType$SharingFilesStrategy"
            fields = [text, ("L", "sharingFilesStrategy", _as_field(strategy))]
            out.instance(_PACKAGE + "CheckpointType", _CHECKPOINT_TYPE_VERSION, fields)
            out.string(self.name)
            out.enum(strategy, None, self.option)
            return out.to_bytes()
        action = _PACKAGE + "SavepointType$PostCheckpointAction"
        format_type = "org.apache.flink.core.execution.SavepointFormatType"
        fields = [("L", "formatType", _as_field(format_type)), text, ("L", "postCheckpointAction", _as_field(action))]
        out.instance(_PACKAGE + "SavepointType", _SAVEPOINT_TYPE_VERSION, fields)
        enum_class = out.enum(format_type, None, self.format)
        out.string(self.name)
        out.enum(action, enum_class, self.option)
        return out.to_bytes()


def _as_field(name: str) -> str:
    """Return the type of a field of a class, in the spelling of the Java virtual machine."""
    return f"L{name.replace('.', '/')};"


_HEAD: Final = _head()
_TYPES: Final = (
    *(_Type(SAVEPOINT, format, "Savepoint", "NONE") for format in (CANONICAL, NATIVE)),
    _Type(CHECKPOINT, None, "Checkpoint", "FORWARD_BACKWARD"),
    *(_Type(SAVEPOINT, format, "Suspend Savepoint", "SUSPEND") for format in (CANONICAL, NATIVE)),
    *(_Type(SAVEPOINT, format, "Terminate Savepoint", "TERMINATE") for format in (CANONICAL, NATIVE)),
    _Type(CHECKPOINT, None, "Full Checkpoint", "FORWARD"),
)
"""The types that Flink writes (``SavepointType``, ``CheckpointType``)."""
