"""Columns of values that Kryo wrote: their Arrow types, and values for them."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

from state_processor.serializers import big_numbers
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core import basic
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kryo.classes import BigInteger, KryoMap, KryoObject, user_class
from state_processor.serializers.kryo.jdk import TEXT, column_of
from state_processor.serializers.kryo.layouts import is_collection, is_map
from state_processor.serializers.kryo.plain_values import to_json
from state_processor.support.doors import registering
from state_processor.support.errors import UndecodableValueError

_INT: Final = JavaType("java.lang.Integer")


_HELD: Final[dict[str, Any]] = {"list": list, "map": KryoMap, "bytes": bytes}
"""Python classes of values, by kind of column."""


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
    strings of JSON in the form of :func:`~state_processor.serializers.kryo.plain_values.to_json`.
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
            return [
                (column_value(parts[0][1], k, options, inside), column_value(parts[1][1], v, options, inside)) for k, v in value
            ]
        case "bytes":
            return value
        case "column":
            return _column(type_).to_column(value, options)
    return basic.without_lone_surrogates(big_numbers.to_text(value) if isinstance(value, BigInteger) else str(value))
