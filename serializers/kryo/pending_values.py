"""Values that Kryo wrote, while they return from a table to the state that they were read from.

Columns hold less information than the bytes: they omit classes of collections and, in JSON, the width of numbers. An unchanged
value gets its old bytes. Only the second pass of a write has both the rows and the entries of the state. Until then the value is
a :class:`PendingValue`: its column in canonical form and, if it can be encoded, its encoding.

:func:`with_pending_values` returns the type that writes pending values. :class:`PendingEntries` finds the stored values in an
entry of the state, and replaces pending values by bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from state_processor.serializers.big_numbers import to_text
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.templates import ObservedCodec
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.java.types import BOXES, JavaType, class_names
from state_processor.serializers.kryo import jdk, layouts
from state_processor.serializers.kryo.classes import BigInteger, KryoMap, Node
from state_processor.serializers.kryo.columns import column_value, plain, shape, to_json
from state_processor.serializers.kryo.nested_kryo import kryo_parts, with_replacements
from state_processor.serializers.kryo.serializer import Encoding, KryoSerializer, KryoValue
from state_processor.serializers.text_grammar import parse_json
from state_processor.support.doors import spelled
from state_processor.support.errors import UNWRITABLE, InvalidRowError, StateProcessorError, why_unwritable

Columns: TypeAlias = tuple[bytes | str, ...]
"""What identifies the columns of a value: the columns of parts that Kryo wrote, and the bytes between them."""

_EXACT: Final = DecodeOptions(nanos="string")
_SHOWN: Final = 120


class PendingValue(NamedTuple):
    """A value from a table: its column in canonical form, and its encoding or the reason why it can't be encoded."""

    column_text: str
    raw: bytes
    problem: str = ""

    @property
    def text(self) -> str:
        """Shortened form for messages."""
        value = json.loads(self.column_text) if self.column_text else None
        text = value if isinstance(value, str) else self.column_text
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def canonical_text(type_: JavaType, value: Any) -> str:
    """Return the canonical text of a value of a column; it does not depend on the options of reading."""
    return json.dumps(_canonical(type_, value, frozenset()), ensure_ascii=False)


def _canonical(type_: JavaType, value: Any, inside: frozenset[str]) -> Any:
    while type_.name == "java.util.Optional" and type_.arguments:
        type_ = type_.arguments[0]
    kind, parts = shape(type_, inside)
    if value is None:
        return None
    match kind:
        case "json":
            return _canonical_json(value)
        case "bytes":
            return bytes(value).hex()
        case "struct":
            within = inside | {type_.name}
            return [_canonical(part, value[name], within) for name, part in parts]
        case "list":
            return [_canonical(parts[0][1], v, inside) for v in value]
        case "map":
            pairs = value.items() if isinstance(value, Mapping) else value
            return [[_canonical(parts[0][1], k, inside), _canonical(parts[1][1], v, inside)] for k, v in pairs]
    row = jdk.TABLE.get(BOXES.get(type_.name, type_.name))
    value_made = row.make(value) if row is not None else value
    if isinstance(value_made, BigInteger):
        return to_text(value_made)
    return value_made if isinstance(value_made, (bool, int, float)) else str(value_made)


def _canonical_json(value: Any) -> str:
    try:
        return json.dumps(parse_json(value), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)


class PendingCodec(Codec):
    """Codec of pending values, instead of the serializer of a part that Kryo writes."""

    min_size = 12

    def __init__(self, part: KryoSerializer) -> None:
        self.part = part

    def __str__(self) -> str:
        return str(self.part)

    @property
    def writes_null(self) -> bool:
        return self.part.writes_null

    def from_column(self, value: Any) -> PendingValue:
        if isinstance(value, bytes) and not self.part.self_delimiting:
            return PendingValue("", value)
        try:
            text = canonical_text(self.part.declared, value)
        except UNWRITABLE as problem:
            raise InvalidRowError(why_unwritable(problem, self.part, value)) from None
        try:
            return PendingValue(text, self.part.serialize(value))
        except UNWRITABLE as problem:
            return PendingValue(text, b"", why_unwritable(problem, self.part, value))

    def write(self, value: PendingValue | None, target: DataOutput) -> None:
        pending = self.from_column(None) if value is None else value
        for field_ in (
            pending.column_text.encode("utf-8", "surrogatepass"),
            pending.raw,
            pending.problem.encode("utf-8", "replace"),
        ):
            target.write_int(len(field_))
            target.write_bytes(field_)

    def read(self, source: DataInput) -> PendingValue:
        text, raw, problem = (source.read_bytes(source.read_count("bytes of a pending value", 1)) for _ in range(3))
        return PendingValue(text.decode("utf-8", "surrogatepass"), raw, problem.decode())

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.part.arrow_type(options)


