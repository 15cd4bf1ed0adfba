"""Columns of values that Kryo wrote: their Arrow types, their plain values and JSON, and trees of objects from them."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.big_numbers import to_text
from state_processor.serializers.core.basic import without_lone_surrogates
from state_processor.serializers.core.time_values import Instant, LocalDate, LocalDateTime, LocalTime
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.java.types import ANY, BOXES, PRIMITIVES, JavaType, KryoClass, class_names
from state_processor.serializers.kryo import java_time, jdk, jdk_layouts, layouts
from state_processor.serializers.kryo.classes import BigInteger, KryoMap, KryoObject, Node, unknown_class, user_class
from state_processor.serializers.kryo.jdk import TEXT, column_of
from state_processor.serializers.kryo.layouts import JavaStream, is_collection, is_map, whole
from state_processor.serializers.text_grammar import parse_json
from state_processor.support.doors import registering
from state_processor.support.errors import UndecodableValueError
from state_processor.support.mappings import map_values, without_keys

CLASS: Final = "@class"
"""The key of the class of an object in JSON."""
VALUE: Final = "@value"
"""The key of the value of an object without fields, next to :data:`CLASS`: ``{"@class": "java.lang.Long", "@value": 1}``."""
_INT: Final = JavaType("java.lang.Integer")
_HELD: Final[dict[str, Any]] = {"list": list, "map": KryoMap, "bytes": bytes}
"""Python classes of values, by kind of column."""


# Plain values


def plain(node: Node | None) -> Any:
    """Return the plain value of a tree of objects: numbers, text, dates, lists, :class:`KryoMap` and :class:`KryoObject`."""
    return _plain_content(node, {}) if node is not None else None


def _plain_content(node: Node, contents: dict[Node, Any]) -> Any:
    if node not in contents:
        contents[node] = _plain(node, contents)
    return contents[node]


def _plain(node: Node, contents: dict[Node, Any]) -> Any:
    def of(part: Any) -> Any:
        return _plain_content(part, contents) if isinstance(part, Node) else part

    content, described = whole(node.content), user_class(node.class_name)
    if described is not None and described.read is not None:
        return content
    row = jdk.TABLE.get(node.class_name)
    if row is not None:
        return None if content is None else row.show(content)
    match content:
        case JavaStream():
            return content.value
        case dict():
            return KryoObject(node.class_name, map_values(of, content))
        case KryoMap():
            return KryoMap((of(key), of(value)) for key, value in content)
        case list():
            return list(map(of, content))
    return of(content)


def to_json(value: Any) -> Any:
    """Return the JSON of a plain value.

    Collections are arrays. Maps are objects if all keys are text, else arrays of [key, value]. Objects have their class under
    ``@class``. Bytes are hex. Big numbers, dates and times, NaN and infinities are text.
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
        return {CLASS: value.class_name, **map_values(to_json, value.fields)}
    if isinstance(value, KryoMap):
        if all(isinstance(k, str) for k, _ in value):
            return {to_json(k): to_json(v) for k, v in value}
        return [[to_json(k), to_json(v)] for k, v in value]
    if isinstance(value, list):
        return list(map(to_json, value))
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    return to_text(value) if isinstance(value, BigInteger) else str(value)


# Columns


def shape(type_: JavaType, inside: frozenset[str] = frozenset()) -> tuple[str, tuple[tuple[str, JavaType], ...]]:
    """Return the kind of column of a declared type, and the types of its parts."""
    name, arguments = type_.name, type_.arguments
    described = user_class(name)
    if described is not None and described.constants is not None:
        return "text", ()
    if described is not None and not described.abstract and described.fields and name not in inside:
        return "struct", described.fields
    column = column_of(name)
    if column is not None:
        return "text" if column == TEXT else "column", ()
    if name == "java.util.BitSet":
        return "list", (("element", _INT),)
    if name == "java.util.Optional" and arguments:
        return shape(arguments[0], inside)
    if name == "[B":
        return "bytes", ()
    if name.startswith("["):
        return "list", (("element", JavaType(type_.component)),)
    if arguments and is_collection(name):
        return "list", (("element", arguments[-1]),)
    if len(arguments) == 2 and is_map(name):
        return "map", (("key", arguments[0]), ("value", arguments[1]))
    return "json", ()


def _column(type_: JavaType) -> TypeSerializer:
    column = column_of(type_.name)
    assert isinstance(column, TypeSerializer)
    return column


def _unwrapped(type_: JavaType) -> JavaType:
    while type_.name == "java.util.Optional" and type_.arguments:
        type_ = type_.arguments[0]
    return type_


def column_type(type_: JavaType, options: DecodeOptions, inside: frozenset[str] = frozenset()) -> pa.DataType:
    """Return the Arrow type of values with a declared type.

    Numbers, dates and points in time have their usual types. Big numbers, times of day, UUIDs, enums and similar types are
    strings. A ``BitSet`` is the list of its set bits. Arrays, and collections and maps with declared type arguments, are
    lists and maps. Described classes are structs. All other types (``Object``, a bare ``List``, a class inside itself) are
    strings of JSON in the form of :func:`to_json`.
    """
    type_ = _unwrapped(type_)
    kind, parts = shape(type_, inside)
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
            return _column(type_).arrow_type(options)
    return pa.string()


def column_value(type_: JavaType, value: Any, options: DecodeOptions, inside: frozenset[str] = frozenset()) -> Any:
    """Return a decoded value for a column of :func:`column_type`."""
    type_ = _unwrapped(type_)
    kind, parts = shape(type_, inside)
    if kind == "json":
        return None if value is None else json.dumps(to_json(value), ensure_ascii=False)
    if value is None:
        return None
    if not isinstance(value, _HELD.get(kind, object)):
        raise UndecodableValueError(f"expected a value of type {type_}, found {value!r}")
    match kind:
        case "struct":
            if not isinstance(value, KryoObject) or value.class_name != type_.name:
                class_name = value.class_name if isinstance(value, KryoObject) else type(value).__name__
                raise UndecodableValueError(
                    f"a value of class {class_name} where {type_.name} is declared: describe {type_.name} with "
                    f"{registering(f'register_kryo_class({type_.name!r}, None)')} to see values of its subclasses as JSON"
                )
            within = inside | {type_.name}
            return {name: column_value(part, value.fields[name], options, within) for name, part in parts}
        case "list":
            return [column_value(parts[0][1], v, options, inside) for v in value]
        case "map":
            entries = []
            for key, part in value:
                key_column = column_value(parts[0][1], key, options, inside)
                entries.append((key_column, column_value(parts[1][1], part, options, inside)))
            return entries
        case "bytes":
            return value
        case "column":
            return _column(type_).to_column(value, options)
    return without_lone_surrogates(to_text(value) if isinstance(value, BigInteger) else str(value))


# Trees of objects from columns and JSON

_OPTIONAL_NUMBERS: Final = frozenset(class_names("java.util.Optional", "Int", "Long", "Double"))
_ENUM_SETS: Final = frozenset({"java.util.RegularEnumSet", "java.util.JumboEnumSet"})
_MOST_REGULAR: Final = 64
"""The largest number of constants of an enum with a regular ``EnumSet``."""
_ANYTHING: Final = frozenset(
    class_names("java.", "lang.Object", "lang.Number", "lang.Comparable", "lang.CharSequence", "io.Serializable")
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
            rest = without_keys(value, (CLASS,))
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
