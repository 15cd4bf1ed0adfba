"""Codecs: parts of a layout that read content from bytes and write it back.

A layout is a composition of codecs. Content consists of dicts, lists, strings, numbers, booleans and ``None``. Binary content is
hexadecimal text, so that all content is valid JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Protocol

from state_processor.serializers.base import TypeSerializerSnapshot, read_versioned_snapshot, write_versioned_snapshot
from state_processor.serializers.core.basic import StringSerializer
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.support.errors import UNWRITABLE, InvalidRowError, StateProcessorError
from state_processor.support.mappings import only_keys


@dataclass(frozen=True, slots=True)
class SnapshotCodec:
    """A serializer snapshot with its class and version (Flink: ``TypeSerializerSnapshot.writeVersionedSnapshot``).

    ``to_content`` describes a snapshot of the class ``kind``; ``build`` returns the one that can be written.
    """

    to_content: Callable[[Any], Content]
    build: Callable[[], TypeSerializerSnapshot]
    kind: type[TypeSerializerSnapshot]
    min_size: int = 6

    def read(self, source: DataInput) -> Content:
        start = source.position
        snapshot = read_versioned_snapshot(source)
        if not isinstance(snapshot, self.kind):
            raise source.corrupt(f"expected a {self.kind.__name__}, found {snapshot.class_name}", start)
        return self.to_content(snapshot)

    def write(self, content: Content, target: DataOutput) -> None:
        data = DataOutput()
        write_versioned_snapshot(self.build(), data)
        usual = self.read(DataInput(data.to_bytes()))
        if usual != only_keys(content, usual):
            raise ValueError(f"only the snapshot {usual!r} can be written")
        target.write_bytes(data.to_bytes())


_CONTROL: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u00([01][0-9a-f])")
_WIDE: Final = re.compile("[\U00010000-\U0010ffff]")


def json_text(value: Any) -> str:
    """Return JSON as Jackson writes it as text: without spaces, and control characters in capital digits."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json_text(key)}:{json_text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, float):
        return _java_number(value)
    text = json.dumps(value, ensure_ascii=False)
    return _CONTROL.sub(lambda match: f"{match[1]}\\u00{match[2].upper()}", text)


def json_bytes_text(value: Any) -> str:
    """Return JSON as Jackson writes it as bytes: characters beyond 16 bits are two escapes."""
    return _WIDE.sub(lambda match: _escapes(ord(match[0]) - 0x10000), json_text(value))


def _escapes(rest: int) -> str:
    return f"\\u{0xD800 + (rest >> 10):04X}\\u{0xDC00 + (rest & 0x3FF):04X}"


def _java_number(value: float) -> str:
    """Return a number as Java's ``Double.toString``."""
    if value != value or value in (float("inf"), float("-inf")):
        return json.dumps(str(value).replace("inf", "Infinity").replace("nan", "NaN"))
    if not value or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f") if "e" in repr(value) else repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    digits_text = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) - 1 + int(exponent)
    return f"{'-' * sign}{digits_text[0]}.{digits_text[1:] or '0'}E{power}"


Content = Any
NOTE: Final = "note"
"""A key of content that is a remark: it is not written."""


class Codec(Protocol):
    """A part of a layout.

    ``min_size`` is the smallest number of bytes. Counts of elements are checked against it before anything is allocated.
    """

    @property
    def min_size(self) -> int:
        """Smallest number of bytes of a value."""

    def read(self, source: DataInput) -> Content:
        """Read content."""

    def write(self, content: Content, target: DataOutput) -> None:
        """Write content: the inverse of :meth:`read`."""


def to_bytes(codec: Codec, content: Content) -> bytes:
    """Return the bytes of content."""
    target = DataOutput()
    codec.write(content, target)
    return target.to_bytes()


def read_all(codec: Codec, source: DataInput) -> Content:
    """Read content that has to fill the rest of the bytes.

    Raises
    ------
    CorruptSnapshotError
        Bytes are left over.
    """
    content = codec.read(source)
    if not source.at_end():
        raise source.corrupt(f"{source.remaining} bytes are left over")
    return content


# Numbers and text


@dataclass(frozen=True, slots=True)
class Integer:
    """A signed big-endian integer."""

    min_size: int

    def read(self, source: DataInput) -> int:
        return int.from_bytes(source.read_bytes(self.min_size, "integer"), "big", signed=True)

    def write(self, content: Content, target: DataOutput) -> None:
        if not isinstance(content, int) or isinstance(content, bool):
            raise TypeError(f"expected an integer, found {content!r}")
        target.write_bytes(content.to_bytes(self.min_size, "big", signed=True))


