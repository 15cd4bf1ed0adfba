"""Layouts of objects in Kryo's bytes: a reader and a writer of the content, and combinators; collections and maps of the JDK."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from state_processor.serializers.java.object_input import JavaClass, JavaEnum, JavaInstance, read_java_object
from state_processor.serializers.java.types import BOXES, PRIMITIVES, JavaType, KryoClass, class_names
from state_processor.serializers.kryo.classes import KryoObject, Node
from state_processor.serializers.kryo.wire import KryoInput, KryoOutput
from state_processor.support.errors import UnsupportedFormatError
from state_processor.support.mappings import map_values


def _of_util(*names: str) -> frozenset[str]:
    return frozenset(class_names("java.util.", *names))


AS_LIST: Final = "java.util.Arrays$ArrayList"
OPTIONAL: Final = "java.util.Optional"
IMMUTABLE: Final = _of_util(*class_names("ImmutableCollections$", "List12", "ListN", "Set12", "SetN", "SubList"))
"""Collections without null elements, as Kryo 5 assumes."""
ORDERED_SETS: Final = _of_util("TreeSet", "PriorityQueue")
"""Collections with a comparator."""
ORDERED_MAPS: Final = _of_util("TreeMap")
COLLECTIONS: Final = (
    _of_util(
        *("ArrayList", "LinkedList", "Vector", "Stack", "ArrayDeque", "HashSet", "LinkedHashSet", "IdentityHashMap$KeySet"),
        *class_names("Collections$Unmodifiable", "Collection", "List", "RandomAccessList", "Set", "SortedSet", "NavigableSet"),
        *class_names("Collections$Synchronized", "Collection", "List", "RandomAccessList", "Set", "SortedSet"),
        *("Collections$SetFromMap", "Collections$CopiesList", "HashMap$KeySet", "HashMap$Values"),
        *("LinkedHashMap$LinkedKeySet", "LinkedHashMap$LinkedValues", "TreeMap$KeySet", "TreeMap$Values"),
        *("ArrayList$SubList", "AbstractList$SubList", "AbstractList$RandomAccessSubList", "SubList", "RandomAccessSubList"),
        *class_names("concurrent.CopyOnWriteArray", "List", "Set"),
        *class_names("concurrent.", "ConcurrentLinkedQueue", "ConcurrentLinkedDeque", "LinkedBlockingQueue"),
        *class_names("concurrent.", "LinkedBlockingDeque", "ConcurrentSkipListSet", "ConcurrentHashMap$KeySetView"),
    )
    | {"org.apache.avro.generic.GenericData$Array", AS_LIST}
    | IMMUTABLE
    | ORDERED_SETS
)
MAPS: Final = (
    _of_util(
        *("HashMap", "LinkedHashMap", "Hashtable", "Properties", "IdentityHashMap", "WeakHashMap", "EnumMap"),
        *("concurrent.ConcurrentHashMap", "ImmutableCollections$Map1", "ImmutableCollections$MapN"),
        *class_names("Collections$Unmodifiable", "Map", "SortedMap", "NavigableMap"),
        *class_names("Collections$Synchronized", "Map", "SortedMap"),
    )
    | ORDERED_MAPS
)
SINGLETONS: Final = _of_util("Collections$SingletonList", "Collections$SingletonSet")
SINGLETON_MAP: Final = "java.util.Collections$SingletonMap"

NEW_OF: Final = {
    **dict.fromkeys(_of_util("Collection", "List", "AbstractList", "AbstractCollection"), "java.util.ArrayList"),
    **dict.fromkeys(_of_util("Set", "AbstractSet"), "java.util.HashSet"),
    **dict.fromkeys(_of_util("SortedSet", "NavigableSet"), "java.util.TreeSet"),
    **dict.fromkeys(_of_util("Queue", "Deque"), "java.util.LinkedList"),
    **dict.fromkeys(_of_util("Map", "AbstractMap"), "java.util.HashMap"),
    **dict.fromkeys(_of_util("SortedMap", "NavigableMap"), "java.util.TreeMap"),
    "java.util.concurrent.ConcurrentMap": "java.util.concurrent.ConcurrentHashMap",
    "java.lang.Iterable": "java.util.ArrayList",
    "java.util.TimeZone": "sun.util.calendar.ZoneInfo",
    "java.util.Calendar": "java.util.GregorianCalendar",
    "java.util.EnumSet": "java.util.RegularEnumSet",
}
"""Classes of new values by the interface or abstract class of the declared field."""

OPEN: Final = frozenset(
    {
        *class_names("java.lang.", "Object", "Number", "Comparable", "CharSequence", "Iterable"),
        "java.io.Serializable",
        "java.time.ZoneId",
        *_of_util("TimeZone", "Calendar", "EnumSet"),
    }
)
"""Types whose values can be of any class of the JDK."""

_COLLECTION_TYPES: Final = _of_util(
    *("Collection", "List", "Set", "SortedSet", "NavigableSet", "Queue", "Deque", "AbstractList", "AbstractCollection"),
    "AbstractSet",
)
_MAP_TYPES: Final = _of_util("Map", "SortedMap", "NavigableMap", "AbstractMap", "concurrent.ConcurrentMap")


def is_collection(name: str) -> bool:
    """Return True for a class or interface of collections of elements."""
    return (name in COLLECTIONS and name != AS_LIST) or name in _COLLECTION_TYPES


def is_map(name: str) -> bool:
    """Return True for a class or interface of maps."""
    return name in MAPS or name in _MAP_TYPES


@dataclass(slots=True)
class ObjectInput(KryoInput, ABC):
    """Input that handles classes and references; layouts read from it."""

    @property
    @abstractmethod
    def where(self) -> str:
        """The position, for messages."""

    @abstractmethod
    def class_(self) -> str | None:
        """Read the class of the next object; ``None`` if the object is null."""

    @abstractmethod
    def constant(self, described: KryoClass) -> str | None:
        """Read a constant of an enum."""

    @abstractmethod
    def fields(self, fields: Iterable[tuple[str, JavaType]]) -> dict[str, Any]:
        """Read the fields of an object, in the order given."""


@dataclass(slots=True)
class ObjectOutput(KryoOutput, ABC):
    """Output that handles classes and references; layouts write to it."""

    @property
    @abstractmethod
    def where(self) -> str:
        """The position, for messages."""

    @abstractmethod
    def class_(self, name: str | None) -> None:
        """Write the class of the next object; ``None`` if the object is null."""

    @abstractmethod
    def constant(self, described: KryoClass, constant: str | None) -> None:
        """Write a constant of an enum."""

    @abstractmethod
    def declared(self, type_: JavaType, value: Any) -> None:
        """Write the value of a field."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Reader and writer of the content of a :class:`~state_processor.serializers.kryo.classes.Node`."""

    read: Callable[[ObjectInput], Any]
    write: Callable[[ObjectOutput, Any], None]


