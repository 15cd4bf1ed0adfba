"""Writes Java objects as ``ObjectOutputStream`` does: the inverse of :mod:`~state_processor.serializers.java.object_input`.

Only objects of described classes can be written: a stream contains the names, version numbers and fields of classes, and Java
compares them with its own.

``ObjectOutputStream`` omits the fields of a class whose ``writeObject`` does not call ``defaultWriteObject``. The description
still lists the fields, so that parsers of object streams expect them. The data of such a class are blocks of bytes, which
:func:`read_custom_object` reads without a parser of all streams.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from state_processor.serializers.io import DataInput, encode_modified_utf8
from state_processor.serializers.java.object_input import STREAM_HEADER, JavaClass, JavaEnum, JavaInstance, class_name
from state_processor.support.errors import UnsupportedFormatError
from state_processor.support.mappings import index_by_name

_NULL: Final = b"\x70"
_REFERENCE: Final = b"\x71"
_CLASS: Final = b"\x72"
_OBJECT: Final = b"\x73"
_STRING: Final = b"\x74"
_LONG_STRING: Final = b"\x7c"
_ARRAY: Final = b"\x75"
_CLASS_OBJECT: Final = b"\x76"
_BLOCK: Final = b"\x77"
_LONG_BLOCK: Final = b"\x7a"
_BLOCK_SIZE: Final = 1024
_END: Final = b"\x78"
_ENUM: Final = b"\x7e"
_FIRST_HANDLE: Final = 0x7E0000
_LONGEST: Final = 0xFFFF

SERIALIZABLE: Final = 2
WRITES_MORE: Final = 3
"""Flags of a class with ``writeObject``."""
EXTERNAL: Final = 0x0C
"""Flags of a class with ``writeExternal``, whose data are annotations."""
ENUMERATION: Final = 0x12
_WITH_ANNOTATIONS: Final = (WRITES_MORE, EXTERNAL)


@dataclass(frozen=True, slots=True)
class JavaClassDescription:
    """A serializable class as a stream describes it.

    ``fields`` are pairs of type and name in Java's order: primitive types first, then by name. A type is a letter such as ``I``
    (int), or the signature of a class, ``Ljava/util/List;``. ``custom``: ``writeObject`` writes no fields, only what it wants.
    """

    name: str
    uid: int = 1
    fields: tuple[tuple[str, str], ...] = ()
    parent: str = ""
    flags: int = SERIALIZABLE
    custom: bool = False


def _box(name: str, uid: int, type_: str, parent: str = "") -> JavaClassDescription:
    return JavaClassDescription(f"java.lang.{name}", uid, ((type_, "value"),), parent)


NUMBER: Final = "java.lang.Number"
BOX_CLASSES: Final = (
    JavaClassDescription(NUMBER, -8742448824652078965),
    _box("Byte", -7183698231559129828, "B", NUMBER),
    _box("Short", 7515723908773894738, "S", NUMBER),
    _box("Integer", 1360826667806852920, "I", NUMBER),
    _box("Long", 4290774380558885855, "J", NUMBER),
    _box("Float", -2671257302660747028, "F", NUMBER),
    _box("Double", -9172774392245257468, "D", NUMBER),
    _box("Boolean", -3665804199014368530, "Z"),
    _box("Character", 3786198910865385080, "C"),
)
"""Classes of primitive values as objects."""


@dataclass(frozen=True, slots=True, eq=False)
class JavaArray:
    """An array; ``name`` is its class, ``[Ljava.lang.String;`` or ``[B``."""

    name: str
    elements: Sequence[Any]


@dataclass(frozen=True, slots=True)
class JavaText:
    """Text that Java has only once, such as a constant: where it comes again, the stream refers to it."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class JavaList:
    """A ``java.util.ArrayList``."""

    elements: Sequence[Any]


_ARRAY_LIST: Final = JavaClassDescription("java.util.ArrayList", 8683452581122892189, (("I", "size"),), flags=WRITES_MORE)
_BASE: Final = index_by_name((JavaClassDescription("java.lang.Enum", 0, flags=ENUMERATION), _ARRAY_LIST))


def write_java_object(content: Any, classes: Mapping[str, JavaClassDescription]) -> bytes:
    """Return the stream of one object.

    Parameters
    ----------
    content
        A :class:`JavaInstance`, :class:`JavaEnum`, :class:`JavaArray`, :class:`JavaList`, :class:`JavaText`,
        :class:`JavaClass`, a string or ``None``. The annotations of an instance belong to its class with ``writeObject``.
    classes
        Descriptions of all classes that occur, including their superclasses, by name. Enums need no description.

    Raises
    ------
    UnsupportedFormatError
        If a description is missing; the message names the class.
    """
    writer = _Writer(classes)
    writer.value(content)
    return STREAM_HEADER + bytes(writer.out)


class _Writer:
    def __init__(self, classes: Mapping[str, JavaClassDescription]) -> None:
        self.out = bytearray()
        self._described = {**_BASE, **classes}
        self._handles: dict[Any, int] = {}
        self._live_objects: list[Any] = []  # keeps objects alive, so that their ids stay unique

    def value(self, content: Any) -> None:
        """Write an object, or a reference to it if it was written before."""
        if content is None:
            self.out += _NULL
        elif isinstance(content, JavaEnum):
            self._enum(content)
        elif id(content) in self._handles:
            self._refer(id(content))
        elif isinstance(content, JavaText):
            self._constant(content.text)
        elif isinstance(content, str):
            self._string(content)
        elif isinstance(content, JavaInstance):
            self._instance(content)
        elif isinstance(content, JavaList):
            self._list(content)
        elif isinstance(content, JavaArray):
            self._array(content)
        elif isinstance(content, JavaClass):
            self.out += _CLASS_OBJECT
            self._class(content.name)
            self._remember(content)
        else:
            raise UnsupportedFormatError(f"a Java object can't be made of {class_name(content)}")

    def _instance(self, content: JavaInstance) -> None:
        self.out += _OBJECT
        self._class(content.class_name)
        self._remember(content)
        self._fields(content.class_name, content)

    def _fields(self, name: str, content: JavaInstance) -> None:
        description = self._description(name)
        if description.parent:
            self._fields(description.parent, content)
        for type_, field in () if description.custom else description.fields:
            value = content.get(field)
            if type_ in _PRIMITIVES:
                self.out += struct.pack(_PRIMITIVES[type_], ord(value) if type_ == "C" else value)
            else:
                self.value(value)
        if description.flags in _WITH_ANNOTATIONS:
            for annotation in content.annotations:
                if isinstance(annotation, bytes):
                    self._blocks(annotation)
                else:
                    self.value(annotation)
            self.out += _END

    def _blocks(self, data: bytes) -> None:
        for start in range(0, len(data), _BLOCK_SIZE):
            block = data[start : start + _BLOCK_SIZE]
            short = len(block) <= 0xFF
            self.out += _BLOCK + bytes([len(block)]) if short else _LONG_BLOCK + struct.pack(">i", len(block))
            self.out += block

    def _list(self, content: JavaList) -> None:
        count = struct.pack(">i", len(content.elements))
        self.out += _OBJECT
        self._class(_ARRAY_LIST.name)
        self._remember(content)
        self.out += count + _BLOCK + bytes([len(count)]) + count
        for element in content.elements:
            self.value(element)
        self.out += _END

    def _array(self, content: JavaArray) -> None:
        self._described.setdefault(content.name, JavaClassDescription(content.name))
        self.out += _ARRAY
        self._class(content.name)
        self._remember(content)
        self.out += struct.pack(">i", len(content.elements))
        primitive = _PRIMITIVES.get(content.name[1:])
        for element in content.elements:
            if primitive is not None:
                self.out += struct.pack(primitive, element)
            else:
                self.value(element)

    def _enum(self, content: JavaEnum) -> None:
        if content in self._handles:
            self._refer(content)
            return
        description = JavaClassDescription(content.class_name, 0, parent="java.lang.Enum", flags=ENUMERATION)
        self._described.setdefault(content.class_name, description)
        self.out += _ENUM
        self._class(content.class_name)
        self._handle(content)
        self._constant(content.constant)

    def _class(self, name: str) -> None:
        if not name:
            self.out += _NULL
            return
        key = JavaClassDescription, name
        if key in self._handles:
            self._refer(key)
            return
        description = self._description(name)
        self.out += _CLASS + _utf(name) + struct.pack(">q", description.uid)
        self._handle(key)
        self.out += struct.pack(">BH", description.flags, len(description.fields))
        for type_, field in description.fields:
            self.out += type_[:1].encode() + _utf(field)
            if type_ not in _PRIMITIVES:
                self._constant(type_)
        self.out += _END
        self._class(description.parent)

    def _description(self, name: str) -> JavaClassDescription:
        if name not in self._described:
            raise UnsupportedFormatError(f"Java class {name} can't be written")
        return self._described[name]

    def _constant(self, text: str) -> None:
        """Return text that Java shares between objects: names of types and of constants."""
        key = str, text
        if key in self._handles:
            self._refer(key)
        else:
            self._text(text)
            self._handle(key)

    def _string(self, text: str) -> None:
        self._text(text)
        self._handle(object())

    def _text(self, text: str) -> None:
        raw = encode_modified_utf8(text)
        if len(raw) > _LONGEST:
            self.out += _LONG_STRING + struct.pack(">q", len(raw)) + raw
        else:
            self.out += _STRING + struct.pack(">H", len(raw)) + raw

    def _remember(self, content: Any) -> None:
        self._live_objects.append(content)
        self._handle(id(content))

    def _handle(self, key: Any) -> None:
        self._handles[key] = _FIRST_HANDLE + len(self._handles)

    def _refer(self, key: Any) -> None:
        self.out += _REFERENCE + struct.pack(">i", self._handles[key])


_PRIMITIVES: Final = {"B": ">b", "C": ">H", "D": ">d", "F": ">f", "I": ">i", "J": ">q", "S": ">h", "Z": ">?"}


def _utf(text: str) -> bytes:
    raw = encode_modified_utf8(text)
    if len(raw) > _LONGEST:
        raise UnsupportedFormatError(f"a name of {len(raw)} bytes is too long for a Java class; {_LONGEST} bytes are possible")
    return struct.pack(">H", len(raw)) + raw


# Objects whose class writes all of its data itself


def read_custom_object(source: DataInput) -> tuple[str, bytes]:
    """Read an object without superclass and with one sequence of blocks: return its class and the data.

    Raises
    ------
    UnsupportedFormatError
        The object is of another form; the message names the class.
    CorruptSnapshotError
        The bytes are not an object stream.
    """
    start = source.position
    header = source.read_bytes(len(STREAM_HEADER), "header of a Java object")
    if header != STREAM_HEADER or _tag(source) != _OBJECT or _tag(source) != _CLASS:
        raise source.corrupt("not the stream of a Java object", start)
    name = source.read_utf()
    source.skip(8, "serialVersionUID")
    source.skip(1, "flags")
    for _ in range(source.read_unsigned_short()):
        is_primitive = chr(source.read_unsigned_byte()) in _PRIMITIVES
        source.read_utf()
        if not is_primitive:
            _skip_type(source)
    if _tag(source) != _END or _tag(source) != _NULL:
        raise UnsupportedFormatError(f"{source.source}, offset {start}: Java class {name} has a superclass or annotations")
    data = bytearray()
    while (tag := _tag(source)) != _END:
        if tag not in (_BLOCK, _LONG_BLOCK):
            raise UnsupportedFormatError(f"{source.source}, offset {start}: Java class {name} writes more than blocks of bytes")
        size = source.read_unsigned_byte() if tag == _BLOCK else source.read_count("bytes")
        data += source.read_bytes(size, "block")
    return name, bytes(data)


def _tag(source: DataInput) -> bytes:
    return bytes((source.read_unsigned_byte(),))


def _skip_type(source: DataInput) -> None:
    start = source.position
    tag = _tag(source)
    if tag == _STRING:
        source.read_utf()
    elif tag == _REFERENCE:
        source.skip(4, "reference")
    else:
        raise source.corrupt(f"expected the type of a field, found {tag[0]:#x}", start)


def write_custom_object(description: JavaClassDescription, data: bytes) -> bytes:
    """Return the stream that :func:`read_custom_object` reads."""
    return write_java_object(JavaInstance(description.name, annotations=[data]), {description.name: description})
