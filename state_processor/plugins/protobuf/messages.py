"""Messages of Protocol Buffers as columns: structs with the fields of the ``.proto`` file.

The package ``protobuf`` parses messages and descriptors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from typing import Any, Final

import pyarrow as pa

from state_processor.errors import InvalidRowError, OptionError, UnsupportedFormatError
from state_processor.serializers.extension import require

_UNSIGNED: Final = pa.decimal128(20, 0)


def message_class(message: Any, descriptor_set: bytes | None = None) -> Any:
    """Return the Python class of a message.

    ``message``: the class itself, or with ``descriptor_set`` the full name of the message (``"acme.Order"``). ``descriptor_set``:
    the content of a file of ``protoc --include_imports --descriptor_set_out=FILE``.
    """
    require("google.protobuf", "protobuf", "messages of Protocol Buffers")
    try:
        generated = message if descriptor_set is None else _class_of(descriptor_set, message)
        generated.DESCRIPTOR.full_name  # noqa: B018 - an attribute of generated classes
    except Exception as error:  # of protobuf, for a name or a set that it does not accept
        problem = "is not a class that protoc generated" if descriptor_set is None else "is not in the descriptor set"
        raise OptionError(f"the message {message!r} {problem}: {error}") from None
    return generated


@cache
def _class_of(descriptor_set: bytes, name: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    waiting = {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file}
    while waiting:
        ready = [file for file in waiting.values() if not any(dependency in waiting for dependency in file.dependency)]
        if not ready:
            raise ValueError(f"the files {', '.join(waiting)} import each other")
        for file in ready:
            pool.Add(waiting.pop(file.name))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def arrow_type(descriptor: Any) -> pa.DataType:
    """Return the type of a column of messages; text (JSON) for a message that contains itself."""
    if _is_recursive(descriptor, ()):
        return pa.string()
    return pa.struct([(field.name, _field_type(field)) for field in descriptor.fields])


def _is_recursive(descriptor: Any, above: tuple[str, ...]) -> bool:
    if descriptor.full_name in above:
        return True
    inside = (field.message_type for field in descriptor.fields if field.message_type is not None)
    return any(_is_recursive(inner, (*above, descriptor.full_name)) for inner in inside)


def _field_type(field: Any) -> pa.DataType:
    if _is_map(field):
        key, value = field.message_type.fields
        return pa.map_(_single_type(key), _single_type(value))
    single = _single_type(field)
    return pa.list_(single) if _is_repeated(field) else single


def _single_type(field: Any) -> pa.DataType:
    if field.message_type is not None:
        return arrow_type(field.message_type)
    return _types()[field.type]


@cache
def _types() -> Mapping[int, pa.DataType]:
    """Return the types of columns by the types of fields."""
    from google.protobuf.descriptor import FieldDescriptor as F

    return {
        **dict.fromkeys((F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32), pa.int32()),
        **dict.fromkeys((F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64, F.TYPE_UINT32, F.TYPE_FIXED32), pa.int64()),
        **dict.fromkeys((F.TYPE_UINT64, F.TYPE_FIXED64), _UNSIGNED),
        **dict.fromkeys((F.TYPE_STRING, F.TYPE_ENUM), pa.string()),
        F.TYPE_BYTES: pa.binary(),
        F.TYPE_BOOL: pa.bool_(),
        F.TYPE_FLOAT: pa.float32(),
        F.TYPE_DOUBLE: pa.float64(),
    }


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _is_repeated(field: Any) -> bool:
    """Return whether a field has many values; versions of protobuf before 6.31 lack the attribute."""
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


# Bytes to columns


def parsed(message_type: Any, data: bytes, context: str) -> Any:
    """Return the message in some bytes."""
    from google.protobuf.message import DecodeError

    name = message_type.DESCRIPTOR.full_name
    try:
        message = message_type.FromString(data)
    except DecodeError as error:
        raise UnsupportedFormatError(f"{context}: not a message {name}: {error}") from None
    unknown = next(_unknown_fields(message, name), None)
    if unknown is not None:
        raise UnsupportedFormatError(f"{context}: {unknown}; use the version of the .proto file that the job has")
    return message


def _unknown_fields(message: Any, path: str) -> Iterator[str]:
    """Yield descriptions of the fields that a message has and its class lacks."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    for unknown in UnknownFieldSet(message):
        yield f"the message {path} has a field with number {unknown.field_number} that its description lacks"
    for field, value in message.ListFields():
        if field.message_type is not None:
            inside = value.values() if _is_map(field) else value if _is_repeated(field) else [value]
            for inner in inside:
                if hasattr(inner, "ListFields"):
                    yield from _unknown_fields(inner, f"{path}.{field.name}")