BYTE: Final = Layout(KryoInput.byte, KryoOutput.byte)
BOOLEAN: Final = Layout(KryoInput.boolean, KryoOutput.boolean)
INT: Final = Layout(KryoInput.int_, KryoOutput.int_)
LONG: Final = Layout(KryoInput.long, KryoOutput.long)
POSITIVE_INT: Final = Layout(KryoInput.positive_int, KryoOutput.positive_int)
POSITIVE_LONG: Final = Layout(KryoInput.positive_long, KryoOutput.positive_long)
STRING: Final = Layout(KryoInput.string, KryoOutput.string)
TEXT: Final = Layout(KryoInput.text, KryoOutput.string)
COUNTED: Final = Layout(KryoInput.string, KryoOutput.counted)
CHARACTER: Final = Layout(lambda r: chr(r.fixed("H")), lambda w, v: w.fixed("H", ord(v)))


def fixed(layout: str) -> Layout:
    """Return the layout of a number of fixed width, by its format of ``struct``."""
    return Layout(lambda r: r.fixed(layout), lambda w, v: w.fixed(layout, v))


def nothing(content: Any) -> Layout:
    """Return the layout of a class whose objects are all equal and take zero bytes."""
    return Layout(lambda r: content, lambda w, v: None)


def converted(inner: Layout, build: Callable[[Any], Any], take: Callable[[Any], Any]) -> Layout:
    """Return a layout with its content converted: by ``build`` on reading, by ``take`` on writing."""
    return Layout(lambda r: build(inner.read(r)), lambda w, v: inner.write(w, take(v)))


def sequence(build: Callable[..., Any], *parts: Layout, take: Callable[[Any], Iterable[Any]] = tuple) -> Layout:
    """Return the layout of parts one after the other. ``build`` converts the parts to content, ``take`` converts it back."""

    def write(writer: ObjectOutput, value: Any) -> None:
        for part, item in zip(parts, take(value), strict=True):
            part.write(writer, item)

    return Layout(lambda r: build(*[part.read(r) for part in parts]), write)


def optional(inner: Layout) -> Layout:
    """Return the layout of a boolean and, if it is true, a value."""

    def write(writer: ObjectOutput, value: Any) -> None:
        writer.boolean(value is not None)
        if value is not None:
            inner.write(writer, value)

    return Layout(lambda r: inner.read(r) if r.boolean() else None, write)


