"""Parts that Kryo wrote, on their way from a table back into the state that they were read from.

A table shows less of such a part than its bytes hold: not the classes of collections, of numbers in JSON not even the width. A
part that nobody changed gets the bytes that it had. That is found out where the rows of the table meet the entries of the state,
and until then the part is a :class:`Draft`: what the table shows of it and, if it can be encoded at all, its encoding.

:func:`drafting` makes the type that writes drafts; :class:`DraftedEntries` finds the parts in an entry of the state, and puts
their bytes in the place of drafts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.big_numbers import to_text
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import UNWRITABLE, InvalidRowError, StateProcessorError
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kryo import containers, jdk
from state_processor.serializers.kryo.columns import column_value, shape
from state_processor.serializers.kryo.nested_kryo import kryo_parts, replaced
from state_processor.serializers.kryo.plain_values import plain, to_json
from state_processor.serializers.kryo.serializer import Encoding, KryoSerializer, KryoValue
from state_processor.serializers.kryo.types import BOXES, JavaType
from state_processor.serializers.kryo.values import BigInteger, KryoMap, Node

_EXACT: Final = DecodeOptions(nanos="string")
_SHOWN: Final = 120


class Draft(NamedTuple):
    """A part as a table has it: what it shows, and its encoding, or why there is none."""

    shown: str
    raw: bytes
    problem: str = ""

    @property
    def text(self) -> str:
        """What messages say of it."""
        value = json.loads(self.shown) if self.shown else None
        text = value if isinstance(value, str) else self.shown
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def shown(type_: JavaType, value: Any) -> str:
    """Return a column's value as text that is the same for the same value, whichever way options had it read."""
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
    made = row.make(value) if row is not None else value
    if isinstance(made, BigInteger):
        return to_text(made)
    return made if isinstance(made, (bool, int, float)) else str(made)


def _canonical_json(value: Any) -> str:
    try:
        return json.dumps(json.loads(value), ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)