@dataclass(frozen=True, slots=True)
class KryoBytes:
    """A part of an entry of the state."""

    column_text: str | None
    value: KryoValue | None
    raw: bytes


@dataclass
class StoredParts:
    """The parts of an entry in their order, by the position of their serializers in the type.

    If the entry can't be read, the parts are empty and ``problem`` is the reason.
    """

    problem: str = ""
    parts_by_position: dict[int, list[KryoBytes]] = field(default_factory=dict)
    place: str = "the state for this key"

    def add(self, position: int, part: KryoBytes) -> None:
        """Add the next part of a serializer."""
        self.parts_by_position.setdefault(position, []).append(part)

    def bytes_for(self, position: int, number: int, pending: PendingValue, serializer: KryoSerializer) -> bytes:
        """Return the bytes for a pending value.

        If a stored part has the same column, return its bytes. The part at the same position comes first; other positions follow,
        because elements of lists may have moved. Otherwise encode the new value with the classes of the part at its position.
        """
        parts = self.parts_by_position.get(position, [])
        before = parts[number] if number < len(parts) else None
        if before is not None and before.column_text == pending.column_text:
            return before.raw
        alike = {part.raw for part in parts if part.column_text == pending.column_text}
        if len(alike) == 1:
            return alike.pop()
        if alike:
            raise InvalidRowError(
                f"{pending.text} matches {len(alike)} different values in {self.place}; leave elements at "
                "their positions to distinguish them"
            )
        if pending.problem and self.problem:
            raise InvalidRowError(f"the value in {self.place} can't be compared with {pending.text}: {self.problem}")
        if pending.problem:
            raise InvalidRowError(
                f"{pending.text} differs from {self.place}, and can't be encoded as new: {pending.problem}; "
                f"declare the content of the part by {spelled('types')} when reading and writing, or leave it unchanged"
            )
        if before is None or before.value is None:
            return pending.raw
        new = serializer.deserialize(pending.raw)
        if new is None:
            return pending.raw
        return serializer.serialize(KryoValue(b"", with_old_classes(new.node, before.value.node), _NEW))


_NEW: Final = Encoding(0, (), 0)
"""An encoding that differs from all others, so that the tree is encoded again."""


def _parts_by_id(type_: Codec, column: str = "") -> dict[int, tuple[str, KryoSerializer]]:
    """Return path and serializer of the parts of a type that Kryo writes, by ``id`` of the serializer."""
    return {id(part): (path, part) for path, part in kryo_parts(type_, column)}


def with_pending_values(type_: Codec) -> Codec:
    """Return the codec of a type with all parts that Kryo writes replaced by pending values."""
    parts = _parts_by_id(type_)
    return with_replacements(type_, {key: PendingCodec(part) for key, (_, part) in parts.items()}) if parts else type_