# Classes that Kryo 2 writes field by field


class Apart(NamedTuple):
    """A value with the fields that were read for it, because other objects may refer to these fields."""

    whole: Any
    fields: dict[str, Any]


def whole(content: Any) -> Any:
    """Return the content without the fields that are kept with it."""
    return content.whole if isinstance(content, Apart) else content


@dataclass(frozen=True)
class _ByFields:
    """Layout of a class with the fields of a tuple; Kryo writes the fields in the order of their names."""

    build: Callable[..., Any]  # returns the tuple of its fields
    fields: Mapping[str, str]  # names and declared types
    classes: Mapping[type, str]  # the Java class by Python class, for fields that are declared with a superclass
    take: Callable[[Any], Any]  # returns the tuple of a content

    @property
    def in_order(self) -> list[tuple[str, JavaType]]:
        return [(name, JavaType(type_)) for name, type_ in sorted(self.fields.items())]

    def read(self, reader: ObjectInput) -> Any:
        values = reader.fields(self.in_order)
        parts = [values[name] for name in self.fields]
        if None in parts:
            raise reader.source.corrupt(f"expected no null in the fields of {self.build}")
        value = self.build(*[whole(part.content) if isinstance(part, Node) else part for part in parts])
        return Apart(value, values) if any(isinstance(part, Node) for part in parts) else value

    def write(self, writer: ObjectOutput, content: Any) -> None:
        if isinstance(content, Apart):
            fields = content.fields
        else:
            fields = {name: self._part(name, item) for name, item in zip(self.fields, self.take(content), strict=True)}
        for name, type_ in self.in_order:
            writer.declared(type_, fields[name])

    def _part(self, name: str, item: Any) -> Any:
        declared = self.fields[name]
        return item if declared in PRIMITIVES else Node(self.classes.get(type(item), declared), item)


def by_fields(
    build: Callable[..., Any],
    fields: Mapping[str, str],
    classes: Mapping[type, str] | None = None,
    take: Callable[[Any], Any] = tuple,
) -> Layout:
    """Return the layout of a class whose fields Kryo 2 writes one by one; see :class:`_ByFields`."""
    layout = _ByFields(build, fields, classes or {}, take)
    return Layout(layout.read, layout.write)


def optional_field(inner: Layout, absent: Any) -> Layout:
    """Return the layout of ``OptionalInt`` and similar classes in Kryo 2: a boolean, then always a value."""

    def read(reader: ObjectInput) -> Any:
        present, value = reader.boolean(), inner.read(reader)
        return value if present else None

    def write(writer: ObjectOutput, value: Any) -> None:
        writer.boolean(value is not None)
        inner.write(writer, absent if value is None else value)

    return Layout(read, write)


# Java serialization


@dataclass(frozen=True, slots=True)
class JavaStream:
    """An object in Java serialization: its bytes and its value."""

    raw: bytes
    value: Any


def _write_stream(writer: ObjectOutput, stream: Any) -> None:
    if not isinstance(stream, JavaStream):
        raise UnsupportedFormatError("expected a value that was read: new values can't be written in Java serialization")
    writer.target.write_bytes(stream.raw)


def java_stream(value_of: Callable[[Any], Any]) -> Layout:
    """Return the layout of an object in Java serialization; ``value_of`` converts it to a plain value."""

    def read(reader: ObjectInput) -> JavaStream:
        stream = read_java_object(reader.source)
        return JavaStream(stream.raw, value_of(stream.content))

    return Layout(read, _write_stream)


def java_value(content: Any) -> Any:
    """Convert an object in Java serialization to one with fields; data that ``writeObject`` added is in the field ``@data``."""
    match content:
        case JavaInstance():
            fields = map_values(java_value, content.fields)
            if content.annotations:
                fields["@data"] = list(map(java_value, content.annotations))
            return KryoObject(content.class_name, fields)
        case JavaEnum():
            return content.constant
        case JavaClass():
            return content.name
        case list():
            return list(map(java_value, content))
    return content


JAVA_SERIALIZED: Final = java_stream(java_value)

PRIMITIVE_LAYOUTS: Final[dict[str, Layout]] = {
    BOXES["boolean"]: BOOLEAN,
    BOXES["byte"]: BYTE,
    BOXES["char"]: CHARACTER,
    BOXES["short"]: fixed("h"),
    BOXES["int"]: INT,
    BOXES["long"]: LONG,
    BOXES["float"]: fixed("f"),
    BOXES["double"]: fixed("d"),
}