@dataclass(frozen=True, slots=True)
class Boolean:
    """A byte 0 or 1."""

    min_size: int = 1

    def read(self, source: DataInput) -> bool:
        return source.read_boolean()

    def write(self, content: Content, target: DataOutput) -> None:
        if not isinstance(content, bool):
            raise TypeError(f"expected true or false, found {content!r}")
        target.write_boolean(content)


@dataclass(frozen=True, slots=True)
class Utf:
    """Java's modified UTF-8 with a length of two bytes."""

    min_size: int = 2

    def read(self, source: DataInput) -> str:
        return source.read_utf()

    def write(self, content: Content, target: DataOutput) -> None:
        target.write_utf(_text(content))


@dataclass(frozen=True, slots=True)
class Hex:
    """Bytes with a length before them (without a length codec: all that is left), as lower-case hexadecimal text."""

    size: Codec | None

    @property
    def min_size(self) -> int:
        return self.size.min_size if self.size is not None else 0

    def read(self, source: DataInput) -> str:
        return source.read_bytes(_size(self.size, source)).hex()

    def write(self, content: Content, target: DataOutput) -> None:
        data = bytes.fromhex(_text(content))
        if self.size is not None:
            self.size.write(len(data), target)
        target.write_bytes(data)


@dataclass(frozen=True, slots=True)
class Text:
    """Text with its length in bytes before it (without a length codec: all that is left)."""

    size: Codec | None
    encode: Callable[[str], bytes] = str.encode
    decode: Callable[[bytes], str] = bytes.decode

    @property
    def min_size(self) -> int:
        return self.size.min_size if self.size is not None else 0

    def read(self, source: DataInput) -> str:
        start = source.position
        data = source.read_bytes(_size(self.size, source), "text")
        try:
            text = self.decode(data)
            text.encode()
        except UnicodeError as error:
            raise source.corrupt(f"not text: {error.args[-1]}", start) from None
        return text

    def write(self, content: Content, target: DataOutput) -> None:
        data = self.encode(_text(content))
        if self.size is not None:
            self.size.write(len(data), target)
        target.write_bytes(data)


@dataclass(frozen=True, slots=True)
class FlinkString:
    """A string of Flink. Null is an error."""

    min_size: int = 1

    def read(self, source: DataInput) -> str:
        start = source.position
        text = StringSerializer().read(source)
        if not isinstance(text, str):
            raise source.corrupt("expected text, found null", start)
        return text

    def write(self, content: Content, target: DataOutput) -> None:
        if not isinstance(content, str):
            raise TypeError(f"expected text, found {content!r}")
        StringSerializer().write(content, target)


BYTE: Final = Integer(1)
INT: Final = Integer(4)
LONG: Final = Integer(8)
BOOL: Final = Boolean()
UTF: Final = Utf()
BYTES: Final = Hex(INT)
TEXT: Final = Text(INT)
STRING: Final = FlinkString()


def _text(content: Content) -> str:
    if not isinstance(content, str):
        raise TypeError(f"expected text, found {content!r}")
    return content


def _size(codec: Codec | None, source: DataInput) -> int:
    if codec is None:
        return source.remaining
    start = source.position
    size: int = codec.read(source)
    if not 0 <= size <= source.remaining:
        raise source.corrupt(f"{size} bytes announced, {source.remaining} left", start)
    return size


# Compositions

Chosen = Codec | Callable[[Mapping[str, Any]], Codec]
"""A codec, or a function that returns it for the content of the fields before it."""


def _chosen(part: Chosen, content: Mapping[str, Any]) -> Codec:
    return part if hasattr(part, "read") else part(content)  # type: ignore[return-value, operator]


@dataclass(frozen=True, slots=True)
class Struct:
    """Named fields, one after the other.

    The content of a field without a name is a dict whose entries belong to this struct. Such a field can be a :class:`Constant`,
    a :class:`Mapped` or another struct.
    """

    fields: tuple[tuple[str | None, Chosen], ...]

    @classmethod
    def of(cls, *fields: tuple[str | None, Chosen]) -> Struct:
        """Return a struct of some fields."""
        return cls(fields)

    def __add__(self, struct: Struct) -> Struct:
        return Struct((*self.fields, *struct.fields))

    @property
    def min_size(self) -> int:
        return sum(getattr(part, "min_size", 0) for _, part in self.fields)

    def read(self, source: DataInput) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for name, part in self.fields:
            value = _chosen(part, content).read(source)
            content |= value if name is None else {name: value}
        return content

    def write(self, content: Content, target: DataOutput) -> None:
        if not isinstance(content, Mapping):
            raise TypeError(f"expected fields, found {content!r}")
        for name, part in self.fields:
            codec = _chosen(part, content)
            if name is None:
                codec.write(content, target)
                continue
            if name not in content:
                raise InvalidRowError(f"field {name!r} is missing; there are {', '.join(map(repr, content)) or 'no fields'}")
            with _inside(name):
                codec.write(content[name], target)


