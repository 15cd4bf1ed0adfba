"""Values as Kryo writes them: 2.24 in Flink 1.x, 5.6 in Flink 2.x.

The two differ in byte order, in strings, collections, maps and dates; what they share is the framing. Each object is
preceded by its class (a number, or a name that later objects refer to by number) where that does not follow from the place,
and by a reference marker: 0 null, 1 a new object, else an object that was read before.

Nothing in the bytes tells a class that is written field by field from any other, nor how long an object is: a class that is not
known here has to be described with :func:`register_kryo_class`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from state_processor.serializers.basic import without_lone_surrogates
from state_processor.serializers.errors import OptionError, UndecodableValueError, UnsupportedFormatError
from state_processor.serializers.io import DataInput
from state_processor.serializers.java_objects import JavaClass, JavaEnum, JavaInstance, read_java_object
from state_processor.serializers.temporal import Instant, LocalDate, LocalDateTime, LocalTime

KRYO_2: Final = 2
"""Kryo 2.24, of Flink 1.x."""
KRYO_5: Final = 5
"""Kryo 5.6, of Flink 2.x."""

_DAY_MS: Final = 86_400_000
_DEPTH: Final = 100


class BigInteger(int):
    """A ``java.math.BigInteger``, told from the numbers that have a width."""


class KryoMap(tuple[tuple[Any, Any], ...]):
    """Entries of a map in the order of the bytes: a key need not be hashable in Python."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class KryoObject:
    """An object of a registered class: the class, and the fields by name."""

    class_name: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class JavaType:
    """The declared type of a field: a class name as ``Class.getName`` has it (``[I`` for ``int[]``), and type arguments."""

    name: str
    arguments: tuple[JavaType, ...] = ()

    @property
    def component(self) -> str:
        """The class of an array's elements."""
        inner = self.name[1:]
        return _PRIMITIVE_CODES.get(inner) or (inner[1:-1] if inner[0] == "L" else inner)

    @classmethod
    def parse(cls, text: str) -> JavaType:
        """A type as Java source has it, with full class names: ``int[]``, ``java.util.Map<java.lang.String, java.lang.Long>``."""
        parsed, rest = _parse_type(text.replace(" ", ""))
        if rest:
            raise OptionError(f"{text!r} is no Java type: {rest!r} is left over")
        return parsed


_PRIMITIVES: Final = {
    "boolean": "Z",
    "byte": "B",
    "char": "C",
    "short": "S",
    "int": "I",
    "long": "J",
    "float": "F",
    "double": "D",
}
_PRIMITIVE_CODES: Final = {code: name for name, code in _PRIMITIVES.items()}
BOXES: Final = {
    "boolean": "java.lang.Boolean",
    "byte": "java.lang.Byte",
    "char": "java.lang.Character",
    "short": "java.lang.Short",
    "int": "java.lang.Integer",
    "long": "java.lang.Long",
    "float": "java.lang.Float",
    "double": "java.lang.Double",
}
_UNBOXED: Final = {box: name for name, box in BOXES.items()}


def _parse_type(text: str) -> tuple[JavaType, str]:
    end = next((i for i, c in enumerate(text) if c in "<>,["), len(text))
    name, rest = text[:end], text[end:]
    if name.startswith("?"):
        name = "java.lang.Object"
    arguments: list[JavaType] = []
    if rest.startswith("<"):
        while rest[:1] in ("<", ","):
            argument, rest = _parse_type(rest[1:])
            arguments.append(argument)
        if not rest.startswith(">"):
            raise OptionError(f"'>' expected at {rest!r} in a Java type")
        rest = rest[1:]
    if not name:
        raise OptionError(f"a class name expected at {text!r} in a Java type")
    while rest.startswith("[]"):
        name = "[" + (_PRIMITIVES.get(name) or (name if name.startswith("[") else f"L{name};"))
        rest = rest[2:]
    return JavaType(name, tuple(arguments)), rest


# Classes that the user describes


@dataclass(frozen=True, slots=True)
class KryoClass:
    """What is known of a user's class: its fields, an enum's constants, a reader, or nothing of an abstract one."""

    name: str
    fields: tuple[tuple[str, JavaType], ...] = ()
    constants: tuple[str, ...] | None = None
    read: Callable[[KryoReader], Any] | None = None
    abstract: bool = False
    final: bool = False

    @property
    def in_order(self) -> list[tuple[str, JavaType]]:
        """The fields as Kryo's ``FieldSerializer`` writes them."""
        return sorted(self.fields)


_USER_CLASSES: Final[dict[str, KryoClass]] = {}


def user_class(name: str) -> KryoClass | None:
    """The description of a class, or of the enum whose constant's own class this is."""
    found = _USER_CLASSES.get(name)
    if found is None and "$" in name:
        outer, _, number = name.rpartition("$")
        found = _USER_CLASSES.get(outer) if number.isdigit() else None
        if found is not None and found.constants is None:
            return None
    return found


def set_user_class(described: KryoClass) -> None:
    """Make a description known; the last one of a class counts."""
    _USER_CLASSES[described.name] = described


def user_classes() -> tuple[KryoClass, ...]:
    """All descriptions, to take them along to another process."""
    return tuple(_USER_CLASSES.values())


