"""Builder of trees of Java objects from values of columns and from JSON."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from state_processor.serializers.core.time_values import Instant, LocalDate, LocalDateTime, LocalTime
from state_processor.serializers.java.types import ANY, BOXES, PRIMITIVES, JavaType, KryoClass
from state_processor.serializers.json_text import parse_json
from state_processor.serializers.kryo import java_time, jdk, jdk_layouts, layouts
from state_processor.serializers.kryo.classes import BigInteger, KryoMap, KryoObject, Node, unknown_class, user_class
from state_processor.serializers.kryo.columns import shape

CLASS: Final = "@class"
"""The key of the class of an object in JSON."""
VALUE: Final = "@value"
"""The key of the value of an object without fields, next to :data:`CLASS`: ``{"@class": "java.lang.Long", "@value": 1}``."""

_OPTIONAL_NUMBERS: Final = frozenset(f"java.util.Optional{kind}" for kind in ("Int", "Long", "Double"))
_ENUM_SETS: Final = frozenset({"java.util.RegularEnumSet", "java.util.JumboEnumSet"})
_MOST_REGULAR: Final = 64
"""The largest number of constants of an enum with a regular ``EnumSet``."""
_ANYTHING: Final = frozenset(
    f"java.{name}" for name in ("lang.Object", "lang.Number", "lang.Comparable", "lang.CharSequence", "io.Serializable")
)
_CLASSES: Final = (
    (bool, "java.lang.Boolean"),
    (BigInteger, "java.math.BigInteger"),
    (float, "java.lang.Double"),
    (str, "java.lang.String"),
    (bytes, "[B"),
    (Decimal, "java.math.BigDecimal"),
    (uuid.UUID, "java.util.UUID"),
    (LocalDate, "java.time.LocalDate"),
    (LocalTime, "java.time.LocalTime"),
    (LocalDateTime, "java.time.LocalDateTime"),
    (Instant, "java.time.Instant"),
    (datetime, "java.time.Instant"),
    (date, "java.time.LocalDate"),
    (timedelta, "java.time.Duration"),
    (KryoMap, "java.util.HashMap"),
    (Mapping, "java.util.HashMap"),
    (Iterable, "java.util.ArrayList"),
)
"""Java classes by Python class, for values that are declared as any class; the first match counts. Integers are missing: jobs use
``Integer`` and ``Long``, and do not find one if they expect the other."""


@dataclass(frozen=True, slots=True)
class Builder:
    """Builder of the objects that are written."""

    columns: bool  # true if values are from columns, where JSON is text; false if they are parsed JSON

    def declared(self, type_: JavaType, value: Any, inside: frozenset[str] = frozenset()) -> Any:
        """Return the node of a value with a declared type; for a primitive type, its content."""
        name, arguments = type_.name, type_.arguments
        if name in PRIMITIVES:
            if value is None:
                raise ValueError(f"expected a {name}, found null")
            return jdk.TABLE[BOXES[name]].make(value)
        if isinstance(value, Node):
            return value
        if self.columns and value is not None and shape(type_, inside)[0] == "json":
            return _FROM_JSON.declared(type_, parse_json(value) if isinstance(value, str) else value)
        if name == layouts.OPTIONAL:
            return Node(name, self.declared(arguments[0] if arguments else ANY, value, inside))
        if name in _OPTIONAL_NUMBERS:
            return Node(name, None if value is None else jdk.TABLE[name].make(value))
        if value is None:
            return None
        if isinstance(value, KryoObject):
            return _FROM_JSON._of_class(value.class_name, (), value.fields, inside)
        if isinstance(value, Mapping) and CLASS in value and not self.columns:
            rest = {key: part for key, part in value.items() if key != CLASS}
            same = value[CLASS] == name
            return self._of_class(value[CLASS], arguments if same else (), rest[VALUE] if [*rest] == [VALUE] else rest, inside)
        return self._of_class(name, arguments, value, inside)

    def _of_class(self, name: str, arguments: tuple[JavaType, ...], value: Any, inside: frozenset[str]) -> Node:
        described = user_class(name)
        if described is not None:
            return Node(name, self._of_user_class(described, value, inside))
        if name in _ANYTHING:
            return self._of_python(value, inside)
        if name == "java.time.ZoneId":
            zone = java_time.zone_of(value)
            return Node(jdk.zone_class(zone), zone)
        name = layouts.NEW_OF.get(name, name)
        if name.startswith("["):
            return Node(name, self._array(JavaType(JavaType(name).component), value, inside))
        if name in _ENUM_SETS:
            return self._enum_set(name, arguments, value)
        if name in jdk.TABLE:
            return Node(name, jdk.TABLE[name].make(value))
        if name in layouts.COLLECTIONS or name in layouts.SINGLETONS:
            element = arguments[-1] if arguments else ANY
            return Node(name, [self.declared(element, part, inside) for part in _elements(value)])
        if name in layouts.MAPS or name == layouts.SINGLETON_MAP:
            key_type, value_type = arguments if len(arguments) == 2 else (ANY, ANY)
            pairs = value.items() if isinstance(value, Mapping) else _elements(value)
            entries = ((self.declared(key_type, k, inside), self.declared(value_type, v, inside)) for k, v in pairs)
            return Node(name, KryoMap(entries))
        raise unknown_class(name, "a new value")

    def _of_user_class(self, described: KryoClass, value: Any, inside: frozenset[str]) -> Any:
        if described.read is not None:
            return value
        if described.constants is not None:
            if value not in described.constants:
                constants = ", ".join(described.constants)
                raise ValueError(f"expected a constant of {described.name}, found {value!r}; it has: {constants}")
            return value
        if described.abstract:
            raise ValueError(f"{described.name} is abstract: name the class of the object with {CLASS!r}")
        if not isinstance(value, Mapping):
            raise ValueError(f"expected the fields of {described.name}, found {value!r}")
        types = dict(described.fields)
        if value.keys() != types.keys():
            names = sorted(value.keys() ^ types.keys())
            fields, fields_given = ", ".join(types), ", ".join(names)
            raise ValueError(f"expected the fields {fields} of {described.name}; too many or missing: {fields_given}")
        within = inside | {described.name}
        return {name: self.declared(type_, value[name], within) for name, type_ in types.items()}

    def _of_python(self, value: Any, inside: frozenset[str]) -> Node:
        name = next((name for type_, name in _CLASSES if isinstance(value, type_)), "")
        if not name and isinstance(value, int):
            raise ValueError(
                f"{value} may be an Integer or a Long: give type arguments, as in Types.KRYO('java.util.List<java.lang.Long>'), "
                f'or name the class with the number: {{"{CLASS}": "java.lang.Long", "{VALUE}": {value}}}'
            )
        if not name:
            raise ValueError(f"expected a value with a class in Java, found {value!r} ({type(value).__name__})")
        return self._of_class(name, (), value, inside)

    def _array(self, component: JavaType, value: Any, inside: frozenset[str]) -> Any:
        if component.name == "byte":
            return bytes.fromhex(value) if isinstance(value, str) else bytes(value)
        return [self.declared(component, part, inside) for part in _elements(value)]

    def _enum_set(self, name: str, arguments: tuple[JavaType, ...], value: Any) -> Node:
        described = user_class(arguments[0].name) if arguments else None
        if described is None or described.constants is None:
            raise ValueError("expected an EnumSet of a known enum: declare it with a type argument, and describe the enum")
        large = len(described.constants) > _MOST_REGULAR
        constants = [self._of_user_class(described, constant, frozenset()) for constant in _elements(value)]
        return Node("java.util.JumboEnumSet" if large else name, jdk_layouts.EnumSet(described.name, constants))


def _elements(value: Any) -> Iterable[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ValueError(f"expected a list, found {value!r}")
    return value


_FROM_JSON: Final = Builder(columns=False)
FROM_COLUMNS: Final = Builder(columns=True)
