"""Java objects (``ObjectOutputStream``) that are embedded in other data without a length.

A stream is read into a plain tree of names and values. No class is loaded and no code is executed. Callers that support a class
interpret its objects, with :func:`elements` and the fields of :class:`JavaInstance`. The bytes are kept, so that they can be
written again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from state_processor.serializers.io import DataInput
from state_processor.support.errors import UnsupportedFormatError

STREAM_HEADER: Final = b"\xac\xed\x00\x05"


@dataclass(frozen=True, slots=True)
class JavaClass:
    """A ``java.lang.Class``, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class JavaEnum:
    """A constant of an enum."""

    class_name: str
    constant: str


@dataclass(slots=True, eq=False)
class JavaInstance:
    """An object: its class, its fields (including fields of its superclasses) and the data that ``writeObject`` added.

    ``annotations`` holds, in the order of the stream, nested objects and the bytes of primitive data.
    """

    class_name: str
    fields: dict[str, Any] = field(default_factory=dict)
    annotations: list[Any] = field(default_factory=list)

    def get(self, name: str) -> Any:
        """Return a field.

        Raises
        ------
        UnsupportedFormatError
            If the class was written without it: the version of the class is not supported.
        """
        if name not in self.fields:
            raise UnsupportedFormatError(f"Java class {self.class_name} lacks field {name!r}; it has: {', '.join(self.fields)}")
        return self.fields[name]


@dataclass(frozen=True, slots=True)
class JavaObject:
    """A stream of one object: its bytes and its content.

    ``content`` is a :class:`JavaInstance`, :class:`JavaEnum`, :class:`JavaClass`, a string, a list (a Java array) or
    ``None``.
    """

    raw: bytes
    content: Any = field(compare=False)

    @property
    def class_name(self) -> str:
        """The class of the object, for messages."""
        return class_name(self.content)


def read_java_object(source: DataInput) -> JavaObject:
    """Read the object whose stream starts here, up to its last byte.

    Raises
    ------
    CorruptSnapshotError
        If the bytes are not such a stream, or are damaged.
    """
    from state_processor.serializers.java.object_parser import FirstObject, FirstObjectParser  # most snapshots need no parser

    start = source.position
    stream = FirstObject(source.data[start : source.end])
    try:
        contents = FirstObjectParser(stream).run()
        content = _Reader().convert(contents[0])
    except Exception as e:  # damaged bytes make the parser raise errors of any class
        source.position = start + stream.position
        raise source.corrupt(f"the Java object from offset {start} on can't be read: {e or type(e).__name__}") from e
    source.position = start + stream.position
    return JavaObject(bytes(source.data[start : source.position]), content)


def class_name(content: Any) -> str:
    """Return the Java class of a value, for messages."""
    if isinstance(content, JavaInstance | JavaEnum):
        return content.class_name
    if isinstance(content, list):
        return "an array"
    return {JavaClass: "java.lang.Class", str: "java.lang.String", type(None): "null"}.get(type(content), type(content).__name__)


def elements(content: Any) -> list[Any]:
    """Return the elements of a Java array or list.

    Raises
    ------
    UnsupportedFormatError
        If the class of the list is not supported; the message names it.
    """
    if isinstance(content, list):
        return content
    reader = _LISTS.get(content.class_name) if isinstance(content, JavaInstance) else None
    if reader is None:
        raise UnsupportedFormatError(f"Java class {class_name(content)} is not a known class of lists")
    return reader(content)


def _annotated(instance: JavaInstance) -> list[Any]:
    """Read the elements that follow a count, in bytes."""
    return [a for a in instance.annotations if not isinstance(a, bytes)]


def _wrapped(name: str) -> Callable[[JavaInstance], list[Any]]:
    return lambda instance: elements(instance.get(name))


_LISTS: Final[dict[str, Callable[[JavaInstance], list[Any]]]] = {
    "java.util.ArrayList": _annotated,
    "java.util.LinkedList": _annotated,
    "java.util.CollSer": _annotated,  # List.of
    "java.util.Arrays$ArrayList": _wrapped("a"),
    "java.util.Collections$UnmodifiableList": _wrapped("list"),
    "java.util.Collections$UnmodifiableRandomAccessList": _wrapped("list"),
    "java.util.Collections$SingletonList": lambda instance: [instance.get("element")],
    "java.util.Collections$EmptyList": lambda instance: [],
}


class _Reader:
    """Conversion of the parser's objects to the classes of this module; references may be circular."""

    def __init__(self) -> None:
        self._converted: dict[int, Any] = {}

    def convert(self, content: Any) -> Any:
        if content is None or isinstance(content, bool | int | float | str):
            return content
        if id(content) in self._converted:
            return self._converted[id(content)]
        converted = _CONVERT[type(content).__name__](self, content)
        self._converted[id(content)] = converted
        return converted

    def instance(self, content: Any) -> JavaInstance:
        result = JavaInstance(content.classdesc.name)
        self._converted[id(content)] = result
        for values in content.field_data.values():
            result.fields.update((f.name, self.convert(v)) for f, v in values.items())
        for written in content.annotations.values():
            result.annotations += self.all(written)
        return result

    def array(self, content: Any) -> list[Any]:
        result: list[Any] = []
        self._converted[id(content)] = result
        result += self.all(content)
        return result

    def all(self, contents: Sequence[Any]) -> list[Any]:
        return list(map(self.convert, contents))


_CONVERT: Final[dict[str, Callable[[_Reader, Any], Any]]] = {
    "Instance": _Reader.instance,
    "JavaArray": _Reader.array,
    "JavaString": lambda reader, content: content.value,
    "JavaEnum": lambda reader, content: JavaEnum(content.classdesc.name, content.value.value),
    "JavaClass": lambda reader, content: JavaClass(content.classdesc.name),
    "JavaClassDesc": lambda reader, content: JavaClass(content.name),
    "BlockData": lambda reader, content: bytes(content.data),
}
"""Conversions by the parser's classes."""