# Classes of the JDK

_COLLECTIONS: Final = {
    f"java.util.{name}"
    for name in [
        "ArrayList",
        "LinkedList",
        "Vector",
        "Stack",
        "ArrayDeque",
        "HashSet",
        "LinkedHashSet",
        "IdentityHashMap$KeySet",
        "Collections$UnmodifiableCollection",
        "Collections$UnmodifiableList",
        "Collections$UnmodifiableRandomAccessList",
        "Collections$UnmodifiableSet",
        "Collections$UnmodifiableSortedSet",
        "Collections$UnmodifiableNavigableSet",
        "Collections$SynchronizedCollection",
        "Collections$SynchronizedList",
        "Collections$SynchronizedRandomAccessList",
        "Collections$SynchronizedSet",
        "Collections$SynchronizedSortedSet",
        "Collections$SetFromMap",
        "Collections$CopiesList",
        "HashMap$KeySet",
        "HashMap$Values",
        "LinkedHashMap$LinkedKeySet",
        "LinkedHashMap$LinkedValues",
        "TreeMap$KeySet",
        "TreeMap$Values",
        "ArrayList$SubList",
        "AbstractList$SubList",
        "AbstractList$RandomAccessSubList",
        "SubList",
        "RandomAccessSubList",
        "concurrent.CopyOnWriteArrayList",
        "concurrent.CopyOnWriteArraySet",
        "concurrent.ConcurrentLinkedQueue",
        "concurrent.ConcurrentLinkedDeque",
        "concurrent.LinkedBlockingQueue",
        "concurrent.LinkedBlockingDeque",
        "concurrent.ConcurrentSkipListSet",
        "concurrent.ConcurrentHashMap$KeySetView",
    ]
}
_COLLECTIONS.add("org.apache.avro.generic.GenericData$Array")
_IMMUTABLE: Final = {f"java.util.ImmutableCollections${name}" for name in ("List12", "ListN", "Set12", "SetN", "SubList")}
_MAPS: Final = {
    f"java.util.{name}"
    for name in [
        "HashMap",
        "LinkedHashMap",
        "Hashtable",
        "Properties",
        "IdentityHashMap",
        "WeakHashMap",
        "EnumMap",
        "concurrent.ConcurrentHashMap",
        "ImmutableCollections$Map1",
        "ImmutableCollections$MapN",
        "Collections$UnmodifiableMap",
        "Collections$UnmodifiableSortedMap",
        "Collections$UnmodifiableNavigableMap",
        "Collections$SynchronizedMap",
        "Collections$SynchronizedSortedMap",
    ]
}
_ORDERED_SETS: Final = {"java.util.TreeSet", "java.util.PriorityQueue"}
_ORDERED_MAPS: Final = {"java.util.TreeMap"}
_OPEN: Final = {
    "java.lang.Object",
    "java.lang.Number",
    "java.lang.Comparable",
    "java.lang.CharSequence",
    "java.lang.Iterable",
    "java.io.Serializable",
    "java.time.ZoneId",
    "java.util.TimeZone",
    "java.util.Calendar",
    "java.util.EnumSet",
}
_COLLECTION_TYPES: Final = {
    f"java.util.{name}"
    for name in [
        "Collection",
        "List",
        "Set",
        "SortedSet",
        "NavigableSet",
        "Queue",
        "Deque",
        "AbstractList",
        "AbstractCollection",
        "AbstractSet",
    ]
}
_MAP_TYPES: Final = {
    f"java.util.{name}" for name in ["Map", "SortedMap", "NavigableMap", "AbstractMap", "concurrent.ConcurrentMap"]
}


def is_collection(name: str) -> bool:
    """Whether a class or interface holds elements one after the other."""
    return name in _COLLECTIONS or name in _IMMUTABLE or name in _ORDERED_SETS or name in _COLLECTION_TYPES


def is_map(name: str) -> bool:
    """Whether a class or interface holds keys and values."""
    return name in _MAPS or name in _ORDERED_MAPS or name in _MAP_TYPES


_FINAL: Final = {
    *BOXES.values(),
    "java.lang.String",
    "java.lang.StringBuilder",
    "java.lang.StringBuffer",
    "java.lang.Class",
    "java.net.URI",
    *(
        f"java.util.{n}"
        for n in ["UUID", "Locale", "Currency", "Optional", "OptionalInt", "OptionalLong", "OptionalDouble", "regex.Pattern"]
    ),
    *(
        f"java.time.{n}"
        for n in [
            "Instant",
            "LocalDate",
            "LocalTime",
            "LocalDateTime",
            "Duration",
            "Period",
            "Year",
            "YearMonth",
            "MonthDay",
            "OffsetDateTime",
            "OffsetTime",
            "ZonedDateTime",
            "ZoneOffset",
        ]
    ),
}


def _is_final(name: str) -> bool:
    if name.startswith("["):
        element = name.lstrip("[")
        return element in _PRIMITIVE_CODES or _is_final(element[1:-1])
    described = _USER_CLASSES.get(name)
    return name in _FINAL or (described is not None and described.final)


# Class numbers

