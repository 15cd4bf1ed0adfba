"""Rows of Paimon: Flink's binary rows. The types are known in metadata of files, and unknown in keys and partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from state_processor.connectors.codecs import Codec, Content
from state_processor.connectors.java import BinaryValue, TimestampData, parse_logical_type
from state_processor.errors import InvalidRowError
from state_processor.serializers import DataInput, DataOutput, RowDataSerializer

# Rows of unknown types

_WORD: Final = 8
_INLINE: Final = 7
_MARK: Final = 0x80
_INT: Final = "INT"
_BIGINT: Final = "BIGINT"
_STRING: Final = "STRING"


def untyped_row(arity: int, body: bytes) -> dict[str, Any]:
    """Return the content of a row whose types are not in the bytes.

    ``row`` has the bytes, ``values`` are guessed: text if a slot refers to text, otherwise an integer. A number that
    needs more than 32 bits is a ``BIGINT``.
    """
    return {"arity": arity, "values": [_value(arity, body, i) for i in range(arity)], "row": body.hex()}


def _header(arity: int) -> int:
    return (arity + 8 + 63) // 64 * _WORD


def _value(arity: int, body: bytes, index: int) -> Content:
    bit = index + 8
    if body[bit // 8] >> bit % 8 & 1:
        return None
    start = _header(arity) + index * _WORD
    slot = body[start : start + _WORD]
    text = _text(body, slot, _header(arity) + arity * _WORD)
    if text is not None:
        return {"type": _STRING, "value": text}
    if not any(slot[4:]):
        return {"type": _INT, "value": int.from_bytes(slot[:4], "little", signed=True)}
    return {"type": _BIGINT, "value": int.from_bytes(slot, "little", signed=True)}


def _text(body: bytes, slot: bytes, fixed: int) -> str | None:
    size = slot[-1] - _MARK
    if 0 <= size <= _INLINE and not any(slot[size:_INLINE]):
        data = slot[:size]
    else:
        size, offset = int.from_bytes(slot[:4], "little"), int.from_bytes(slot[4:], "little")
        if offset < fixed or offset % _WORD or size <= _INLINE or offset + size > len(body):
            return None
        data = body[offset : offset + size]
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def untyped_body(content: Content) -> tuple[int, bytes]:
    """Return the arity and the bytes of such a row; without ``row``, they are made of ``values``."""
    arity = content["arity"]
    if content.get("row") is not None:
        body = bytes.fromhex(content["row"])
        if len(body) < _header(arity) + arity * _WORD:
            raise InvalidRowError(
                f"a row of {arity} fields has at least {_header(arity) + arity * _WORD} bytes, found {len(body)}"
            )
        return arity, body
    values = content["values"]
    if len(values) != arity:
        raise InvalidRowError(f"'arity' is {arity}, but there are {len(values)} values")
    types = [_INT if value is None else value["type"] for value in values]
    fields = [None if value is None else value["value"] for value in values]
    return arity, RowDataSerializer(_row_type([f"f{i} {type_}" for i, type_ in enumerate(types)])).row(fields).data


def _row_type(fields: list[str]) -> Any:
    return parse_logical_type(f"ROW<{', '.join(fields)}>")


@dataclass(frozen=True, slots=True)
class UntypedRow:
    """The number of fields and a row; ``sized``: with their common length before them, else they end with the bytes."""

    sized: bool
    min_size: int = 0

    def read(self, source: DataInput) -> dict[str, Any]:
        start = source.position
        size = source.read_count("bytes") if self.sized else source.remaining
        if size < 4:
            raise source.corrupt(f"{size} bytes are too few for a row", start)
        arity = source.read_int()
        body = source.read_bytes(size - 4, "row")
        if arity < 0 or len(body) < _header(arity) + arity * _WORD:
            raise source.corrupt(f"{len(body)} bytes are too few for a row of {arity} fields", start)
        return untyped_row(arity, body)

    def write(self, content: Content, target: DataOutput) -> None:
        arity, body = untyped_body(content)
        if self.sized:
            target.write_int(4 + len(body))
        target.write_int(arity)
        target.write_bytes(body)


# Rows of known types


@dataclass(frozen=True, slots=True)
class Column:
    """A field of a row: its name, its type of Flink SQL, and how values become content and the reverse."""

    name: str
    type: str
    to_content: Callable[[Any], Content] = lambda value: value
    to_value: Callable[[Content], Any] = lambda content: content


def column_of_bytes(name: str, codec: Codec) -> Column:
    """Return a column of bytes that are content of a codec."""

    def to_content(data: bytes) -> Content:
        source = DataInput(data, name)
        content = codec.read(source)
        if not source.at_end():
            raise source.corrupt(f"{source.remaining} bytes are left over")
        return content

    def to_value(content: Content) -> bytes:
        target = DataOutput()
        codec.write(content, target)
        return target.to_bytes()

    return Column(name, "BYTES", to_content, to_value)


def column_of_hex(name: str) -> Column:
    """Return a column of bytes that are shown in hexadecimal."""
    return Column(name, "BYTES", bytes.hex, bytes.fromhex)


def column_of_time(name: str) -> Column:
    """Return a column of timestamps that are shown in milliseconds."""
    return Column(name, "TIMESTAMP(3)", lambda value: value.millis, TimestampData)


def column_of_row(name: str, *columns: Column) -> Column:
    """Return a column of rows."""
    return Column(
        name, row_text(columns), lambda value: row_content(columns, value), lambda content: row_values(columns, content)
    )


def column_of_array(name: str, element: str) -> Column:
    """Return a column of arrays of numbers or text."""
    return Column(name, f"ARRAY<{element}>", lambda value: list(_plain(value)), list)


def column_of_rows(name: str, *columns: Column) -> Column:
    """Return a column of arrays of rows."""
    return Column(
        name,
        f"ARRAY<{row_text(columns)}>",
        lambda value: [row_content(columns, row) for row in _plain(value)],
        lambda content: [row_values(columns, row) for row in content],
    )


def _plain(value: Any) -> Any:
    return value.content() if isinstance(value, BinaryValue) else value


def row_text(columns: tuple[Column, ...]) -> str:
    """Return the type of rows of some columns."""
    return f"ROW<{', '.join(f'{column.name} {column.type}' for column in columns)}>"


def row_content(columns: tuple[Column, ...], row: Any) -> dict[str, Any]:
    """Return the content of a row."""
    values = zip(columns, _plain(row), strict=True)
    return {column.name: None if value is None else column.to_content(value) for column, value in values}


def row_values(columns: tuple[Column, ...], content: Mapping[str, Any]) -> list[Any]:
    """Return the values of a row."""
    missing = [column.name for column in columns if column.name not in content]
    if missing:
        raise InvalidRowError(f"field {missing[0]!r} is missing; there are {', '.join(map(repr, content))}")
    return [None if content[c.name] is None else c.to_value(content[c.name]) for c in columns]


class TypedRow:
    """A row of known types with its size before it."""

    def __init__(self, *columns: Column) -> None:
        self.columns = columns
        self._serializer = RowDataSerializer(parse_logical_type(row_text(columns)))  # type: ignore[arg-type]
        self.min_size = self._serializer.min_size

    def read(self, source: DataInput) -> dict[str, Any]:
        return row_content(self.columns, self._serializer.read(source))

    def write(self, content: Content, target: DataOutput) -> None:
        self._serializer.write(row_values(self.columns, content), target)