class PendingEntries:
    """Replacement of pending values in entries by bytes.

    ``type_``: the type of an entry's value. ``column``: its name in messages.
    """

    def __init__(self, type_: Codec, column: str) -> None:
        parts = _parts_by_id(type_, column)
        self._parts = [*parts.values()]
        self._recorded: list[tuple[int, KryoBytes, int, int]] = []
        self._pending: list[tuple[int, int, int, PendingValue]] = []
        recording: dict[int, Codec] = {}
        locating: dict[int, Codec] = {}
        for position, (key, (_, part)) in enumerate(parts.items()):
            recording[key] = ObservedCodec(part, partial(self._record, position, part))
            locating[key] = ObservedCodec(PendingCodec(part), partial(self._locate, position))
        self._stored_type, self._pending_type = with_replacements(type_, recording), with_replacements(type_, locating)

    @property
    def is_empty(self) -> bool:
        """Whether the type lacks values that Kryo writes."""
        return not self._parts

    def parts(self, value: memoryview | bytes) -> StoredParts:
        """Return the parts of an entry of the state; none if its value can't be read."""
        self._recorded.clear()
        try:
            self._stored_type.deserialize(value)
        except StateProcessorError as problem:
            return StoredParts(str(problem))
        parts = StoredParts()
        for position, part, _, _ in self._recorded:
            parts.add(position, part)
        return parts

    def columns_of_stored(self, value: memoryview | bytes) -> Columns | None:
        """Return what identifies the columns of a stored value; ``None`` if a part can't be a column."""
        if self.parts(value).problem:
            return None
        places = [(position, start, end, part.column_text) for position, part, start, end in self._recorded]
        return _columns(value, places)

    def columns_of_new(self, value: memoryview | bytes) -> Columns | None:
        """Return the same for a new value with pending values."""
        self._pending.clear()
        self._pending_type.deserialize(value)
        return _columns(value, [(position, start, end, pending.column_text) for position, start, end, pending in self._pending])

    def _record(self, position: int, part: KryoSerializer, source: DataInput, start: int, value: KryoValue | None) -> None:
        try:
            column = None if value is None else column_value(part.declared, value.value, _EXACT)
            text = canonical_text(part.declared, column)
        except UNWRITABLE:
            text = None  # it can't be a column
        end = source.position
        self._recorded.append((position, KryoBytes(text, value, bytes(source.data[start:end])), start, end))

    def _locate(self, position: int, source: DataInput, start: int, pending: PendingValue) -> None:
        self._pending.append((position, start, source.position, pending))

    def resolved(self, value: memoryview | bytes, parts: StoredParts) -> bytes:
        """Return a new value with pending values replaced by bytes."""
        self._pending.clear()
        self._pending_type.deserialize(value)
        return b"".join(self._pieces(value, parts))

    def _pieces(self, value: memoryview | bytes, parts: StoredParts) -> Iterator[bytes]:
        numbers = [0] * len(self._parts)
        position = 0
        for part_number, start, end, pending in self._pending:
            path, serializer = self._parts[part_number]
            yield bytes(value[position:start])
            try:
                yield parts.bytes_for(part_number, numbers[part_number], pending, serializer)
            except InvalidRowError as problem:
                raise InvalidRowError(f"{path}: {problem}") from None
            numbers[part_number] += 1
            position = end
        yield bytes(value[position:])


def _columns(value: memoryview | bytes, places: Sequence[tuple[int, int, int, str | None]]) -> Columns | None:
    columns: list[bytes | str] = []
    done = 0
    for _, start, end, text in places:
        if text is None:
            return None
        columns += (bytes(value[done:start]), text)
        done = end
    return (*columns, bytes(value[done:]))


_FAMILIES: Final = (layouts.COLLECTIONS | layouts.SINGLETONS, layouts.MAPS | {layouts.SINGLETON_MAP})
_OF_ONE_SIZE: Final = (
    layouts.SINGLETONS
    | {layouts.SINGLETON_MAP, "java.util.Collections$CopiesList"}
    | {*class_names("java.util.ImmutableCollections$", "List12", "ListN", "Set12", "SetN", "SubList", "Map1", "MapN")}
)
"""Classes with a fixed number of elements."""


def with_old_classes(new: Any, old: Any) -> Any:
    """Return a new tree with the classes of an old one, if they can hold the new content; equal subtrees are the old ones."""
    if not isinstance(new, Node) or not isinstance(old, Node):
        return new
    if _text(new) == _text(old):
        return old
    content = _content(new.content, old.content)
    alike = any(new.class_name in family and old.class_name in family for family in _FAMILIES)
    if alike and (old.class_name not in _OF_ONE_SIZE or len(new.content) == len(old.content)):
        return Node(old.class_name, content, old.header)
    return Node(new.class_name, content, new.header)


def _content(new: Any, old: Any) -> Any:
    match new, old:
        case KryoMap(), KryoMap():
            before = {_text(key): (key, value) for key, value in old}
            entries = []
            for key, value in new:
                old_key, old_value = before.get(_text(key), (key, None))
                entries.append((old_key, with_old_classes(value, old_value)))
            return KryoMap(entries)
        case list(), list():
            return [with_old_classes(n, old[i]) if i < len(old) else n for i, n in enumerate(new)]
        case dict(), dict():
            return {name: with_old_classes(n, old.get(name)) for name, n in new.items()}
    return new


def _text(part: Any) -> str:
    return json.dumps(to_json(plain(part) if isinstance(part, Node) else part))