_KRYO_IDS: Final = dict(
    enumerate(
        [
            "java.lang.Integer",
            "java.lang.String",
            *(BOXES[n] for n in ("float", "boolean", "byte", "char", "short", "long", "double")),
        ]
    )
)
_VOID_ID: Final = 9
_CHILL: Final = (
    "java.util.Arrays$ArrayList",
    "java.util.BitSet",
    "java.util.PriorityQueue",
    "java.util.regex.Pattern",
    "java.sql.Date",
    "java.sql.Time",
    "java.sql.Timestamp",
    "java.net.URI",
    "java.net.InetSocketAddress",
    "java.util.UUID",
    "java.util.Locale",
    "java.text.SimpleDateFormat",
)
_FIRST_CHILL_ID: Final = 73
FIRST_USER_ID: Final = _FIRST_CHILL_ID + len(_CHILL)
"""The number of the first registration of a job (Flink: ``FlinkChillPackageRegistrar.getNextRegistrationId``)."""
BARE_FIRST_USER_ID: Final = 10
"""The same where ``flink-runtime`` (before 2.0 ``flink-java``) is not on the class path, as in unit tests of Flink."""


def class_ids(registered: Iterable[str], first_id: int = FIRST_USER_ID) -> dict[int, str]:
    """Class by number: Kryo's own, Flink's, and the registrations of a snapshot in their order.

    Registering a class a second time gives it no second number.
    """
    ids = dict(_KRYO_IDS)
    if first_id == FIRST_USER_ID:
        ids.update(enumerate(_CHILL, _FIRST_CHILL_ID))
    seen = set(ids.values())
    following = first_id
    for name in registered:
        name = BOXES.get(name, name)
        if name not in seen:
            seen.add(name)
            ids[following] = name
            following += 1
    return ids


_CYCLE: Final = object()


