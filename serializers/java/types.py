"""Java types of fields, and descriptions of classes that Kryo serializes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from state_processor.support.errors import OptionError
from state_processor.support.mappings import inverted

_PRIMITIVES: Final = (
    ("boolean", "Z", "java.lang.Boolean"),
    ("byte", "B", "java.lang.Byte"),
    ("char", "C", "java.lang.Character"),
    ("short", "S", "java.lang.Short"),
    ("int", "I", "java.lang.Integer"),
    ("long", "J", "java.lang.Long"),
    ("float", "F", "java.lang.Float"),
    ("double", "D", "java.lang.Double"),
)
PRIMITIVES: Final = {name: code for name, code, _ in _PRIMITIVES}
"""Letters of primitives in the names of array classes."""
PRIMITIVE_CODES: Final = inverted(PRIMITIVES)
BOXES: Final = {name: box for name, _, box in _PRIMITIVES}
"""Classes of primitives that may be null."""
UNBOXED: Final = inverted(BOXES)


def class_names(prefix: str, *names: str) -> tuple[str, ...]:
    """Return the names of classes that begin with the same package or outer class."""
    return tuple(prefix + name for name in names)


@dataclass(frozen=True, slots=True)
class JavaType:
    """Declared type of a field: the class name of ``Class.getName`` (``[I`` for ``int[]``), and type arguments."""

    name: str
    arguments: tuple[JavaType, ...] = ()

    def __str__(self) -> str:
        return self.name + (f"<{','.join(argument.source for argument in self.arguments)}>" if self.arguments else "")

    @property
    def source(self) -> str:
        """Type in Java source: ``int[]`` for the class ``[I``."""
        return f"{JavaType(self.component).source}[]" if self.name.startswith("[") else str(self)

    @property
    def component(self) -> str:
        """Class of the elements of an array."""
        inner = self.name[1:]
        return PRIMITIVE_CODES.get(inner) or (inner[1:-1] if inner[0] == "L" else inner)

    @classmethod
    def parse(cls, text: str) -> JavaType:
        """Parse a type in Java source, with full class names: ``int[]``, ``java.util.Map<java.lang.String, java.lang.Long>``.

        The name of an array class, ``[I``, is accepted too.
        """
        if text.startswith("["):
            return cls(text)
        parsed, rest = _parse_type(text.replace(" ", ""))
        if rest:
            raise OptionError(f"expected a Java type, found {text!r}: {rest!r} is left over")
        return parsed


ANY: Final = JavaType("java.lang.Object")


def _parse_type(text: str) -> tuple[JavaType, str]:
    end = next((i for i, c in enumerate(text) if c in "<>,["), len(text))
    name, rest = text[:end], text[end:]
    if name.startswith("?"):
        name = ANY.name
    arguments: list[JavaType] = []
    if rest.startswith("<"):
        while rest[:1] in ("<", ","):
            argument, rest = _parse_type(rest[1:])
            arguments.append(argument)
        if not rest.startswith(">"):
            raise OptionError(f"expected '>' at {rest!r} in a Java type")
        rest = rest[1:]
    if not name:
        raise OptionError(f"expected a class name at {text!r} in a Java type")
    while rest.startswith("[]"):
        name = "[" + (PRIMITIVES.get(name) or (name if name.startswith("[") else f"L{name};"))
        rest = rest[2:]
    return JavaType(name, tuple(arguments)), rest


@dataclass(frozen=True, slots=True)
class KryoClass:
    """Description of a user class: its fields, the constants of an enum, a reader and a writer, or an abstract class."""

    name: str
    fields: tuple[tuple[str, JavaType], ...] = ()
    constants: tuple[str, ...] | None = None
    read: Callable[[Any], Any] | None = None
    abstract: bool = False
    final: bool = False
    write: Callable[[Any, Any], None] | None = None

    @property
    def in_order(self) -> list[tuple[str, JavaType]]:
        """Fields in the order of Kryo's ``FieldSerializer``."""
        return sorted(self.fields)
