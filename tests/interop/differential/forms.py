"""Types of cases that are made of others, and the types by their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.kryo.nested_kryo import for_flink
from state_processor.types.flink_types import Types
from tests.interop.differential.draw import Draw
from tests.interop.differential.scalars import (
    BYTES,
    KRYO,
    SCALARS,
    Form,
    as_text,
    canonical_of,
    column_of,
    drawn,
    flink_version,
    printed_of,
)

T = Types


@dataclass(frozen=True)
class Sequenced(Form):
    """A list or an array of any kind."""

    label: str
    element: Form
    make: Callable[[TypeSerializer], TypeSerializer]
    nullable: bool
    is_key: bool = False

    def serializer(self) -> TypeSerializer:
        return self.make(self.element.serializer())

    def random(self, draw: Draw) -> Any:
        return [drawn(self.element, draw, self.nullable) for _ in range(draw.length())]

    def column(self, value: Any) -> Any:
        return [column_of(self.element, each) for each in value]

    def printed(self, held: Any) -> Any:
        return [printed_of(self.element, each) for each in held]

    def canonical(self, value: Any) -> Any:
        return [canonical_of(self.element, each) for each in value]

    def simpler(self, value: Any) -> Iterator[Any]:
        if value:
            yield from ([], value[: len(value) // 2], value[len(value) // 2 + 1 :], value[1:])
        for i, each in enumerate(value[:10]):
            if each is not None:
                yield from ([*value[:i], smaller, *value[i + 1 :]] for smaller in self.element.simpler(each))


@dataclass(frozen=True)
class Mapped(Form):
    """A map; its values may be null, whatever they are."""

    key: Form
    value: Form

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"MAP<{self.key.label},{self.value.label}>"

    @property
    def is_key(self) -> bool:  # type: ignore[override]
        return self.key.is_key and self.value.is_key

    def serializer(self) -> TypeSerializer:
        return T.MAP(self.key.serializer(), self.value.serializer())

    def random(self, draw: Draw) -> Any:
        return self.canonical_order(random_pairs(self.key, self.value, draw, draw.length(), True))

    @staticmethod
    def canonical_order(pairs: Sequence[Any]) -> list[Any]:
        return sorted(pairs, key=as_text)

    def column(self, value: Any) -> Any:
        return [(self.key.column(k), column_of(self.value, v)) for k, v in value]

    def printed(self, held: Any) -> Any:
        return self.canonical_order([[self.key.printed(k), printed_of(self.value, v)] for k, v in held])

    def canonical(self, value: Any) -> Any:
        return self.canonical_order([[self.key.canonical(k), canonical_of(self.value, v)] for k, v in value])

    def simpler(self, value: Any) -> Iterator[Any]:
        if value:
            yield from ([], value[: len(value) // 2], value[1:])
        for i, (k, v) in enumerate(value[:10]):
            if v is not None:
                yield from ([*value[:i], [k, smaller], *value[i + 1 :]] for smaller in self.value.simpler(v))


def random_pairs(key: Form, value: Form, draw: Draw, count: int, nullable: bool) -> list[list[Any]]:
    """Entries of a map, no two of one key."""
    found: dict[str, list[Any]] = {}
    for _ in range(count):
        k = key.random(draw)
        found.setdefault(as_text(key.canonical(k)), [k, drawn(value, draw, nullable)])
    return list(found.values())


@dataclass(frozen=True)
class Fields(Form):
    """What tuples, rows and POJOs have in common."""

    parts: tuple[Form, ...]

    @property
    def is_key(self) -> bool:  # type: ignore[override]
        return all(part.is_key for part in self.parts)

    @property
    def _serializers(self) -> list[TypeSerializer]:
        return [part.serializer() for part in self.parts]


@dataclass(frozen=True)
class Tuple(Fields):
    """A tuple; a field may be null where its serializer knows null."""

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"TUPLE<{','.join(part.label for part in self.parts)}>"

    def serializer(self) -> TypeSerializer:
        return T.TUPLE(self._serializers)

    def random(self, draw: Draw) -> Any:
        return [drawn(part, draw, part.knows_null) for part in self.parts]

    def column(self, value: Any) -> Any:
        return {f"f{i}": column_of(part, each) for i, (part, each) in enumerate(zip(self.parts, value, strict=True))}

    def printed(self, held: Any) -> Any:
        return [printed_of(part, each) for part, each in zip(self.parts, held.values(), strict=True)]

    def canonical(self, value: Any) -> Any:
        return [canonical_of(part, each) for part, each in zip(self.parts, value, strict=True)]

    def simpler(self, value: Any) -> Iterator[Any]:
        for i, (part, each) in enumerate(zip(self.parts, value, strict=True)):
            if each is not None:
                yield from ([*value[:i], smaller, *value[i + 1 :]] for smaller in part.simpler(each))


@dataclass(frozen=True)
class Row(Fields):
    """A ``Row`` with or without names, and of any kind; every field may be null."""

    names: tuple[str, ...] = ()

    @property
    def label(self) -> str:  # type: ignore[override]
        names = [f"{name}:" for name in self.names] or [""] * len(self.parts)
        return f"ROW<{','.join(name + part.label for name, part in zip(names, self.parts, strict=True))}>"

    def serializer(self) -> TypeSerializer:
        return T.ROW_NAMED(self.names, self._serializers) if self.names else T.ROW(self._serializers)

    def random(self, draw: Draw) -> Any:
        kind = draw.choice(("+I", "+I", "-U", "+U", "-D"))
        return {"kind": kind, "fields": [drawn(part, draw, True) for part in self.parts]}

    def column(self, value: Any) -> Any:
        names = self.names or [f"f{i}" for i in range(len(self.parts))]
        fields = zip(names, self.parts, value["fields"], strict=True)
        return {"row_kind": value["kind"], **{name: column_of(part, each) for name, part, each in fields}}

    def printed(self, held: Any) -> Any:
        kind, *fields = held.values()
        return {"kind": kind, "fields": [printed_of(part, each) for part, each in zip(self.parts, fields, strict=True)]}

    def canonical(self, value: Any) -> Any:
        return {**value, "fields": [canonical_of(p, each) for p, each in zip(self.parts, value["fields"], strict=True)]}

    def simpler(self, value: Any) -> Iterator[Any]:
        for i, each in enumerate(value["fields"]):
            if each is not None:
                for smaller in (None, *self.parts[i].simpler(each)):
                    yield {**value, "fields": [*value["fields"][:i], smaller, *value["fields"][i + 1 :]]}


@dataclass(frozen=True)
class Either(Form):
    """One of two."""

    left: Form
    right: Form

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"EITHER<{self.left.label},{self.right.label}>"

    @property
    def is_key(self) -> bool:  # type: ignore[override]
        return self.left.is_key and self.right.is_key

    def serializer(self) -> TypeSerializer:
        return T.EITHER(self.left.serializer(), self.right.serializer())

    def random(self, draw: Draw) -> Any:
        return {"left": self.left.random(draw)} if draw.one_in(2) else {"right": self.right.random(draw)}

    def column(self, value: Any) -> Any:
        return {"left": column_of(self.left, value.get("left")), "right": column_of(self.right, value.get("right"))}

    def printed(self, held: Any) -> Any:
        side, form = ("left", self.left) if held["left"] is not None else ("right", self.right)
        return {side: form.printed(held[side])}

    def canonical(self, value: Any) -> Any:
        ((side, each),) = value.items()
        return {side: getattr(self, side).canonical(each)}

    def simpler(self, value: Any) -> Iterator[Any]:
        ((side, each),) = value.items()
        yield from ({side: smaller} for smaller in getattr(self, side).simpler(each))


@dataclass(frozen=True)
class Enum(Form):
    """An enum, whose ``hashCode`` is by chance: no key."""

    class_name: str
    names: tuple[str, ...]
    is_key: bool = False

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"ENUM<{self.class_name}>"

    def serializer(self) -> TypeSerializer:
        return T.ENUM(self.class_name, self.names)

    def random(self, draw: Draw) -> Any:
        return draw.choice(self.names)


@dataclass(frozen=True)
class Members:
    """The declared fields of a class: names, types in the same order, and primitive fields."""

    names: tuple[str, ...]
    parts: tuple[Form, ...]
    primitives: frozenset[str]

    def each(self, change: Callable[[str, Form], Any]) -> dict[str, Any]:
        return {name: change(name, part) for name, part in zip(self.names, self.parts, strict=True)}

    @property
    def serializers(self) -> dict[str, TypeSerializer]:
        return self.each(lambda _, part: part.serializer())

    def random(self, draw: Draw) -> dict[str, Any]:
        return self.each(lambda name, part: drawn(part, draw, name not in self.primitives))


_NO_MEMBERS = Members((), (), frozenset())


@dataclass(frozen=True)
class Pojo(Form):
    """A POJO as Flink infers it, with subclasses that the job registers; fields may be null, but for primitives."""

    class_name: str
    members: Members
    is_key: bool = False
    knows_null: bool = True
    subclasses: tuple[tuple[str, Members], ...] = ()

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"POJO<{self.class_name}>"

    def serializer(self) -> TypeSerializer:
        added = {name: members.serializers for name, members in self.subclasses}
        inferred = T.INFERRED(T.POJO(self.class_name, self.members.serializers, added or None), flink_version())
        return for_flink(inferred, int(flink_version()[0]))

    def _of_class(self, class_name: str) -> tuple[Members, Members]:
        return self.members, dict(self.subclasses).get(class_name, _NO_MEMBERS)

    def random(self, draw: Draw) -> Any:
        class_name = draw.choice((self.class_name, *(name for name, _ in self.subclasses)))
        own, added = self._of_class(class_name)
        return {"@class": class_name, **own.random(draw), **added.random(draw)}

    def _changed(self, value: dict[str, Any], change: Callable[[Form, Any], Any], class_name: str) -> dict[str, Any]:
        own, added = self._of_class(class_name)
        return {name: each for part in (own, added) for name, each in part.each(lambda n, form: change(form, value[n])).items()}

    def column(self, value: Any) -> Any:
        held = self._changed(value, column_of, value["@class"])
        return held | {"_class": value["@class"]} if self.subclasses else held

    def printed(self, held: Any) -> Any:
        class_name = held["_class"] or self.class_name if self.subclasses else self.class_name
        return {"@class": class_name, **self._changed(held, printed_of, class_name)}

    def canonical(self, value: Any) -> Any:
        return value | self._changed(value, canonical_of, value["@class"])

    def simpler(self, value: Any) -> Iterator[Any]:
        for members in self._of_class(value["@class"]):
            for name, part in zip(members.names, members.parts, strict=True):
                if value[name] is not None:
                    if name not in members.primitives:
                        yield {**value, name: None}
                    yield from ({**value, name: smaller} for smaller in part.simpler(value[name]))


@dataclass(frozen=True)
class Nullable(Form):
    """A type whose serializer is wrapped to know null."""

    inner: Form
    knows_null: bool = True
    is_key: bool = False

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"NULLABLE<{self.inner.label}>"

    def serializer(self) -> TypeSerializer:
        return T.NULLABLE(self.inner.serializer())

    def random(self, draw: Draw) -> Any:
        return self.inner.random(draw)

    def column(self, value: Any) -> Any:
        return self.inner.column(value)

    def printed(self, held: Any) -> Any:
        return self.inner.printed(held)

    def canonical(self, value: Any) -> Any:
        return self.inner.canonical(value)

    def simpler(self, value: Any) -> Iterator[Any]:
        return self.inner.simpler(value)


BY_LABEL: dict[str, Form] = {form.label: form for form in (*SCALARS, *KRYO, BYTES)}

PRIMITIVE_ARRAYS = tuple(
    Sequenced(f"{name}_ARRAY", BY_LABEL[name], T.PRIMITIVE_ARRAY, False)
    for name in ("BOOLEAN", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR")
)
BASIC_ARRAYS = (
    Sequenced("STRING_ARRAY", BY_LABEL["STRING"], T.BASIC_ARRAY, True),
    Sequenced("BOXED_LONG_ARRAY", BY_LABEL["LONG"], T.BASIC_ARRAY, True),
)
BY_LABEL |= {form.label: form for form in (*PRIMITIVE_ARRAYS, *BASIC_ARRAYS)}


def list_of(element: Form) -> Form:
    return Sequenced(f"LIST<{element.label}>", element, T.LIST, element.knows_null, element.is_key)


def array_of(element: Form) -> Form:
    return Sequenced(f"OBJECT_ARRAY<{element.label}>", element, T.OBJECT_ARRAY, True)


_PARSERS: dict[str, Callable[[str], Form]] = {}


def register_parser(name: str, parser: Callable[[str], Form]) -> None:
    """Let labels ``name<…>`` be parsed by another module."""
    _PARSERS[name] = parser


def parse(label: str) -> Form:
    """The form of a label.

    Raises
    ------
        KeyError: it does not exist.
    """
    name, _, rest = label.partition("<")
    if not rest or label in BY_LABEL:
        return BY_LABEL[label]
    if name in _PARSERS:
        return _PARSERS[name](rest[:-1])
    inside = arguments(rest[:-1])
    if name == "ROW":
        named = [argument.partition(":") for argument in inside]
        if all(colon and "<" not in field for field, colon, _ in named):
            return Row(tuple(parse(type_) for *_, type_ in named), tuple(field for field, *_ in named))
        return Row(tuple(map(parse, inside)))
    parts = tuple(map(parse, inside))
    return {
        "TUPLE": lambda: Tuple(parts),
        "LIST": lambda: list_of(*parts),
        "OBJECT_ARRAY": lambda: array_of(*parts),
        "MAP": lambda: Mapped(*parts),
        "EITHER": lambda: Either(*parts),
        "NULLABLE": lambda: Nullable(*parts),
    }[name]()


def arguments(text: str) -> list[str]:
    """The parts between commas outside of inner brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "<(") - (c in ">)")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return parts