@dataclass(slots=True)
class KryoReader:
    """Reads one value with its class (Kryo: ``readClassAndObject``).

    Parameters
    ----------
    source
        Where the value begins.
    version
        :data:`KRYO_2` or :data:`KRYO_5`.
    ids
        Class by number, of :func:`class_ids`.
    custom
        The Kryo serializer of each class that a job gave one of its own.
    """

    source: DataInput
    version: int
    ids: Mapping[int, str]
    custom: Mapping[str, str] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)
    _objects: list[Any] = field(default_factory=list)
    _depth: int = 0

    # Numbers and text

    def varint(self) -> int:
        """A number from 0 to 2^32 - 1 in up to five bytes."""
        return self.source.read_unsigned_varint() & 0xFFFFFFFF

    def int_(self) -> int:
        """A signed int whose sign is its lowest bit."""
        raw = self.varint()
        return raw >> 1 ^ -(raw & 1)

    def positive_int(self) -> int:
        """A signed int written as if it were positive."""
        return _signed(self.varint(), 32)

    def varlong(self) -> int:
        """A number from 0 to 2^64 - 1 in up to nine bytes, the ninth of eight bits."""
        value = 0
        for shift in range(0, 56, 7):
            byte = self.source.read_unsigned_byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        return value | self.source.read_unsigned_byte() << 56

    def long(self) -> int:
        """A signed long whose sign is its lowest bit."""
        raw = self.varlong()
        return raw >> 1 ^ -(raw & 1)

    def positive_long(self) -> int:
        """A signed long written as if it were positive."""
        return _signed(self.varlong(), 64)

    def fixed(self, layout: str) -> Any:
        """A number of fixed width: big-endian in Kryo 2, little-endian in Kryo 5."""
        order = ">" if self.version == KRYO_2 else "<"
        return struct.unpack(order + layout, self.source.read_bytes(struct.calcsize(order + layout), "number"))[0]

    def boolean(self) -> bool:
        """A byte 0 or 1."""
        return self.source.read_boolean()

    def flagged_varint(self) -> tuple[bool, int]:
        """A varint whose first byte holds a flag in its highest bit."""
        first = self.source.read_unsigned_byte()
        value = first & 0x3F
        if first & 0x40:
            value |= self.varint() << 6
        return bool(first & 0x80), value & 0xFFFFFFFF

    def string(self) -> str | None:
        """ASCII whose last character has the highest bit set, or a flagged count + 1 and UTF-8 of each UTF-16 unit."""
        source, start = self.source, self.source.position
        if not source.read_unsigned_byte() & 0x80:
            while not source.read_unsigned_byte() & 0x80:
                pass
            raw = bytearray(source.data[start : source.position])
            raw[-1] &= 0x7F
            return raw.decode("ascii")
        source.position = start
        _, count = self.flagged_varint()
        if count == 0:
            return None
        units = count - 1
        if units > source.remaining:
            raise source.corrupt(f"string of {units} characters announced, {source.remaining} bytes left", start)
        begin = source.position
        for _ in range(units):
            lead = source.read_unsigned_byte()
            if lead >= 0x80:
                source.skip(2 if lead >= 0xE0 else 1, "character")
        try:
            text = bytes(source.data[begin : source.position]).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as problem:
            raise source.corrupt(f"not UTF-8: {problem.reason}", begin) from None
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")

    def text(self) -> str:
        """A string that can't be null."""
        found = self.string()
        if found is None:
            raise self.source.corrupt("a null where text must be")
        return found

    def count(self, what: str, count: int, smallest: int = 1) -> int:
        """A number of elements, checked against what is left."""
        if count < 0 or count * smallest > self.source.remaining:
            raise self.source.corrupt(f"{count} {what} announced, {self.source.remaining} bytes left")
        return count

    # Classes and objects

    def class_(self) -> str | None:
        """The class of the next object; ``None`` where the object is null."""
        start = self.source.position
        number = self.varint()
        if number == 0:
            return None
        if number > 1:
            if number - 2 == _VOID_ID:
                return "java.lang.Void"
            name = self.ids.get(number - 2)
            if name is None:
                raise UnsupportedFormatError(
                    f"{self.source.source}, offset {start}: Kryo's class number {number - 2} is not one of Flink's, nor one "
                    "that the serializer snapshot registers (numbers 10 to 72 are classes of Scala)"
                )
            return name
        index = self.varint()
        if index < len(self._names):
            return self._names[index]
        if index > len(self._names):
            raise self.source.corrupt(f"class name {index} is referred to, {len(self._names)} were read", start)
        self._names.append(self.text())
        return self._names[-1]

    def class_and_object(self, arguments: tuple[JavaType, ...] = ()) -> Any:
        """An object of any class, or null."""
        name = self.class_()
        return None if name is None else self.object(name, arguments, nullable=False)

    def object(self, name: str, arguments: tuple[JavaType, ...] = (), *, nullable: bool) -> Any:
        """An object whose class is known: reference marker and content."""
        if not self._is_referenced(name):
            return None if nullable and self.varint() == 0 else self._content(name, arguments)
        start = self.source.position
        marker = self.varint()
        if marker == 0:
            return None
        if marker > 1:
            if marker - 2 >= len(self._objects):
                raise self.source.corrupt(f"object {marker - 2} is referred to, {len(self._objects)} were read", start)
            found = self._objects[marker - 2]
            if found is _CYCLE:
                raise UndecodableValueError(f"{self.source.source}, offset {start}: a {name} contains itself")
            return found
        self._objects.append(_CYCLE)
        index = len(self._objects) - 1
        value = self._content(name, arguments)
        self._objects[index] = value
        return value

    def _is_referenced(self, name: str) -> bool:
        if name in _UNBOXED:
            return False
        described = user_class(name)
        return self.version == KRYO_2 or described is None or described.constants is None

    def declared(self, type_: JavaType) -> Any:
        """A field's value: a primitive bare, an object of a final class without its class."""
        if type_.name in _PRIMITIVES:
            return _SCALARS[BOXES[type_.name]](self)
        if _is_final(type_.name):
            return self.object(type_.name, type_.arguments, nullable=True)
        return self.class_and_object(type_.arguments)

    def _content(self, name: str, arguments: tuple[JavaType, ...]) -> Any:
        self._depth += 1
        if self._depth > _DEPTH:
            raise UndecodableValueError(f"{self.source.source}, offset {self.source.position}: objects nest deeper than {_DEPTH}")
        value = self._content_of(name, arguments)
        self._depth -= 1
        return value

    def _content_of(self, name: str, arguments: tuple[JavaType, ...]) -> Any:
        described = user_class(name)
        if described is not None and described.read is not None:
            return described.read(self)
        if name in self.custom:
            return self._by_custom_serializer(name, self.custom[name])
        simple = _SCALARS.get(name) or _BY_VERSION[self.version].get(name)
        if simple is not None:
            return simple(self)
        if described is not None:
            return self._user_object(name, described)
        if name == "java.util.Optional":
            inner = arguments[0] if arguments else _ANY
            # A field that is a type variable: Kryo 2 takes it as declared with what the variable stands for.
            return self.declared(inner) if self.version == KRYO_2 else self.class_and_object(inner.arguments)
        if name.startswith("["):
            return self._array(JavaType(name).component)
        if name in _COLLECTIONS or name in _IMMUTABLE or name in _ORDERED_SETS or name == "java.util.Arrays$ArrayList":
            return self._collection(name, arguments)
        if name in _MAPS or name in _ORDERED_MAPS:
            return self._map(name, arguments)
        raise unknown_class(name, f"{self.source.source}, offset {self.source.position}")

    def _by_custom_serializer(self, name: str, serializer: str) -> Any:
        if serializer in _JAVA_SERIALIZERS:
            return _java_value(read_java_object(self.source).content)
        raise UnsupportedFormatError(
            f"{self.source.source}, offset {self.source.position}: a value of class {name}, written by the job's own Kryo "
            f"serializer {serializer}; register_kryo_class({name!r}, reader) takes a function that reads "
            "from a KryoReader what it wrote"
        )

    def fields(self, fields: Iterable[tuple[str, JavaType]]) -> dict[str, Any]:
        """The fields of an object, in the order given."""
        return {name: self.declared(type_) for name, type_ in fields}

    def _user_object(self, name: str, described: KryoClass) -> Any:
        if described.constants is not None:
            start = self.source.position
            ordinal = self.varint() - 1
            if ordinal >= len(described.constants):
                raise self.source.corrupt(f"constant {ordinal} of {name}, which has {len(described.constants)}", start)
            return None if ordinal < 0 else described.constants[ordinal]
        if described.abstract:
            raise unknown_class(name, f"{self.source.source}, offset {self.source.position}")
        values = self.fields(described.in_order)
        return KryoObject(name, {field_name: values[field_name] for field_name, _ in described.fields})

    def _array(self, component: str) -> Any:
        size = self.varint() - 1
        if size < 0:
            return None
        self.count("array elements", size)
        if component == "byte":
            return self.source.read_bytes(size)
        if component in _PRIMITIVES:
            read = _SCALARS[BOXES[component]]
            return [read(self) for _ in range(size)]
        if _is_final(component):
            return [self.object(component, nullable=True) for _ in range(size)]
        return [self.class_and_object() for _ in range(size)]

    def _elements(self, size: int, final: JavaType | None, nested: tuple[JavaType, ...]) -> list[Any]:
        if final is not None:
            return [self.object(final.name, final.arguments, nullable=True) for _ in range(size)]
        return [self.class_and_object(nested) for _ in range(size)]

    def _collection(self, name: str, arguments: tuple[JavaType, ...]) -> Any:
        element = arguments[-1] if arguments else None
        final = element if element is not None and _is_final(element.name) else None
        if self.version == KRYO_2:
            if name in _ORDERED_SETS:
                self.class_and_object()
            size = self.count("collection elements", self.varint())
            if name == "java.util.Arrays$ArrayList":
                self.class_()
                final = None
            return self._elements(size, final, ())
        nulls = name not in _IMMUTABLE
        flag, size = self.flagged_varint() if final is None or nulls else (False, self.varint())
        if size == 0:
            return None
        size = self.count("collection elements", size - 1, 0 if flag else 1)
        if name in _ORDERED_SETS:
            self.class_and_object()
        nested = element.arguments if element is not None else ()
        if final is not None:
            return [self.object(final.name, nested, nullable=flag) for _ in range(size)]
        if not flag or size == 0:
            return self._elements(size, None, nested)
        common = self.class_()
        if common is None:
            return [None] * self._repeated(size)
        has_null = nulls and self.boolean()
        if common in _EMPTY:
            self._repeated(size)
        return [self.object(common, nested, nullable=has_null) for _ in range(size)]

    def _repeated(self, size: int) -> int:
        """A count of elements that take no bytes, kept within reason."""
        if size > 1 << 24:
            raise self.source.corrupt(f"{size} elements without content announced")
        return size

    def _map(self, name: str, arguments: tuple[JavaType, ...]) -> Any:
        if self.version == KRYO_2:
            if name in _ORDERED_MAPS:
                self.class_and_object()
            size = self.varint()
        else:
            size = self.varint() - 1
            if size < 0:
                return None
            if name in _ORDERED_MAPS:
                self.class_and_object()
        self.count("map entries", size, 2)
        key, value = arguments if len(arguments) == 2 else (_ANY, _ANY)
        return KryoMap((self._argument(key), self._argument(value)) for _ in range(size))

    def _argument(self, type_: JavaType) -> Any:
        if _is_final(type_.name):
            return self.object(type_.name, type_.arguments, nullable=True)
        return self.class_and_object(type_.arguments if self.version == KRYO_5 else ())


