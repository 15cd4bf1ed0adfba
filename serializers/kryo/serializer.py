"""Flink's ``KryoSerializer``, the fallback serializer, and its snapshot.

The snapshot names the class of the type and the registered classes. It contains neither their fields nor the version of Kryo. The
version follows from the version of Flink, which comes with the bytes (``DataInput.flink_major``). The fields come from
:func:`~state_processor.serializers.register_kryo_class`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from state_processor.serializers.base import SchemaCompatibility, TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.core.unread import OpaqueSerializer, OptionalEntry, read_optional_map, write_optional_map
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kryo.classes import FIRST_USER_ID, Node, class_ids, unknown_class
from state_processor.serializers.kryo.columns import FROM_COLUMNS, column_type, column_value, plain, shape, to_json
from state_processor.serializers.kryo.jdk import is_known
from state_processor.serializers.kryo.objects import KryoReader, KryoWriter
from state_processor.serializers.kryo.wire import KRYO_2, KRYO_5
from state_processor.serializers.registry import current_registrations, provide_snapshots, receive
from state_processor.support.doors import registering
from state_processor.support.errors import InvalidRowError, OptionError, StateProcessorError, UnsupportedFormatError
from state_processor.support.mappings import index_by_name, inverted, names_of

KRYO_SNAPSHOT: Final = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot"
_SERIALIZERS: Final = "org.apache.flink.api.java.typeutils.runtime.kryo.Serializers$"
_AVRO_ARRAY: Final = "org.apache.avro.generic.GenericData$Array"
_BY_CLASS: Final = 1
_BY_INSTANCE: Final = 2
_STANDARD: Final = {f"com.esotericsoftware.kryo.serializers.{name}Serializer" for name in ("Field", "Collection", "Map")}
_NULL: Final = b"\0"
_FIRST_FLINK_WITH_KRYO_5: Final = 2


class Encoding(NamedTuple):
    """Parameters of the format of a value: the version of Kryo, and the registered classes with their first number."""

    version: int
    registered: tuple[str, ...]
    first_id: int


@dataclass(frozen=True, slots=True)
class KryoValue:
    """A value with its bytes."""

    raw: bytes
    node: Node | None = field(compare=False, default=None)  # the value as a tree of Java objects; ``None`` is null
    # encoding of the bytes. A serializer with another encoding encodes the tree again; if unknown, the bytes are written.
    encoding: Encoding | None = field(compare=False, default=None)

    @property
    def value(self) -> Any:
        """Plain Python value: numbers, text, dates, lists, ``KryoMap``, ``KryoObject``."""
        return plain(self.node)


class KryoSerializer(TypeSerializer):
    """Serializer of values of one class and its subclasses in the format of Kryo.

    A described class determines the type of the column, see :func:`~state_processor.serializers.kryo.columns.column_type`.
    Values of other classes are raw bytes, if the surrounding format stores their length (:attr:`self_delimiting`, :meth:`raw`).
    Values of columns can be written in the format of ``flink``.

    Parameters
    ----------
    type_class
        The Java class, ``java.lang.Object`` for any. Type arguments, as in ``java.util.List<java.lang.Long>``, give values a
        column of that type; Flink sees only the class.
    registered
        The names of the registered classes in their order, including the type's own class.
    flink
        The major version of the Flink that wrote the values and reads new ones. With ``None`` each value that is read determines
        it, and new values are refused.
    first_id
        The number of the first registration.
    """

    def __init__(
        self,
        type_class: str,
        registered: Iterable[str] = (),
        *,
        flink: int | None = None,
        first_id: int = FIRST_USER_ID,
        snapshot: KryoSerializerSnapshot | None = None,
    ) -> None:
        self.declared = JavaType.parse(type_class)
        self.type_class = self.declared.name
        self.registered = tuple(registered) or (self.type_class,)
        self.flink = flink
        self.first_id = first_id
        self._snapshot = snapshot
        self._custom = snapshot.custom_serializers() if snapshot is not None else {}
        self._ids = class_ids(self.registered, first_id)
        self._numbers = inverted(self._ids)

    def __copy__(self) -> KryoSerializer:
        new = KryoSerializer.__new__(KryoSerializer)
        new.__dict__.update(vars(self))
        return new

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with the descriptions of classes, for functions that Spark runs in other processes."""
        return vars(self) | {"_described": current_registrations().kryo_classes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        receive(state.pop("_described"))
        self.__dict__.update(state)

    def __str__(self) -> str:
        return f"KRYO<{self.declared}>"

    @property
    def self_delimiting(self) -> bool:
        """Whether values of the class can be read; reading determines where they end.

        A value may still contain an object of an unknown class; reading it raises ``UnsupportedFormatError``.
        """
        return is_known(self.type_class)

    @property
    def has_custom_serializer(self) -> bool:
        """Whether the job registered a Kryo serializer for the class."""
        return self.type_class in self._custom

    @property
    def reason(self) -> str:
        """Reason why values can't be decoded; empty if they can."""
        return "" if self.self_delimiting else str(unknown_class(self.type_class, str(self)))

    def as_remainder(self) -> TypeSerializer:
        return self if self.self_delimiting else self.raw()

    def raw(self) -> OpaqueSerializer:
        """Return a serializer of the bytes of a value that fills its part of an entry."""
        return OpaqueSerializer(str(self), self.snapshot(), self.reason or "read as raw bytes")

    def for_flink(self, major: int) -> KryoSerializer:
        """Return the same serializer for another major version of Flink; it encodes values of this serializer again."""
        return self._copy_with(flink=major)

    def declared_as(self, type_: JavaType) -> KryoSerializer:
        """Return the same serializer with a declared type, because snapshots do not store its type arguments."""
        return self if type_ == self.declared else self._copy_with(declared=type_)

    # Reading

    def read(self, source: DataInput) -> KryoValue | None:
        start = source.position
        version, node = self._decode(source)
        raw = bytes(source.data[start : source.position])
        return None if raw == _NULL else KryoValue(raw, node, self._encoding(version))

    def _decode(self, source: DataInput) -> tuple[int, Node | None]:
        if self.flink is not None:
            version = _version_of(self.flink)
            return version, self._decode_as(version, source)
        start = source.position
        decodings: list[tuple[bool, int, int, Node | None]] = []
        problems: list[StateProcessorError] = []
        for version in (KRYO_5, KRYO_2):
            source.position = start
            try:
                node = self._decode_as(version, source)
            except StateProcessorError as problem:
                problems.append(problem)
            else:
                decodings.append((source.at_end(), source.position, version, node))
        if not decodings:
            raise problems[0]
        if any(whole for whole, *_ in decodings):
            decodings = [f for f in decodings if f[0]]
        _, end, version, node = decodings[0]
        if len(decodings) == 2 and (end != decodings[1][1] or to_json(plain(node)) != to_json(plain(decodings[1][3]))):
            raise UnsupportedFormatError(
                f"{source.source}, offset {start}: a value of {self} can be read as written by Flink 1.x and by Flink 2.x, with "
                "different results; give read_serializer_snapshot() the flink_major that wrote it"
            )
        source.position = end
        return version, node

    def _decode_as(self, version: int, source: DataInput) -> Node | None:
        return KryoReader(source, version, self._ids, self._custom).node()

    # Writing

    def write(self, value: Any, target: DataOutput) -> None:
        """Write a value that was read, a result of :meth:`from_column`, a value from a column, or the bytes of a value.

        Raises
        ------
        ValueError, TypeError, ArithmeticError
            If the value is not of the class.
        UnsupportedFormatError
            If the class of an object is not described, or a Kryo serializer of the job writes it.
        OptionError
            If the version of Flink that the value is written for is unknown.
        """
        accepted = self.from_column(value)
        if accepted is None:
            target.write_bytes(_NULL)
        elif isinstance(accepted, bytes):
            target.write_bytes(accepted)
        else:
            target.write_bytes(self._bytes_of(accepted))

    def from_column(self, value: Any) -> KryoValue | bytes | None:
        """Encode a value of a column. See :meth:`write`: it takes the same values and raises the same errors.

        Bytes count as an encoded value, except if the class is ``byte[]``. A null in a column of ``Optional`` is an empty
        ``Optional``.
        """
        if isinstance(value, KryoValue) or (isinstance(value, bytes) and shape(self.declared)[0] != "bytes"):
            return value
        if value is None and not self.type_class.startswith("java.util.Optional"):
            return None
        if not self.self_delimiting:
            raise self._not_writable()
        try:
            return self._encode(FROM_COLUMNS.declared(self.declared, value))
        except RecursionError:
            raise InvalidRowError(f"expected a value of {self} with fewer levels of nesting") from None

    def _bytes_of(self, value: KryoValue) -> bytes:
        encoding = value.encoding and self._encoding(self._writes or value.encoding.version)
        return value.raw if value.encoding == encoding else self._encode(value.node).raw

    def _encode(self, node: Node | None) -> KryoValue:
        version = self._writes
        if version is None:
            raise OptionError(f"{self}: Flink 1.x and 2.x write such values differently; name the major version with for_flink()")
        target = DataOutput()
        KryoWriter(target, version, self._numbers, self._custom).node(node)
        return KryoValue(target.to_bytes(), node, self._encoding(version))

    @property
    def _writes(self) -> int | None:
        """Version of Kryo to write, if known."""
        return None if self.flink is None else _version_of(self.flink)

    def _encoding(self, version: int) -> Encoding:
        return Encoding(version, self.registered, self.first_id)

    def _not_writable(self) -> UnsupportedFormatError:
        return UnsupportedFormatError(
            f"{self}: new values can't be written in Kryo's encoding unless the class is described: "
            f"{registering(f'register_kryo_class({self.type_class!r}, …)')}"
        )

    # Columns

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return column_type(self.declared, options) if self.self_delimiting else pa.binary()

    def to_column(self, value: KryoValue | None, options: DecodeOptions) -> Any:
        return None if value is None else column_value(self.declared, value.value, options)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._snapshot or KryoSerializerSnapshot.of(self.type_class, self.registered)


def _version_of(flink: int) -> int:
    return KRYO_5 if flink >= _FIRST_FLINK_WITH_KRYO_5 else KRYO_2


def convert(data: bytes, serializer: KryoSerializer, to_flink: int) -> bytes:
    """Convert the bytes of a value to the Kryo version of another major version of Flink.

    References to the same object remain references. Fields that one version omits (flags of a ``Pattern``, script and
    extensions of a ``Locale``, the offset of a ``ZonedDateTime``) get the defaults of Java.

    ``data``: one value, in the encoding of ``serializer``. If ``serializer`` has no major version, the value determines it.
    ``serializer``: the serializer that reads it, with the registered classes. ``to_flink``: the major version of Flink that reads
    the result.
    """
    return serializer.for_flink(to_flink).serialize(serializer.deserialize(data))


class KryoSerializerSnapshot(TypeSerializerSnapshot):
    """Snapshot of :class:`KryoSerializer`: the class of the type, registrations and default serializers in order, all by name.

    ``registrations``, ``default_serializers`` and ``default_serializer_classes``: entries as Flink wrote them. Flink could not
    load the class of an entry without value.
    """

    current_version = 2

    def __init__(
        self,
        class_name: str,
        version: int | None,
        type_class: str,
        registrations: tuple[OptionalEntry, ...],
        default_serializers: tuple[OptionalEntry, ...] = (),
        default_serializer_classes: tuple[OptionalEntry, ...] = (),
        flink: int | None = None,
    ) -> None:
        super().__init__(class_name, version)
        self.type_class = type_class
        self.registrations = registrations
        self.default_serializers = default_serializers
        self.default_serializer_classes = default_serializer_classes
        self.flink = flink

    @classmethod
    def read(cls, class_name: str, version: int, source: DataInput) -> KryoSerializerSnapshot:
        type_class = source.read_utf()
        registrations, serializers, classes = (read_optional_map(source) for _ in range(3))
        return cls(class_name, version, type_class, registrations, serializers, classes, source.flink_major)

    def write(self, target: DataOutput) -> None:
        target.write_utf(self.type_class)
        for entries in (self.registrations, self.default_serializers, self.default_serializer_classes):
            write_optional_map(entries, target)

    def restore_serializer(self) -> TypeSerializer:
        return KryoSerializer(self.type_class, names_of(self.registrations), flink=self.flink, snapshot=self)

    def custom_serializers(self) -> dict[str, str]:
        """Return the Kryo serializers that the job configured, by class."""
        names_of_serializers = {}
        for entry in self.default_serializer_classes:
            if entry.value is not None:
                names_of_serializers[entry.name] = DataInput(entry.value).read_utf()
        names_of_serializers.update((e.name, "given as an object") for e in self.default_serializers)
        for entry in self.registrations:
            if entry.value is not None and entry.name != _AVRO_ARRAY:
                value = DataInput(entry.value)
                value.read_utf()
                kind = value.read_int()
                if kind == _BY_CLASS:
                    names_of_serializers[entry.name] = value.read_utf()
                elif kind == _BY_INSTANCE:
                    names_of_serializers[entry.name] = "given as an object"
        return {name: serializer for name, serializer in names_of_serializers.items() if serializer not in _STANDARD}

    @classmethod
    def of(cls, type_class: str, registered: Iterable[str] = ()) -> KryoSerializerSnapshot:
        """Return the snapshot that Flink writes for a type with classes registered without a serializer, without Avro."""
        names = list(dict.fromkeys((type_class, *registered)))
        entries = [_registration(name, name) for name in names if name != _AVRO_ARRAY]
        entries.append(
            _registration(_AVRO_ARRAY, f"{_SERIALIZERS}DummyAvroRegisteredClass", f"{_SERIALIZERS}DummyAvroKryoSerializerClass")
        )
        return cls(KRYO_SNAPSHOT, None, type_class, tuple(entries))

    def resolve_schema_compatibility(self, new: TypeSerializer | TypeSerializerSnapshot) -> SchemaCompatibility:
        new_snapshot = new.snapshot() if isinstance(new, TypeSerializer) else new
        if not isinstance(new_snapshot, KryoSerializerSnapshot):
            return SchemaCompatibility.incompatible(f"written as KRYO<{self.type_class}>, not with {new_snapshot.class_name}")
        if new_snapshot.type_class != self.type_class:
            return SchemaCompatibility.incompatible(f"written as KRYO<{self.type_class}>, not as KRYO<{new_snapshot.type_class}>")
        return SchemaCompatibility.worst(
            _merge("default serializer", self.default_serializers, new_snapshot.default_serializers),
            _merge("default serializer class", self.default_serializer_classes, new_snapshot.default_serializer_classes),
            _merge("registration", self.registrations, new_snapshot.registrations),
        )


def _merge(title: str, old: tuple[OptionalEntry, ...], new: tuple[OptionalEntry, ...]) -> SchemaCompatibility:
    """Merge entries like Flink's ``LinkedOptionalMap.mergeRightIntoLeft``: old entries keep their positions, new ones follow."""
    new_entries = index_by_name(new)
    for entry in old:
        merged = new_entries.get(entry.name, entry)
        if merged.key is None or merged.value is None:
            return SchemaCompatibility.incompatible(
                f"the {title} of {entry.name} can no longer be loaded, and the job lacks another"
            )
    ordered = names_of(old) == names_of(new)[: len(old)]
    return SchemaCompatibility.compatible_as_is() if ordered else SchemaCompatibility.compatible_with_reconfigured_serializer()


def _registration(name: str, registered: str, serializer: str = "") -> OptionalEntry:
    key, value = DataOutput(), DataOutput()
    key.write_utf(name)
    value.write_utf(registered)
    value.write_int(1 if serializer else 0)
    if serializer:
        value.write_utf(serializer)
    return OptionalEntry(name, key.to_bytes(), value.to_bytes())


provide_snapshots((KRYO_SNAPSHOT,), KryoSerializerSnapshot)