class DraftingSerializer(TypeSerializer):
    """Writes drafts in the place of a part that Kryo writes.

    Parameters
    ----------
    part
        The serializer of the part.
    """

    smallest = 12

    def __init__(self, part: KryoSerializer) -> None:
        self.part = part

    def __str__(self) -> str:
        return str(self.part)

    @property
    def writes_null(self) -> bool:
        return self.part.writes_null

    def accept(self, value: Any) -> Draft:
        if isinstance(value, bytes) and not self.part.can_find_end:
            return Draft("", value)
        try:
            text = shown(self.part.declared, value)
        except UNWRITABLE as problem:
            raise InvalidRowError(f"no value of {self.part} ({problem})") from None
        try:
            return Draft(text, self.part.serialize(value))
        except UNWRITABLE as problem:
            return Draft(text, b"", str(problem))

    def write(self, value: Draft | None, target: DataOutput) -> None:
        draft = self.accept(None) if value is None else value
        for field_ in (draft.shown.encode("utf-8", "surrogatepass"), draft.raw, draft.problem.encode("utf-8", "replace")):
            target.write_int(len(field_))
            target.write_bytes(field_)

    def read(self, source: DataInput) -> Draft:
        text, raw, problem = (source.read_bytes(source.read_count("bytes of a draft", 1)) for _ in range(3))
        return Draft(text.decode("utf-8", "surrogatepass"), raw, problem.decode())

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.part.arrow_type(options)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self.part.snapshot()


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an entry of the state."""

    shown: str | None
    value: KryoValue | None
    raw: bytes


@dataclass
class Parts:
    """The parts of an entry, by the position of their serializers in the type, in the order in which they come.

    ``problem`` tells why there are none where the entry can't be read.
    """

    problem: str = ""
    found: dict[int, list[Part]] = field(default_factory=dict)

    def add(self, position: int, part: Part) -> None:
        """Add the next one of a serializer."""
        self.found.setdefault(position, []).append(part)

    def bytes_for(self, position: int, number: int, draft: Draft, serializer: KryoSerializer) -> bytes:
        """Return the bytes for a draft.

        Those of the part that shows the same: the one in the same place or, since elements of lists may have moved, any. Where
        none does, its own encoding, in the classes that the part in the same place has.

        Raises
        ------
        InvalidRowError
            If parts that show the same differ, or the draft was changed to what can't be encoded.
        """
        parts = self.found.get(position, [])
        before = parts[number] if number < len(parts) else None
        if before is not None and before.shown == draft.shown:
            return before.raw
        alike = {part.raw for part in parts if part.shown == draft.shown}
        if len(alike) == 1:
            return alike.pop()
        if alike:
            raise InvalidRowError(
                f"{draft.text} is what {len(alike)} different values show that the state has for this key; leave elements in "
                "their places, so that it can be told which is meant"
            )
        if draft.problem and self.problem:
            raise InvalidRowError(f"what the state has for this key can't be compared with {draft.text}: {self.problem}")
        if draft.problem:
            raise InvalidRowError(
                f"{draft.text} is not what the state has for this key, and can't be encoded as new: {draft.problem}; "
                "declare what the part holds with types={…} when reading and writing, or leave it as it was read"
            )
        if before is None or before.value is None:
            return draft.raw
        new = serializer.deserialize(draft.raw)
        return draft.raw if new is None else serializer.serialize(KryoValue(b"", adopted(new.node, before.value.node), _NEW))


_NEW: Final = Encoding(0, (), 0)
"""No encoding that there is: the tree is encoded anew."""


class _NotingSerializer(TypeSerializer):
    """Notes the parts that it reads."""

    def __init__(self, part: KryoSerializer, position: int, parts: list[tuple[int, Part]]) -> None:
        self.part = part
        self._position = position
        self._parts = parts

    def __str__(self) -> str:
        return str(self.part)

    def read(self, source: DataInput) -> KryoValue | None:
        start = source.position
        value = self.part.read(source)
        try:
            column = None if value is None else column_value(self.part.declared, value.value, _EXACT)
            text = shown(self.part.declared, column)
        except UNWRITABLE:
            text = None  # no table shows it
        self._parts.append((self._position, Part(text, value, bytes(source.data[start : source.position]))))
        return value

    def write(self, value: Any, target: DataOutput) -> None:
        self.part.write(value, target)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.part.arrow_type(options)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self.part.snapshot()


class _SettlingSerializer(DraftingSerializer):
    """Notes the drafts that it reads, and where they are."""

    def __init__(self, part: KryoSerializer, position: int, drafts: list[tuple[int, int, int, Draft]]) -> None:
        super().__init__(part)
        self._position = position
        self._drafts = drafts

    def read(self, source: DataInput) -> Draft:
        start = source.position
        draft = super().read(source)
        self._drafts.append((self._position, start, source.position, draft))
        return draft


def drafted_parts(type_: TypeSerializer, column: str = "") -> dict[int, tuple[str, KryoSerializer]]:
    """Return the parts of a type that Kryo writes, by ``id``: path and serializer."""
    return {id(part): (path, part) for path, part in kryo_parts(type_, column)}


def drafting(type_: TypeSerializer) -> TypeSerializer:
    """Return the type with drafts in the place of all that Kryo writes; itself if there is nothing."""
    parts = drafted_parts(type_)
    return replaced(type_, {key: DraftingSerializer(part) for key, (_, part) in parts.items()}) if parts else type_


class DraftedEntries:
    """Puts the bytes of parts in the place of drafts, in the values of entries.

    Parameters
    ----------
    type_
        The type of an entry's value.
    column
        What messages call it.
    """

    def __init__(self, type_: TypeSerializer, column: str) -> None:
        parts = drafted_parts(type_, column)
        self._parts = [*parts.values()]
        self._noted: list[tuple[int, Part]] = []
        self._drafts: list[tuple[int, int, int, Draft]] = []
        noting: dict[int, TypeSerializer] = {}
        settling: dict[int, TypeSerializer] = {}
        for position, (key, (_, part)) in enumerate(parts.items()):
            noting[key] = _NotingSerializer(part, position, self._noted)
            settling[key] = _SettlingSerializer(part, position, self._drafts)
        self._base, self._new = replaced(type_, noting), replaced(type_, settling)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that Kryo writes."""
        return not self._parts

    def parts(self, value: memoryview | bytes) -> Parts:
        """Return the parts of an entry that the state has; none if its value can't be read."""
        self._noted.clear()
        try:
            self._base.deserialize(value)
        except StateProcessorError as problem:
            return Parts(str(problem))
        parts = Parts()
        for position, part in self._noted:
            parts.add(position, part)
        return parts

    def settled(self, value: memoryview | bytes, parts: Parts) -> bytes:
        """Return a new value with bytes in the place of drafts.

        Raises
        ------
        InvalidRowError
            If there are none for one; the message names its path.
        """
        self._drafts.clear()
        self._new.deserialize(value)
        return b"".join(self._pieces(value, parts))

    def _pieces(self, value: memoryview | bytes, parts: Parts) -> Iterator[bytes]:
        numbers = [0] * len(self._parts)
        position = 0
        for which, start, end, draft in self._drafts:
            path, serializer = self._parts[which]
            yield bytes(value[position:start])
            try:
                yield parts.bytes_for(which, numbers[which], draft, serializer)
            except InvalidRowError as problem:
                raise InvalidRowError(f"{path}: {problem}") from None
            numbers[which] += 1
            position = end
        yield bytes(value[position:])


_FAMILIES: Final = (containers.COLLECTIONS | containers.SINGLETONS, containers.MAPS | {containers.SINGLETON_MAP})
_OF_ONE_SIZE: Final = (
    containers.SINGLETONS
    | {containers.SINGLETON_MAP, "java.util.Collections$CopiesList"}
    | {f"java.util.ImmutableCollections${name}" for name in ("List12", "ListN", "Set12", "SetN", "SubList", "Map1", "MapN")}
)
"""Classes that are kept only where the number of elements is: others hold other numbers of them."""


def adopted(new: Any, old: Any) -> Any:
    """Return a new tree with the classes of an old one, as far as they hold the same; what is equal is the old."""
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
            return KryoMap(
                (before[text][0], adopted(value, before[text][1])) if (text := _text(key)) in before else (key, value)
                for key, value in new
            )
        case list(), list():
            return [adopted(n, old[i]) if i < len(old) else n for i, n in enumerate(new)]
        case dict(), dict():
            return {name: adopted(n, old.get(name)) for name, n in new.items()}
    return new


def _text(part: Any) -> str:
    return json.dumps(to_json(plain(part) if isinstance(part, Node) else part))