class _inside:  # noqa: N801 (a context manager that is used like a function)
    """Names the field in errors about its content."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UNWRITABLE) and not isinstance(error, StateProcessorError):
            raise InvalidRowError(f"field {self._name!r}: {error or type(error).__name__}") from error


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is always the same. It is not part of the content, except under ``name``."""

    codec: Codec
    value: Content
    name: str | None = None

    @property
    def min_size(self) -> int:
        return self.codec.min_size

    def read(self, source: DataInput) -> dict[str, Any]:
        start = source.position
        value = self.codec.read(source)
        if value != self.value:
            raise source.corrupt(f"expected {self.value!r}, found {value!r}", start)
        return {} if self.name is None else {self.name: value}

    def write(self, content: Content, target: DataOutput) -> None:
        self.codec.write(self.value, target)


@dataclass(frozen=True, slots=True)
class Remark:
    """A field of the content without bytes."""

    name: str
    value: Content
    min_size: int = 0

    def read(self, source: DataInput) -> dict[str, Any]:
        return {self.name: self.value}

    def write(self, content: Content, target: DataOutput) -> None:
        """Write nothing."""


@dataclass(frozen=True, slots=True)
class Optional:
    """A value behind a flag, or ``None``. ``present`` is the value of the flag where the value follows."""

    codec: Codec
    flag: Codec = BOOL
    present: Content = True
    absent: Content = False

    @property
    def min_size(self) -> int:
        return self.flag.min_size

    def read(self, source: DataInput) -> Content:
        start = source.position
        flag = self.flag.read(source)
        if flag not in (self.present, self.absent):
            raise source.corrupt(f"expected {self.present!r} or {self.absent!r}, found {flag!r}", start)
        return self.codec.read(source) if flag == self.present else None

    def write(self, content: Content, target: DataOutput) -> None:
        self.flag.write(self.absent if content is None else self.present, target)
        if content is not None:
            self.codec.write(content, target)


@dataclass(frozen=True, slots=True)
class AtEnd:
    """A last field that old releases did not write: ``None`` where the bytes end before it."""

    codec: Codec
    min_size: int = 0

    def read(self, source: DataInput) -> Content:
        return None if source.at_end() else self.codec.read(source)

    def write(self, content: Content, target: DataOutput) -> None:
        if content is not None:
            self.codec.write(content, target)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A number of elements, and the elements."""

    codec: Codec
    count: Codec = INT

    @property
    def min_size(self) -> int:
        return self.count.min_size

    def read(self, source: DataInput) -> list[Any]:
        start = source.position
        count: int = self.count.read(source)
        if count < 0 or count * max(self.codec.min_size, 1) > source.remaining:
            raise source.corrupt(f"{count} elements announced, {source.remaining} bytes left", start)
        return [self.codec.read(source) for _ in range(count)]

    def write(self, content: Content, target: DataOutput) -> None:
        if not isinstance(content, Sequence) or isinstance(content, str):
            raise TypeError(f"expected a list, found {content!r}")
        self.count.write(len(content), target)
        for number, element in enumerate(content):
            with _inside(f"[{number}]"):
                self.codec.write(element, target)


@dataclass(frozen=True, slots=True)
class Framed:
    """A value with its length in bytes before it; ``empty`` is the content where the length is 0, if that has a meaning."""

    codec: Codec
    size: Codec = INT
    empty_is_null: bool = False

    @property
    def min_size(self) -> int:
        return self.size.min_size

    def read(self, source: DataInput) -> Content:
        size = _size(self.size, source)
        if self.empty_is_null and not size:
            return None
        part = source.slice(source.position, source.position + size)
        content = read_all(self.codec, part)
        source.position += size
        return content

    def write(self, content: Content, target: DataOutput) -> None:
        data = b"" if self.empty_is_null and content is None else to_bytes(self.codec, content)
        self.size.write(len(data), target)
        target.write_bytes(data)


@dataclass(frozen=True, slots=True)
class Mapped:
    """Content in another form than its codec has it."""

    codec: Codec
    after_reading: Callable[[Any], Content]
    before_writing: Callable[[Content], Any]

    @property
    def min_size(self) -> int:
        return self.codec.min_size

    def read(self, source: DataInput) -> Content:
        start = source.position
        content = self.codec.read(source)
        try:
            return self.after_reading(content)
        except StateProcessorError as error:
            raise source.corrupt(str(error), start) from error
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise source.corrupt(f"{error or type(error).__name__}", start) from error

    def write(self, content: Content, target: DataOutput) -> None:
        self.codec.write(self.before_writing(content), target)
