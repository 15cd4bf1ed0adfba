"""Serializers of Apache Beam: the coder of values is a Java object in the snapshot.

Beam: ``CoderTypeSerializer``, its ``LegacySnapshot``, ``UnversionedTypeSerializerSnapshot``, ``SerializableUtils``. Beam encodes
keys with the coder of the pipeline, and gives Flink the bytes (``FlinkKeyUtils``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import pyarrow as pa

from state_processor.serializers.base import SimpleSerializer, TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.legacy import read_framed_serializer
from state_processor.serializers.core.templates import DelegatingSerializer
from state_processor.serializers.core.unread import OpaqueSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.format_versions import ADAPTER_VERSION
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java import hashing
from state_processor.serializers.java.object_input import JavaInstance, class_name, read_java_object
from state_processor.serializers.registry import current_registrations, provide_snapshots, register
from state_processor.support.doors import registering
from state_processor.support.errors import CorruptSnapshotError, OptionError, StateProcessorError, UnknownSerializerError
from state_processor.support.late import cramjam

_BEAM: Final = "org.apache.beam."
_TYPES: Final = f"{_BEAM}runners.flink.translation.types."
_LEGACY: Final = f"{_TYPES}CoderTypeSerializer$LegacySnapshot"
_UNVERSIONED: Final = f"{_TYPES}UnversionedTypeSerializerSnapshot"
_SNAPPY: Final = b"\x82SNAPPY\0"
"""Start of a stream of snappy-java (``SnappyOutputStream``); two versions follow."""

Coder = Codec | Callable[..., Codec]


class BeamBytesSerializer(SimpleSerializer):
    """Bytes with their length as a variable-length integer (``ByteArrayCoder``); a key is a ``ByteBuffer``."""

    def __str__(self) -> str:
        return "BEAM_BYTES"

    def read(self, source: DataInput) -> bytes:
        return source.read_bytes(source.read_unsigned_varint())

    def write(self, value: bytes, target: DataOutput) -> None:
        target.write_unsigned_varint(len(value))
        target.write_bytes(value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def from_column(self, value: Any) -> bytes:
        return bytes.fromhex(value) if isinstance(value, str) else bytes(memoryview(value))

    def hash_code(self, value: bytes) -> int:
        return hashing.of_units(struct.unpack(f"{len(value)}b", value)[::-1], start=1)


_KNOWN: Final[dict[str, Codec]] = dict.fromkeys(
    (
        f"{_BEAM}runners.flink.translation.wrappers.streaming.FlinkKeyUtils$ByteBufferCoder",
        f"{_BEAM}sdk.coders.ByteArrayCoder",
    ),
    BeamBytesSerializer(),
)


class CoderSerializer(DelegatingSerializer):
    """Values of a coder whose bytes are described.

    ``name``: the class of the coder. ``content``: the codec of the bytes. ``snapshot``: the snapshot that has the coder.
    """

    def __init__(self, name: str, content: Codec, snapshot: TypeSerializerSnapshot) -> None:
        super().__init__(content)
        self.name = name
        self._snapshot = snapshot

    def __str__(self) -> str:
        return f"CODER<{self.name}>"

    @property
    def children(self) -> Sequence[Codec]:
        return ()

    def with_children(self, children: Sequence[Codec]) -> TypeSerializer:
        return self

    def hash_code(self, value: Any) -> int:
        return self.content.hash_code(value)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._snapshot


class UnknownCoderSerializer(TypeSerializer):
    """Values of a coder whose bytes are not described: bytes, if they fill their part of an entry."""

    min_size = 0

    def __init__(self, name: str, snapshot: TypeSerializerSnapshot) -> None:
        self.name = name
        self._snapshot = snapshot

    def __str__(self) -> str:
        return f"CODER<{self.name}>"

    @property
    def self_delimiting(self) -> bool:
        return False

    @property
    def reason(self) -> str:
        return f"the coder {self.name} is code of the job; call {registering(f'register_coder({self.name!r}, …)')}"

    def as_remainder(self) -> OpaqueSerializer:
        return OpaqueSerializer(str(self), self._snapshot, self.reason)

    def _refuse(self) -> NoReturn:
        raise UnknownSerializerError(f"{self}: {self.reason}")

    def read(self, source: DataInput) -> Any:
        self._refuse()

    def write(self, value: Any, target: DataOutput) -> None:
        self._refuse()

    def emit_decode(self, builder: Any, column: Any) -> None:
        self._refuse()

    def emit_encode(self, builder: Any, column: Any) -> None:
        self._refuse()

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._snapshot


class CoderSnapshot(TypeSerializerSnapshot):
    """Snapshot of ``CoderTypeSerializer``: the serializer as a Java object in a frame with a length.

    ``serializer``: the stored object, which newer versions of Beam compress.
    """

    def __init__(self, class_name: str, version: int, serializer: bytes) -> None:
        super().__init__(class_name, version)
        self.serializer = serializer

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> CoderSnapshot:
        if version != ADAPTER_VERSION:
            return cls(class_name, version, source.read_bytes(source.read_int(), "serialized serializer"))
        serializer = read_framed_serializer(source)
        start = source.position
        if source.read_int() != 1:
            raise source.corrupt(f"version 1 of {class_name} expected", start)
        return cls(class_name, version, serializer)

    def write(self, target: DataOutput) -> None:
        is_legacy = self.version == ADAPTER_VERSION
        if is_legacy:
            target.write_int(1)
        target.write_int(len(self.serializer))
        target.write_bytes(self.serializer)
        if is_legacy:
            target.write_int(1)

    def restore_serializer(self) -> TypeSerializer:
        try:
            coder = read_java_object(DataInput(_plain(self.serializer), self.class_name)).content.get("coder")
        except (StateProcessorError, AttributeError):
            return UnknownCoderSerializer(self.class_name, self)
        name = class_name(coder)
        codec = _codec(coder)
        return UnknownCoderSerializer(name, self) if codec is None else CoderSerializer(name, codec, self)


def _codec(coder: Any) -> Codec | None:
    """Return the codec of a coder; ``None`` if it, or one inside it, is not described."""
    described: Coder | None = current_registrations().value_classes.get(class_name(coder)) or _KNOWN.get(class_name(coder))
    if described is None or isinstance(described, Codec):
        return described
    parts = [_codec(part) for part in coder.fields.values() if isinstance(part, JavaInstance)]
    return None if None in parts else described(*parts)


def _plain(data: bytes) -> bytes:
    """Return a Java object; newer versions of Beam compress it in blocks with their lengths."""
    if not data.startswith(_SNAPPY):
        return data
    source, parts = DataInput(data, "a coder of Beam", len(_SNAPPY) + 8), []
    while not source.at_end():
        block = source.read_bytes(source.read_int(), "compressed block")
        try:
            parts.append(bytes(cramjam.snappy.decompress_raw(block)))
        except (cramjam.DecompressionError, OSError) as problem:
            raise CorruptSnapshotError(f"a coder of Beam: {problem}") from None
    return b"".join(parts)


def register_coder(class_name: str, coder: Coder) -> None:
    """Describe what a coder of Apache Beam writes.

    Parameters
    ----------
    class_name
        The Java class of the coder, with ``$`` before nested classes: ``org.apache.beam.sdk.coders.VarLongCoder``.
    coder
        The serializer of a value in Beam's nested context. For a coder with coders inside it: a function of their serializers, in
        the order of the names of the fields that have them.

    Raises
    ------
    OptionError
        If ``coder`` is neither.
    """
    if not isinstance(coder, Codec) and not callable(coder):
        raise OptionError(f"register_coder({class_name!r}): expected a serializer or a function, found {type(coder).__name__}")
    register(lambda registered: registered.with_value_class(class_name, coder))


provide_snapshots((_LEGACY, _UNVERSIONED), CoderSnapshot)
