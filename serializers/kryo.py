"""The serializer of last resort: values that Kryo wrote (Flink: ``KryoSerializer``).

The snapshot names the class of the type and the registered classes, never their fields and never the version of Kryo, so that
much of what a reader needs comes from elsewhere: :func:`written_by_flink` says which Kryo it was,
:func:`~state_processor.serializers.kryo_values.register_kryo_class` what a class holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from state_processor.serializers import basic, temporal
from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.compatibility import SchemaCompatibility
from state_processor.serializers.errors import OptionError, StateProcessorError, UndecodableValueError, UnsupportedFormatError
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kryo_values import (
    BOXES,
    FIRST_USER_ID,
    KRYO_2,
    KRYO_5,
    JavaType,
    KryoMap,
    KryoObject,
    KryoReader,
    class_ids,
    is_collection,
    is_known,
    is_map,
    register_kryo_class,
    set_user_class,
    to_json,
    unknown_class,
    user_class,
    user_classes,
)
from state_processor.serializers.opaque import OpaqueSerializer
from state_processor.serializers.optional_map import OptionalEntry, read_optional_map, write_optional_map
from state_processor.serializers.options import DecodeOptions
from state_processor.serializers.registry import register_snapshot

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.program import DecodeBuilder

KRYO_SNAPSHOT: Final = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot"
_SERIALIZERS: Final = "org.apache.flink.api.java.typeutils.runtime.kryo.Serializers$"
_AVRO_ARRAY: Final = "org.apache.avro.generic.GenericData$Array"
_BY_CLASS: Final = 1
_BY_INSTANCE: Final = 2
_STANDARD: Final = {f"com.esotericsoftware.kryo.serializers.{name}Serializer" for name in ("Field", "Collection", "Map")}
_NULL: Final = b"\0"
_FIRST_FLINK_WITH_KRYO_5: Final = 2

_flink_major: Final[ContextVar[int | None]] = ContextVar("flink_major", default=None)


@contextmanager
def written_by_flink(major: int | None) -> Iterator[None]:
    """Serializer snapshots that are read inside belong to a state that this major version of Flink wrote.

    ``_metadata`` of version 5 and later is Flink 2's. Without this the version of Kryo is deduced from each value, which works
    where a value fills its bytes.
    """
    token = _flink_major.set(major)
    try:
        yield
    finally:
        _flink_major.reset(token)


@dataclass(frozen=True, slots=True)
class KryoValue:
    """A decoded value and the bytes it was decoded from, which are what is written again."""

    raw: bytes
    value: Any = field(compare=False)


class KryoSerializer(TypeSerializer):
    """Values of one class or its subclasses, as Kryo wrote them.

    A column's type follows from the class where that is known, see :func:`column_type`; values of a class that isn't are
    raw bytes where something else gives their length (:attr:`can_find_end`, :meth:`raw`).

    Parameters
    ----------
    type_class
        The Java class, ``java.lang.Object`` for any.
    registered
        The names of the registered classes in their order, the type's own among them.
    flink
        The major version of the Flink that wrote the values; ``None`` to find out value by value.
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
        self.type_class = type_class
        self.registered = tuple(registered) or (type_class,)
        self.flink = flink
        self.first_id = first_id
        self._snapshot = snapshot
        self._custom = snapshot.custom_serializers() if snapshot is not None else {}
        self._ids = class_ids(self.registered, first_id)

    def __getstate__(self) -> dict[str, Any]:
        """Descriptions of classes travel along: another process, such as a Spark task, has not registered them."""
        return vars(self) | {"_described": user_classes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for described in state.pop("_described"):
            if user_class(described.name) is None:
                set_user_class(described)
        vars(self).update(state)

    def __str__(self) -> str:
        return f"KRYO<{self.type_class}>"

    @property
    def can_find_end(self) -> bool:
        """Whether the class is one whose values can be read, so that what follows them can be found.

        A value may still hold an object of an unknown class; reading it raises ``UnsupportedFormatError``.
        """
        return is_known(self.type_class)

    @property
    def reason(self) -> str:
        """Why values can't be decoded; empty if they can."""
        return "" if self.can_find_end else str(unknown_class(self.type_class, str(self)))

    def raw(self) -> OpaqueSerializer:
        """A stand-in that gives the bytes of a value that fills its part of an entry."""
        return OpaqueSerializer(str(self), self.snapshot(), self.reason or "read as raw bytes")

    def read(self, source: DataInput) -> KryoValue | None:
        start = source.position
        value = self._decode(source)
        raw = bytes(source.data[start : source.position])
        return None if raw == _NULL else KryoValue(raw, value)

    def _decode(self, source: DataInput) -> Any:
        if self.flink is not None:
            return self._decode_as(KRYO_5 if self.flink >= _FIRST_FLINK_WITH_KRYO_5 else KRYO_2, source)
        start = source.position
        found: list[tuple[bool, int, Any]] = []
        problems: list[StateProcessorError] = []
        for version in (KRYO_5, KRYO_2):
            source.position = start
            try:
                value = self._decode_as(version, source)
            except StateProcessorError as problem:
                problems.append(problem)
            else:
                found.append((source.at_end(), source.position, value))
        if not found:
            raise problems[0]
        if any(whole for whole, _, _ in found):
            found = [f for f in found if f[0]]
        first = found[0]
        if len(found) == 2 and (first[1] != found[1][1] or to_json(first[2]) != to_json(found[1][2])):
            raise UnsupportedFormatError(
                f"{source.source}, offset {start}: a value of {self} can be read as Flink 1.x writes it and as Flink 2.x does, "
                "with different results; say which wrote it with written_by_flink()"
            )
        source.position = first[1]
        return first[2]

    def _decode_as(self, version: int, source: DataInput) -> Any:
        return KryoReader(source, version, self._ids, self._custom).class_and_object()

    def write(self, value: KryoValue | bytes | None, target: DataOutput) -> None:
        """Write a value that was read, or the bytes of one; nothing else can be turned into Kryo's encoding."""
        if value is None:
            target.write_byte(0)
        elif isinstance(value, KryoValue):
            target.write_bytes(value.raw)
        elif isinstance(value, bytes):
            target.write_bytes(value)
        else:
            raise self._not_writable()

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return column_type(JavaType(self.type_class), options) if self.can_find_end else pa.binary()

    def present(self, value: KryoValue | None, options: DecodeOptions) -> Any:
        return None if value is None else column_value(JavaType(self.type_class), value.value, options)

    def accept(self, value: Any) -> Any:
        if value is not None and not isinstance(value, (KryoValue, bytes)):
            raise self._not_writable()
        return value

    def _not_writable(self) -> UnsupportedFormatError:
        return UnsupportedFormatError(
            f"{self}: new values can't be written in Kryo's encoding, only values that were read; give the state another type"
        )

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        from state_processor.serializers.kernel.program import NotCompilableError

        raise NotCompilableError(str(self))

    def snapshot(self) -> TypeSerializerSnapshot:
        return self._snapshot or KryoSerializerSnapshot.of(self.type_class, self.registered)


# Columns

_STRING: Final = basic.StringSerializer()
_COLUMNS: Final[dict[str, TypeSerializer]] = {
    **{BOXES[n.lower()]: basic.NumberSerializer(n) for n in ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE")},
    "java.util.concurrent.atomic.AtomicBoolean": basic.NumberSerializer("BOOLEAN"),
    "java.util.concurrent.atomic.AtomicInteger": basic.NumberSerializer("INT"),
    "java.util.concurrent.atomic.AtomicLong": basic.NumberSerializer("LONG"),
    "java.util.OptionalInt": basic.NumberSerializer("INT"),
    "java.util.OptionalLong": basic.NumberSerializer("LONG"),
    "java.util.OptionalDouble": basic.NumberSerializer("DOUBLE"),
    **dict.fromkeys(
        ("java.util.Date", "java.sql.Timestamp", "java.time.Instant", "java.util.Calendar", "java.util.GregorianCalendar"),
        temporal.InstantSerializer(),
    ),
    **dict.fromkeys(("java.sql.Date", "java.time.LocalDate"), temporal.LocalDateSerializer()),
    "java.time.LocalDateTime": temporal.LocalDateTimeSerializer(),
}
_TEXT: Final = {
    "java.lang.Character", "java.lang.String", "java.lang.StringBuilder", "java.lang.StringBuffer", "java.lang.Class",
    "java.math.BigInteger", "java.math.BigDecimal", "java.net.URI", "java.net.URL", "java.net.InetSocketAddress", "java.sql.Time",
    "java.util.Currency", "java.util.UUID", "java.util.Locale", "java.util.regex.Pattern", "java.util.TimeZone",
    "java.util.SimpleTimeZone", "sun.util.calendar.ZoneInfo", "java.time.LocalTime", "java.time.Duration", "java.time.Period",
    "java.time.Year", "java.time.YearMonth", "java.time.MonthDay", "java.time.ZoneId", "java.time.ZoneRegion",
    "java.time.ZoneOffset",
    "java.time.OffsetTime", "java.time.OffsetDateTime", "java.time.ZonedDateTime",
}  # fmt: skip
_INT: Final = JavaType("java.lang.Integer")


def _shape(type_: JavaType, inside: frozenset[str]) -> tuple[str, tuple[tuple[str, JavaType], ...]]:
    """What a column of a declared type is: its kind and the types it is made of."""
    name, arguments = type_.name, type_.arguments
    described = user_class(name)
    if described is not None and described.constants is not None:
        return "text", ()
    if described is not None and not described.abstract and described.fields and name not in inside:
        return "struct", described.fields
    if name in _TEXT or name == "char":
        return "text", ()
    if BOXES.get(name, name) in _COLUMNS:
        return "column", ()
    if name == "java.util.BitSet":
        return "list", (("element", _INT),)
    if name == "java.util.Optional" and arguments:
        return _shape(arguments[0], inside)
    if name == "[B":
        return "bytes", ()
    if name.startswith("["):
        return "list", (("element", JavaType(type_.component)),)
    if arguments and is_collection(name):
        return "list", (("element", arguments[-1]),)
    if len(arguments) == 2 and is_map(name):
        return "map", (("key", arguments[0]), ("value", arguments[1]))
    return "json", ()


def _unwrapped(type_: JavaType) -> JavaType:
    while type_.name == "java.util.Optional" and type_.arguments:
        type_ = type_.arguments[0]
    return type_


def column_type(type_: JavaType, options: DecodeOptions, inside: frozenset[str] = frozenset()) -> pa.DataType:
    """The Arrow type of values that are declared to be of a type.

    Numbers, dates and points in time have the type they have elsewhere; big numbers, times of day, UUIDs, enums and the like are
    strings; a ``BitSet`` is the list of its set bits; arrays, and collections and maps whose type arguments are declared, are
    lists and maps; described classes are structs. Anything else (``Object``, a bare ``List``, a class inside itself) is a string
    of JSON, as :func:`~state_processor.serializers.kryo_values.to_json` says.
    """
    type_ = _unwrapped(type_)
    kind, parts = _shape(type_, inside)
    within = inside | {type_.name} if kind == "struct" else inside
    types = [pa.field(name, column_type(part, options, within)) for name, part in parts]
    match kind:
        case "struct":
            return pa.struct(types)
        case "list":
            return pa.list_(types[0].type)
        case "map":
            return pa.map_(types[0].type, types[1].type)
        case "bytes":
            return pa.binary()
        case "column":
            return _COLUMNS[BOXES.get(type_.name, type_.name)].arrow_type(options)
    return pa.string()


def column_value(type_: JavaType, value: Any, options: DecodeOptions, inside: frozenset[str] = frozenset()) -> Any:
    """A decoded value for a column of :func:`column_type`.

    Raises
    ------
    UndecodableValueError
        If an object is of a subclass, whose further fields the column has no place for.
    """
    type_ = _unwrapped(type_)
    kind, parts = _shape(type_, inside)
    if kind == "json":
        return None if value is None else json.dumps(to_json(value), ensure_ascii=False)
    if value is None:
        return None
    match kind:
        case "struct":
            if not isinstance(value, KryoObject) or value.class_name != type_.name:
                found = value.class_name if isinstance(value, KryoObject) else type(value).__name__
                raise UndecodableValueError(
                    f"a value of class {found} where {type_.name} is declared: describe {type_.name} with "
                    f"register_kryo_class({type_.name!r}, None) to see values of its subclasses as JSON"
                )
            within = inside | {type_.name}
            return {name: column_value(part, value.fields[name], options, within) for name, part in parts}
        case "list":
            return [column_value(parts[0][1], v, options, inside) for v in value]
        case "map":
            assert isinstance(value, KryoMap)
            return [
                (column_value(parts[0][1], k, options, inside), column_value(parts[1][1], v, options, inside)) for k, v in value
            ]
        case "bytes":
            return value
        case "column":
            return _COLUMNS[BOXES.get(type_.name, type_.name)].present(value, options)
    return basic.without_lone_surrogates(str(value))


def java_type_of(serializer: TypeSerializer) -> JavaType:
    """The Java type that a serializer stands for in :func:`register_kryo_class`."""
    name = _java_name(serializer)
    if name is None:
        raise OptionError(
            f"{serializer} stands for no Java type here: give the field's type as Java source has it, such as 'java.lang.String'"
        )
    return name


def _java_name(serializer: TypeSerializer) -> JavaType | None:
    from state_processor.serializers import arrays, collections, composite

    match serializer:
        case basic.NumberSerializer() | basic.CharSerializer():
            return JavaType(str(serializer).lower())
        case KryoSerializer():
            return JavaType(serializer.type_class)
        case collections.MapSerializer():
            return JavaType("java.util.Map", (_boxed(serializer.key), _boxed(serializer.value.inner)))
        case collections.SetSerializer():
            inner = serializer.element
            return JavaType("java.util.Set", (_boxed(inner.inner if isinstance(inner, collections.NullFlagged) else inner),))
        case collections.ListSerializer():
            return JavaType("java.util.List", (_boxed(serializer.element),))
        case arrays.SimpleArraySerializer():
            element = java_type_of(serializer.element).name
            return JavaType.parse(f"{element}[]")
        case composite.EnumSerializer():
            if user_class(serializer.enum_class) is None:
                register_kryo_class(serializer.enum_class, serializer.names)
            return JavaType(serializer.enum_class)
    simple = _JAVA_NAMES.get(str(serializer))
    return JavaType(simple) if simple else None


def _boxed(serializer: TypeSerializer) -> JavaType:
    type_ = java_type_of(serializer)
    return JavaType(BOXES.get(type_.name, type_.name), type_.arguments)


_JAVA_NAMES: Final = {
    "STRING": "java.lang.String",
    "BIG_INT": "java.math.BigInteger",
    "BIG_DEC": "java.math.BigDecimal",
    "DATE": "java.util.Date",
    "SQL_DATE": "java.sql.Date",
    "SQL_TIME": "java.sql.Time",
    "SQL_TIMESTAMP": "java.sql.Timestamp",
    "INSTANT": "java.time.Instant",
    "LOCAL_DATE": "java.time.LocalDate",
    "LOCAL_TIME": "java.time.LocalTime",
    "LOCAL_DATE_TIME": "java.time.LocalDateTime",
}


# The snapshot


class KryoSerializerSnapshot(TypeSerializerSnapshot):
    """Of :class:`KryoSerializer`: the class of the type, registrations and default serializers in their order, all by name.

    Parameters
    ----------
    type_class
        The class of the type.
    registrations, default_serializers, default_serializer_classes
        Frames as Flink wrote them; a missing value frame means that Flink could not load the class.
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
        if version != cls.current_version:
            raise UnsupportedFormatError(
                f"{source.source}, offset {source.position}: version {version} of {class_name} is not known, "
                f"only {cls.current_version}"
            )
        type_class = source.read_utf()
        maps = [read_optional_map(source) for _ in range(3)]
        return cls(class_name, version, type_class, maps[0], maps[1], maps[2], _flink_major.get())

    def write(self, target: DataOutput) -> None:
        target.write_utf(self.type_class)
        for entries in (self.registrations, self.default_serializers, self.default_serializer_classes):
            write_optional_map(entries, target)

    def restore_serializer(self) -> TypeSerializer:
        return KryoSerializer(self.type_class, [r.name for r in self.registrations], flink=self.flink, snapshot=self)

    def custom_serializers(self) -> dict[str, str]:
        """The Kryo serializer of each class that the job gave one."""
        found = {}
        for entry in self.default_serializer_classes:
            if entry.value is not None:
                found[entry.name] = DataInput(entry.value).read_utf()
        found.update((e.name, "of the job's own") for e in self.default_serializers)
        for entry in self.registrations:
            if entry.value is not None and entry.name != _AVRO_ARRAY:
                value = DataInput(entry.value)
                value.read_utf()
                kind = value.read_int()
                if kind == _BY_CLASS:
                    found[entry.name] = value.read_utf()
                elif kind == _BY_INSTANCE:
                    found[entry.name] = "of the job's own"
        return {name: serializer for name, serializer in found.items() if serializer not in _STANDARD}

    @classmethod
    def of(cls, type_class: str, registered: Iterable[str] = ()) -> KryoSerializerSnapshot:
        """What Flink writes for a type with classes registered without a serializer, where Avro is not on its class path."""
        names = list(dict.fromkeys((type_class, *registered)))
        entries = [_registration(name, name) for name in names if name != _AVRO_ARRAY]
        entries.append(
            _registration(_AVRO_ARRAY, f"{_SERIALIZERS}DummyAvroRegisteredClass", f"{_SERIALIZERS}DummyAvroKryoSerializerClass")
        )
        return cls(KRYO_SNAPSHOT, None, type_class, tuple(entries))

    def resolve_schema_compatibility(self, new: TypeSerializer | TypeSerializerSnapshot) -> SchemaCompatibility:
        wanted = new.snapshot() if isinstance(new, TypeSerializer) else new
        if not isinstance(wanted, KryoSerializerSnapshot):
            return SchemaCompatibility.incompatible(f"KRYO<{self.type_class}> was written, {wanted.class_name} is wanted")
        if wanted.type_class != self.type_class:
            return SchemaCompatibility.incompatible(f"KRYO<{self.type_class}> was written, KRYO<{wanted.type_class}> is wanted")
        parts = [
            _merge(what, old, new_entries)
            for what, old, new_entries in (
                ("default serializer", self.default_serializers, wanted.default_serializers),
                ("default serializer class", self.default_serializer_classes, wanted.default_serializer_classes),
                ("registration", self.registrations, wanted.registrations),
            )
        ]
        return SchemaCompatibility.worst(*parts)


def _merge(what: str, old: tuple[OptionalEntry, ...], new: tuple[OptionalEntry, ...]) -> SchemaCompatibility:
    """Flink's ``LinkedOptionalMap.mergeRightIntoLeft``: old entries keep their places, new ones follow."""
    there = {e.name: e for e in new}
    for entry in old:
        merged = there.get(entry.name, entry)
        if merged.key is None or merged.value is None:
            return SchemaCompatibility.incompatible(
                f"the {what} of {entry.name} can't be loaded any more, and the job has no other"
            )
    ordered = [e.name for e in old] == [e.name for e in new][: len(old)]
    return SchemaCompatibility.compatible_as_is() if ordered else SchemaCompatibility.compatible_with_reconfigured_serializer()


def _registration(name: str, registered: str, serializer: str = "") -> OptionalEntry:
    key, value = DataOutput(), DataOutput()
    key.write_utf(name)
    value.write_utf(registered)
    value.write_int(1 if serializer else 0)
    if serializer:
        value.write_utf(serializer)
    return OptionalEntry(name, key.to_bytes(), value.to_bytes())


def with_first_id(serializer: KryoSerializer, first_id: int) -> KryoSerializer:
    """The same serializer where registrations are numbered from elsewhere on."""
    return KryoSerializer(
        serializer.type_class,
        serializer.registered,
        flink=serializer.flink,
        first_id=first_id,
        snapshot=serializer._snapshot,
    )


register_snapshot(KRYO_SNAPSHOT, KryoSerializerSnapshot)
