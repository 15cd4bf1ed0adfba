"""Structs of Thrift in Kryo's bytes, as ``TBaseSerializer`` of chill-thrift writes them: a length, and ``TBinaryProtocol``.

The classes that the Thrift compiler generates for Python describe the fields; the package ``thrift`` is needed to import them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from state_processor.serializers.errors import InvalidRowError, OptionError, UnsupportedFormatError
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kryo.reader import KryoReader
from state_processor.serializers.kryo.user_classes import register_kryo_class
from state_processor.serializers.kryo.writer import KryoWriter

_STOP: Final = 0
_TEXT: Final = 11
_STRUCT: Final = 12
_MAP: Final = 13
_SET: Final = 14
_LIST: Final = 15
_UUID: Final = 16
_BINARY: Final = "BINARY"
_NUMBERS: Final = {3: ">b", 4: ">d", 6: ">h", 8: ">i", 10: ">q"}
_BOOLEAN: Final = 2
_SIZES: Final = {_BOOLEAN: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8, _TEXT: 4, _STRUCT: 1, _MAP: 6, _SET: 5, _LIST: 5, _UUID: 16}
"""The least bytes of a value, by its type."""


def register_thrift(class_name: str, struct_class: Any) -> None:
    """Describe a class of Thrift whose values Kryo wrote with ``TBaseSerializer`` of chill-thrift.

    A column contains the struct as JSON, with the names of the ``.thrift`` file. It lacks fields that are not set. Enumerations
    are numbers. Binary values are hexadecimal digits. Maps whose keys are not text are lists of ``key`` and ``value``.

    Parameters
    ----------
    class_name
        The Java class, with ``$`` before nested classes.
    struct_class
        The class that ``thrift --gen py`` generated for the same struct.

    Raises
    ------
    OptionError
        The class is not such a class.
    """
    if not isinstance(getattr(struct_class, "thrift_spec", None), tuple):
        raise OptionError(f"{struct_class!r} is not a class that thrift --gen py generated: it lacks thrift_spec")
    layout = _Structs(class_name, struct_class)
    register_kryo_class(class_name, layout.read, write=layout.write)


@dataclass(frozen=True, slots=True)
class _Structs:
    """The structs of a class."""

    class_name: str
    struct_class: Any

    def read(self, reader: KryoReader) -> dict[str, Any]:
        """Read a struct as JSON."""
        where = f"{reader.where}, struct {self.class_name}"
        start = reader.source.position
        size = reader.count("bytes of a struct", reader.varint())
        part = DataInput(reader.source.data, where, start, reader.source.position + size)
        part.position = reader.source.position
        found = _read_struct(part, self.struct_class)
        if not part.at_end():
            raise part.corrupt(f"{part.remaining} bytes are left over")
        reader.source.position = part.end
        return found

    def write(self, writer: KryoWriter, value: Any) -> None:
        """Write a struct from JSON."""
        target = DataOutput()
        try:
            _write_struct(value, target, self.struct_class)
        except InvalidRowError:
            raise
        except (TypeError, ValueError, AttributeError, LookupError, struct.error) as error:
            raise InvalidRowError(f"expected a struct {self.class_name}, found {value!r}: {error}") from None
        writer.varint(target.position)
        writer.target.write_bytes(target.to_bytes())


def _fields(struct_class: Any) -> dict[int, tuple[int, str, Any]]:
    """Return type, name and arguments of the fields of a struct, by number."""
    return {field[0]: (field[1], field[2], field[3]) for field in struct_class.thrift_spec if field is not None}


# Reading


def _read_struct(source: DataInput, struct_class: Any) -> dict[str, Any]:
    known, found = _fields(struct_class), {}
    with source.nested("structs"):
        while kind := source.read_byte():
            start = source.position - 1
            number = source.read_short()
            if number not in known:
                raise UnsupportedFormatError(
                    f"{source.source}: a field with number {number} that {struct_class.__name__} lacks; generate the class from "
                    "the version of the .thrift file that the job has"
                )
            expected, name, arguments = known[number]
            if kind != expected:
                raise source.corrupt(f"field {name} has type {kind}, expected {expected}", start)
            found[name] = _read_value(source, kind, arguments)
    return found


def _read_value(source: DataInput, kind: int, arguments: Any) -> Any:
    if kind == _BOOLEAN:
        return source.read_boolean()
    if kind in _NUMBERS:
        return struct.unpack(_NUMBERS[kind], source.read_bytes(_SIZES[kind], "number"))[0]
    if kind == _UUID:
        return str(UUID(bytes=source.read_bytes(16, "UUID")))
    if kind == _TEXT:
        return _read_text(source, arguments)
    if kind == _STRUCT:
        return _read_struct(source, arguments[0])
    if kind == _MAP:
        return _read_map(source, arguments)
    if kind in (_LIST, _SET):
        element = _expect_type(source, arguments[0])
        count = source.read_count("elements", _SIZES[element])
        return [_read_value(source, element, arguments[1]) for _ in range(count)]
    raise source.corrupt(f"type {kind} is not a type of Thrift")


def _read_text(source: DataInput, arguments: Any) -> str:
    start = source.position
    data = source.read_bytes(source.read_count("bytes"), "text")
    if arguments == _BINARY:
        return data.hex()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise source.corrupt(f"not text: {error}", start) from None


def _read_map(source: DataInput, arguments: Any) -> Any:
    key, of_key, value, of_value, *_ = arguments
    types = (_expect_type(source, key, optional=True), _expect_type(source, value, optional=True))
    count = source.read_count("entries", _SIZES[key] + _SIZES[value])
    if count and types != (key, value):
        raise source.corrupt(f"a map has the types {types}, expected {(key, value)}")
    pairs = [(_read_value(source, key, of_key), _read_value(source, value, of_value)) for _ in range(count)]
    if key == _TEXT and of_key != _BINARY:
        return dict(pairs)
    return [{"key": k, "value": v} for k, v in pairs]


def _expect_type(source: DataInput, expected: int, *, optional: bool = False) -> int:
    start, found = source.position, source.read_byte()
    if found != expected and not (optional and found == _STOP):
        raise source.corrupt(f"elements have type {found}, expected {expected}", start)
    return found


# Writing


def _write_struct(value: Mapping[str, Any], target: DataOutput, struct_class: Any) -> None:
    known = sorted(_fields(struct_class).items())
    names = [name for _, (_, name, _) in known]
    for name in value:
        if name not in names:
            raise InvalidRowError(f"the struct {struct_class.__name__} lacks a field {name!r}; it has: {', '.join(names)}")
    for number, (kind, name, arguments) in known:
        if value.get(name) is not None:
            target.write_byte(kind)
            target.write_short(number)
            _write_value(value[name], target, kind, arguments)
    target.write_byte(_STOP)


def _write_value(value: Any, target: DataOutput, kind: int, arguments: Any) -> None:
    if kind in _NUMBERS:
        target.write_bytes(struct.pack(_NUMBERS[kind], value))
    elif kind == _BOOLEAN:
        target.write_boolean(value)
    elif kind in (_LIST, _SET):
        target.write_byte(arguments[0])
        target.write_int(len(value))
        for element in value:
            _write_value(element, target, arguments[0], arguments[1])
    else:
        _WRITERS[kind](value, target, arguments)


def _write_text(value: str, target: DataOutput, arguments: Any) -> None:
    data = bytes.fromhex(value) if arguments == _BINARY else value.encode()
    target.write_int(len(data))
    target.write_bytes(data)


def _write_map(value: Any, target: DataOutput, arguments: Sequence[Any]) -> None:
    key, of_key, of_value_type, of_value, *_ = arguments
    pairs = list(value.items()) if isinstance(value, Mapping) else [(entry["key"], entry["value"]) for entry in value]
    target.write_byte(key)
    target.write_byte(of_value_type)
    target.write_int(len(pairs))
    for k, v in pairs:
        _write_value(k, target, key, of_key)
        _write_value(v, target, of_value_type, of_value)


_WRITERS: Final[Mapping[int, Callable[[Any, DataOutput, Any], None]]] = {
    _TEXT: _write_text,
    _STRUCT: lambda value, target, arguments: _write_struct(value, target, arguments[0]),
    _MAP: _write_map,
    _UUID: lambda value, target, arguments: target.write_bytes(UUID(value).bytes),
}