_ANY: Final = JavaType("java.lang.Object")


def unknown_class(name: str, where: str) -> UnsupportedFormatError:
    """The error for a class that nothing is known of."""
    return UnsupportedFormatError(
        f"{where}: a value of class {name}, which Kryo wrote. Kryo's bytes describe neither fields nor lengths: describe the "
        f"class with register_kryo_class({name!r}, {{'field': 'java.lang.String', …}}), "
        f"an enum with register_kryo_class({name!r}, ['A', 'B', …])"
    )


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


# Values of the JDK's classes

_Read = Callable[[KryoReader], Any]


def _big_integer(reader: KryoReader) -> BigInteger | None:
    size = reader.varint()
    if size == 0:
        return None
    return BigInteger(int.from_bytes(reader.source.read_bytes(size - 1, "big integer"), "big", signed=True))


def _big_decimal(reader: KryoReader) -> Decimal | None:
    unscaled = _big_integer(reader)
    if unscaled is None:
        return None
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -reader.int_()))


def _of_millis(millis: int) -> Instant:
    return Instant(millis // 1000, millis % 1000 * 1_000_000)


def _date(reader: KryoReader) -> Instant:
    return _of_millis(reader.positive_long())


def _sql_date(reader: KryoReader) -> LocalDate:
    return LocalDate.of_epoch_day(reader.positive_long() // _DAY_MS)


def _sql_time(reader: KryoReader) -> str:
    text = str(_of_millis(reader.positive_long() % _DAY_MS))
    return text[text.index("T") + 1 : -1]


def _sql_timestamp(reader: KryoReader) -> Instant:
    return Instant(reader.positive_long() // 1000, reader.positive_int())


def _calendar(reader: KryoReader) -> Instant:
    reader.text()
    value = _of_millis(reader.positive_long())
    reader.boolean()
    reader.positive_int()
    reader.positive_int()
    reader.long()
    return value


def _address(reader: KryoReader) -> str:
    return f"{reader.text()}:{reader.positive_int()}"


def _bits(reader: KryoReader) -> list[int]:
    words = [reader.fixed("Q") for _ in range(reader.count("words of a bit set", reader.varint(), 8))]
    return [64 * i + bit for i, word in enumerate(words) for bit in range(64) if word >> bit & 1]


def _enum_set(reader: KryoReader) -> list[str | None]:
    name = reader.class_()
    described = user_class(name) if name else None
    if described is None or described.constants is None:
        raise unknown_class(str(name), f"{reader.source.source}, offset {reader.source.position}")
    return [reader._user_object(described.name, described) for _ in range(reader.count("enum constants", reader.positive_int()))]


def _class_2(reader: KryoReader) -> str | None:
    name = reader.class_()
    primitive = reader.source.read_byte()
    return _UNBOXED.get(name, name) if name and primitive == 1 else name


def _class_5(reader: KryoReader) -> str | None:
    name = reader.class_()
    return _UNBOXED[name] if name in _UNBOXED and reader.boolean() else name


def _uuid(most: int, least: int) -> str:
    digits = f"{most & (1 << 64) - 1:016x}{least & (1 << 64) - 1:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _pattern_5(reader: KryoReader) -> str | None:
    pattern = reader.string()
    reader.varint()
    return pattern


def _locale_5(reader: KryoReader) -> str:
    return "_".join(part for part in (reader.string(), reader.string(), reader.string()) if part)


_JAVA_SERIALIZERS: Final = {
    "com.esotericsoftware.kryo.serializers.JavaSerializer",
    "org.apache.flink.api.java.typeutils.runtime.kryo.JavaSerializer",
}


def _java_value(content: Any) -> Any:
    """An object in Java serialization as if Kryo had written its fields; what ``writeObject`` added stands under ``@data``."""
    match content:
        case JavaInstance():
            fields = {name: _java_value(value) for name, value in content.fields.items()}
            if content.annotations:
                fields["@data"] = [_java_value(a) for a in content.annotations]
            return KryoObject(content.class_name, fields)
        case JavaEnum():
            return content.constant
        case JavaClass():
            return content.name
        case list():
            return [_java_value(value) for value in content]
    return content


def _java_fields(*names: str) -> _Read:
    """An object in Java serialization, shown as the text of some of its fields."""

    def read(reader: KryoReader) -> str:
        content = read_java_object(reader.source).content
        return "_".join(text for text in (str(content.get(name)) for name in names) if text)

    return read


def _singleton_map(reader: KryoReader) -> KryoMap:
    return KryoMap([(reader.class_and_object(), reader.class_and_object())])


def _optional(layout: Callable[[KryoReader], Any]) -> _Read:
    def read(reader: KryoReader) -> Any:
        return layout(reader) if reader.boolean() else None

    return read


def _optional_field(type_: str) -> _Read:
    def read(reader: KryoReader) -> Any:
        present, value = reader.boolean(), _SCALARS[BOXES[type_]](reader)
        return value if present else None

    return read


def _local_date_5(reader: KryoReader) -> LocalDate:
    return LocalDate(reader.positive_int(), reader.source.read_byte(), reader.source.read_byte())


def _local_time_5(reader: KryoReader) -> LocalTime:
    parts = []
    for _ in range(3):
        part = reader.source.read_byte()
        if part < 0:
            parts.append(~part)
            break
        parts.append(part)
    else:
        return LocalTime(parts[0], parts[1], parts[2], reader.positive_int())
    hour, minute, second = [*parts, 0, 0][:3]
    return LocalTime(hour, minute, second, 0)


def _offset_5(reader: KryoReader) -> str:
    quarters = reader.source.read_byte()
    return _offset_text(reader.fixed("i") if quarters == 127 else quarters * 900)


def _offset_text(seconds: int) -> str:
    if seconds == 0:
        return "Z"
    rest = abs(seconds)
    text = f"{'-' if seconds < 0 else '+'}{rest // 3600:02}:{rest // 60 % 60:02}"
    return text + f":{rest % 60:02}" if rest % 60 else text


def _duration_text(seconds: int, nano: int) -> str:
    """``Duration.toString``."""
    total = seconds * 1_000_000_000 + nano
    if total == 0:
        return "PT0S"
    whole = -(-total // 1_000_000_000) if total < 0 else seconds
    hours, rest = int(math.copysign(abs(whole) // 3600, whole)), abs(whole) % 3600
    minutes, left = rest // 60, abs(total) - (abs(whole) - rest % 60) * 1_000_000_000
    sign = "-" if total < 0 else ""
    text = "PT" + (f"{hours}H" if hours else "") + (f"{sign}{minutes}M" if minutes else "")
    if not left:
        return text
    fraction = f".{left % 1_000_000_000:09}".rstrip("0") if left % 1_000_000_000 else ""
    return f"{text}{sign}{left // 1_000_000_000}{fraction}S"


def _period_text(years: int, months: int, days: int) -> str:
    """``Period.toString``."""
    parts = "".join(f"{n}{unit}" for n, unit in ((years, "Y"), (months, "M"), (days, "D")) if n)
    return f"P{parts or '0D'}"


def _year_text(year: int) -> str:
    return str(LocalDate(year, 1, 1))[:-6]


def _of_fields(build: Callable[..., Any], **fields: str) -> _Read:
    """A class whose fields Kryo 2 writes one by one, in the order of their names."""
    types = tuple((name, JavaType(type_)) for name, type_ in sorted(fields.items()))
    return lambda reader: build(**reader.fields(types))


_SCALARS: Final[dict[str, _Read]] = {
    "java.lang.Boolean": KryoReader.boolean,
    "java.lang.Byte": lambda r: r.source.read_byte(),
    "java.lang.Character": lambda r: chr(r.fixed("H")),
    "java.lang.Short": lambda r: r.fixed("h"),
    "java.lang.Integer": KryoReader.int_,
    "java.lang.Long": KryoReader.long,
    "java.lang.Float": lambda r: r.fixed("f"),
    "java.lang.Double": lambda r: r.fixed("d"),
    "java.lang.String": KryoReader.string,
    "java.lang.Void": lambda r: None,
    "java.lang.StringBuilder": KryoReader.string,
    "java.lang.StringBuffer": KryoReader.string,
    "java.math.BigInteger": _big_integer,
    "java.math.BigDecimal": _big_decimal,
    "java.net.InetSocketAddress": _address,
    "java.net.URI": KryoReader.string,
    "java.sql.Date": _sql_date,
    "java.sql.Time": _sql_time,
    "java.sql.Timestamp": _sql_timestamp,
    "java.util.BitSet": _bits,
    "java.util.Currency": KryoReader.string,
    "java.util.Date": _date,
    "java.util.GregorianCalendar": _calendar,
    "java.util.JumboEnumSet": _enum_set,
    "java.util.RegularEnumSet": _enum_set,
    "java.util.SimpleTimeZone": KryoReader.string,
    "sun.util.calendar.ZoneInfo": KryoReader.string,
    "java.util.Collections$EmptyList": lambda r: [],
    "java.util.Collections$EmptySet": lambda r: [],
    "java.util.Collections$EmptyMap": lambda r: KryoMap(),
    "java.util.Collections$SingletonList": lambda r: [r.class_and_object()],
    "java.util.Collections$SingletonSet": lambda r: [r.class_and_object()],
    "java.util.Collections$SingletonMap": _singleton_map,
    "java.util.Collections$ReverseComparator": lambda r: "reverse order",
    "java.lang.String$CaseInsensitiveComparator": lambda r: "case-insensitive order",
    "java.util.concurrent.atomic.AtomicBoolean": lambda r: bool(r.int_()),
    "java.util.concurrent.atomic.AtomicInteger": KryoReader.int_,
    "java.util.concurrent.atomic.AtomicLong": KryoReader.long,
    "java.text.SimpleDateFormat": _java_fields("pattern"),
}
_EMPTY: Final = {name for name in _SCALARS if "Empty" in name or "Comparator" in name}

_BY_VERSION: Final[dict[int, dict[str, _Read]]] = {
    KRYO_2: {
        "java.lang.Class": _class_2,
        "java.util.UUID": lambda r: _uuid(r.long(), r.long()),
        "java.util.regex.Pattern": KryoReader.string,
        "java.util.Locale": _java_fields("language", "country", "variant"),
        "java.util.OptionalInt": _optional_field("int"),
        "java.util.OptionalLong": _optional_field("long"),
        "java.util.OptionalDouble": _optional_field("double"),
        "java.time.Instant": _of_fields(lambda seconds, nanos: Instant(seconds, nanos), seconds="long", nanos="int"),
        "java.time.LocalDate": _of_fields(
            lambda year, month, day: LocalDate(year, month, day), year="int", month="short", day="short"
        ),
        "java.time.LocalTime": _of_fields(
            lambda hour, minute, second, nano: LocalTime(hour, minute, second, nano),
            hour="byte",
            minute="byte",
            second="byte",
            nano="int",
        ),
        "java.time.LocalDateTime": _of_fields(
            lambda date, time: LocalDateTime(date, time), date="java.time.LocalDate", time="java.time.LocalTime"
        ),
        "java.time.Duration": _of_fields(lambda seconds, nanos: _duration_text(seconds, nanos), seconds="long", nanos="int"),
        "java.time.Period": _of_fields(
            lambda years, months, days: _period_text(years, months, days), years="int", months="int", days="int"
        ),
        "java.time.Year": _of_fields(lambda year: _year_text(year), year="int"),
        "java.time.YearMonth": _of_fields(lambda year, month: f"{_year_text(year)}-{month:02}", year="int", month="int"),
        "java.time.MonthDay": _of_fields(lambda month, day: f"--{month:02}-{day:02}", month="int", day="int"),
        "java.time.ZoneOffset": _of_fields(lambda totalSeconds: _offset_text(totalSeconds), totalSeconds="int"),  # noqa: N803
        "java.time.ZoneRegion": _of_fields(lambda id: id, id="java.lang.String"),
        "java.time.OffsetTime": _of_fields(
            lambda time, offset: f"{time}{offset}", time="java.time.LocalTime", offset="java.time.ZoneOffset"
        ),
        "java.time.OffsetDateTime": _of_fields(
            lambda dateTime, offset: f"{dateTime}{offset}",  # noqa: N803
            dateTime="java.time.LocalDateTime",
            offset="java.time.ZoneOffset",
        ),
        "java.time.ZonedDateTime": _of_fields(
            lambda dateTime, offset, zone: f"{dateTime}{offset}" + (f"[{zone}]" if zone != offset else ""),  # noqa: N803
            dateTime="java.time.LocalDateTime",
            offset="java.time.ZoneOffset",
            zone="java.time.ZoneId",
        ),
    },
    KRYO_5: {
        "java.lang.Class": _class_5,
        "java.util.UUID": lambda r: _uuid(r.fixed("Q"), r.fixed("Q")),
        "java.util.regex.Pattern": _pattern_5,
        "java.util.Locale": _locale_5,
        "java.util.OptionalInt": _optional(lambda r: r.fixed("i")),
        "java.util.OptionalLong": _optional(lambda r: r.fixed("q")),
        "java.util.OptionalDouble": _optional(lambda r: r.fixed("d")),
        "java.net.URL": KryoReader.string,
        "java.time.Instant": lambda r: Instant(r.positive_long(), r.positive_int()),
        "java.time.LocalDate": _local_date_5,
        "java.time.LocalTime": _local_time_5,
        "java.time.LocalDateTime": lambda r: LocalDateTime(_local_date_5(r), _local_time_5(r)),
        "java.time.Duration": lambda r: _duration_text(r.fixed("q"), r.positive_int()),
        "java.time.Period": lambda r: _period_text(r.positive_int(), r.positive_int(), r.positive_int()),
        "java.time.Year": lambda r: _year_text(r.positive_int()),
        "java.time.YearMonth": lambda r: f"{_year_text(r.positive_int())}-{r.source.read_byte():02}",
        "java.time.MonthDay": lambda r: f"--{r.source.read_byte():02}-{r.source.read_byte():02}",
        "java.time.ZoneOffset": _offset_5,
        "java.time.ZoneRegion": KryoReader.string,
        "java.time.OffsetTime": lambda r: f"{_local_time_5(r)}{_offset_5(r)}",
        "java.time.OffsetDateTime": lambda r: f"{LocalDateTime(_local_date_5(r), _local_time_5(r))}{_offset_5(r)}",
        "java.time.ZonedDateTime": lambda r: f"{LocalDateTime(_local_date_5(r), _local_time_5(r))}[{r.text()}]",
    },
}


def is_known(name: str) -> bool:
    """Whether values that are declared to be of a class or interface can be read, whatever JDK class they have."""
    return (
        name in _SCALARS
        or name in _BY_VERSION[KRYO_5]
        or name in _OPEN
        or is_collection(name)
        or is_map(name)
        or name in ("java.util.Arrays$ArrayList", "java.util.Optional")
        or user_class(name) is not None
        or (name.startswith("[") and (JavaType(name).component in _PRIMITIVES or is_known(JavaType(name).component)))
    )


def to_json(value: Any) -> Any:
    """A decoded value in the terms of JSON.

    Collections are arrays; maps are objects where all keys are text, else arrays of [key, value]; objects have their class under
    ``@class``; bytes are hex; big numbers, dates and times, NaN and infinities are text.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return without_lone_surrogates(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, int) and not isinstance(value, BigInteger):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, KryoObject):
        return {"@class": value.class_name, **{name: to_json(v) for name, v in value.fields.items()}}
    if isinstance(value, KryoMap):
        if all(isinstance(k, str) for k, _ in value):
            return {to_json(k): to_json(v) for k, v in value}
        return [[to_json(k), to_json(v)] for k, v in value]
    if isinstance(value, list):
        return [to_json(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    return str(value)


def register_kryo_class(
    class_name: str,
    fields: Mapping[str, Any] | Sequence[str] | Callable[[KryoReader], Any] | None,
    *,
    final: bool | None = None,
) -> None:
    """Describe a class whose values Kryo wrote, so that they can be decoded.

    Parameters
    ----------
    class_name
        The Java class, with ``$`` before nested classes.
    fields
        A mapping: the class's fields, those of its superclasses included, neither static nor transient ones, with the declared
        type of each: Java source with full class names (``"long"``, ``"java.lang.Long"``, ``"java.util.List<java.lang.String>"``,
        ``"int[]"``), or a serializer, where a number stands for the primitive and not its box.
        A sequence: an enum's constants in their order.
        A function: reads what a Kryo serializer of the job's own wrote, and gives values of Python's.
        ``None``: an interface or abstract class, whose subclasses are described too.
    final
        Whether the class is declared ``final``, as records are: Kryo leaves out the class of values in fields of that type.
        Enums are taken as final unless constants have bodies of their own, other classes as not final.

    Raises
    ------
    OptionError
        If a type is none.
    """
    if fields is None:
        set_user_class(KryoClass(class_name, abstract=True))
    elif callable(fields):
        set_user_class(KryoClass(class_name, read=fields, final=bool(final)))
    elif isinstance(fields, Mapping):
        types = tuple((name, _java_type(type_)) for name, type_ in fields.items())
        set_user_class(KryoClass(class_name, types, final=bool(final)))
    else:
        set_user_class(KryoClass(class_name, constants=tuple(fields), final=final is None or final))


def _java_type(type_: Any) -> JavaType:
    if isinstance(type_, str):
        return JavaType.parse(type_)
    from state_processor.serializers.kryo import java_type_of

    return java_type_of(type_)