def to_column(message: Any) -> Any:
    """Return a message as a column of :func:`arrow_type` has it."""
    from google.protobuf import json_format

    if _is_recursive(message.DESCRIPTOR, ()):
        return json_format.MessageToJson(message, preserving_proto_field_name=True, indent=None)
    return {field.name: _field_value(message, field) for field in message.DESCRIPTOR.fields}


def _field_value(message: Any, field: Any) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if _is_map(field):
        of_value = field.message_type.fields_by_name["value"]
        return [(key, _single_value(of_value, value[key])) for key in sorted(value)]
    return [_single_value(field, v) for v in value] if _is_repeated(field) else _single_value(field, value)


def _single_value(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return to_column(value)
    if field.enum_type is not None:
        constant = field.enum_type.values_by_number.get(value)
        return str(value) if constant is None else constant.name
    return Decimal(value) if _types()[field.type] == _UNSIGNED else value


# Columns to bytes


def from_column(message_type: Any, value: Any) -> bytes:
    """Return the bytes of a message from a column's value."""
    name = message_type.DESCRIPTOR.full_name
    try:
        message = message_type()
        _fill(message, value)
        return bytes(message.SerializeToString(deterministic=True))
    except InvalidRowError:
        raise
    except Exception as error:  # of protobuf, for values that a field does not accept
        raise InvalidRowError(f"expected a message {name}, found {value!r}: {error}") from None


def _fill(message: Any, value: Any) -> None:
    from google.protobuf import json_format

    if isinstance(value, str) and _is_recursive(message.DESCRIPTOR, ()):
        json_format.ParseDict(json.loads(value), message)
        return
    fields = message.DESCRIPTOR.fields_by_name
    for unknown in (name for name in value if name not in fields):
        names = ", ".join(fields)
        raise InvalidRowError(f"the message {message.DESCRIPTOR.full_name} lacks a field {unknown!r}; it has: {names}")
    for name, part in value.items():
        if part is not None:
            _set(message, fields[name], part)


def _set(message: Any, field: Any, value: Any) -> None:
    if _is_map(field):
        _set_map(getattr(message, field.name), field, value)
    elif _is_repeated(field):
        target = getattr(message, field.name)
        for element in value:
            if field.message_type is not None:
                _fill(target.add(), element)
            else:
                target.append(_scalar(field, element))
    elif field.message_type is not None:
        target = getattr(message, field.name)
        target.SetInParent()
        _fill(target, value)
    else:
        setattr(message, field.name, _scalar(field, value))


def _set_map(target: Any, field: Any, value: Any) -> None:
    of_key, of_value = field.message_type.fields
    for key, part in value.items() if isinstance(value, Mapping) else value:
        if of_value.message_type is not None:
            _fill(target[_scalar(of_key, key)], part)
        else:
            target[_scalar(of_key, key)] = _scalar(of_value, part)


def _scalar(field: Any, value: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        constant = field.enum_type.values_by_name.get(value)
        return int(value) if constant is None else constant.number
    return int(value) if isinstance(value, Decimal) else value
