"""Types as text, for options: ``MAP<STRING,LIST<LONG>>``, ``ROW<name:STRING,score:DOUBLE>``, ``POJO<com.acme.Account>``."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Final

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.traversal import MOST_LEVELS
from state_processor.support.errors import OptionError
from state_processor.types.flink_types import Types
from state_processor.types.type_of_column import type_of_column

_SHOWN: Final = 1000
_TOKEN: Final = re.compile(r"\s*([A-Za-z_$][\w$.]*|[<>,():])")
_PLAIN: Final[dict[str, Callable[[], TypeSerializer]]] = {
    **{name: getattr(Types, name) for name in SCALARS},
    "TIME_WINDOW": Types.TIME_WINDOW,
    "GLOBAL_WINDOW": Types.GLOBAL_WINDOW,
}
"""Types without others inside."""
_NESTED: Final[dict[str, tuple[int | None, Callable[..., TypeSerializer]]]] = {
    "LIST": (1, Types.LIST),
    "SET": (1, Types.SET),
    "MAP": (2, Types.MAP),
    "EITHER": (2, Types.EITHER),
    "NULLABLE": (1, Types.NULLABLE),
    "PRIMITIVE_ARRAY": (1, Types.PRIMITIVE_ARRAY),
    "BASIC_ARRAY": (1, Types.BASIC_ARRAY),
    "OBJECT_ARRAY": (1, Types.OBJECT_ARRAY),
    "TUPLE": (None, lambda *fields: Types.TUPLE(fields)),
}
"""Types with a number of others inside (``None``: any number)."""


def parse_type(text: str, column: pa.DataType | None = None) -> TypeSerializer:
    """Parse the text of a type.

    ``text``: a name of :class:`~state_processor.Types` with the types inside in angle brackets. A POJO is ``POJO<class>`` and
    takes its fields from the column, or has them in parentheses: ``POJO<class>(name STRING, score DOUBLE)``. An enum has its
    constants in parentheses, in the order of declaration: ``ENUM<class>(LOW, HIGH)``. ``column``: the type of the column, for
    POJOs without fields.
    """
    parser = _Parser(text)
    parsed = parser.type(column)
    parser.end()
    return parsed


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def type(self, column: pa.DataType | None) -> TypeSerializer:
        if self._depth >= MOST_LEVELS:
            raise self._problem(f"types are nested more than {MOST_LEVELS} levels deep", self._position)
        self._depth += 1
        parsed = self._type(column)
        self._depth -= 1
        return parsed

    def _type(self, column: pa.DataType | None) -> TypeSerializer:
        start = self._position
        name = self._next()
        if name in _PLAIN:
            return _PLAIN[name]()
        if name in _NESTED:
            count, make = _NESTED[name]
            inside = self._inside(lambda: self.type(None))
            if count is not None and len(inside) != count:
                raise self._problem(f"{name} has {count} types inside, not {len(inside)}", start)
            return make(*inside)
        if name == "ROW":
            fields = self._inside(self._row_field)
            if all(field for field, _ in fields):
                return Types.ROW_NAMED([field for field, _ in fields], [type_ for _, type_ in fields])
            return Types.ROW([type_ for _, type_ in fields])
        if name == "ROW_DATA":
            return Types.ROW_DATA(self._bracketed())
        if name == "POJO":
            return self._pojo(column)
        if name == "ENUM":
            (class_name,) = self._inside(self._next)
            return Types.ENUM(class_name, self._inside(self._next, "(", ")"))
        if name == "KRYO":
            return Types.KRYO(self._bracketed())
        near = get_close_matches(name.upper(), [*_PLAIN, *_NESTED, "ROW", "ROW_DATA", "POJO", "ENUM", "KRYO"], n=1)
        raise self._problem(f"there is no type {name!r}{f'; did you mean {near[0]}?' if near else ''}", start)

    def end(self) -> None:
        if self._text[self._position :].strip():
            raise self._problem("expected the end of the text", self._position)

    def _bracketed(self) -> str:
        """Return the text between angle brackets unchanged: types of SQL have another grammar."""
        self._expect("<")
        start, depth = self._position, 1
        for at in range(start, len(self._text)):
            depth += {"<": 1, ">": -1}.get(self._text[at], 0)
            if not depth:
                self._position = at + 1
                return self._text[start:at]
        raise self._problem("expected '>'", len(self._text))

    def _pojo(self, column: pa.DataType | None) -> TypeSerializer:
        (class_name,) = self._inside(self._next)
        if self._peek() == "(":
            fields = dict(self._inside(self._field, "(", ")"))
        elif column is not None and pa.types.is_struct(column):
            fields = {f.name: type_of_column(f.type, f"field {f.name!r}") for f in column}
        else:
            raise self._problem(f"name the fields of {class_name}: POJO<{class_name}>(name STRING, …)", self._position)
        return Types.POJO(class_name, fields)

    def _field(self) -> tuple[str, TypeSerializer]:
        name = self._next()
        if self._peek() == ":":
            self._next()
        return name, self.type(None)

    def _row_field(self) -> tuple[str, TypeSerializer]:
        start = self._position
        self._next()
        is_type = self._peek() in (",", ">", "<")
        self._position = start
        return ("", self.type(None)) if is_type else self._field()

    def _inside(self, item: Callable[[], object], opening: str = "<", closing: str = ">") -> list:  # type: ignore[type-arg]
        self._expect(opening)
        items = [item()]
        while self._peek() == ",":
            self._next()
            items.append(item())
        self._expect(closing)
        return items

    def _expect(self, token: str) -> None:
        start = self._position
        if self._next() != token:
            raise self._problem(f"expected {token!r}", start)

    def _peek(self) -> str:
        match = _TOKEN.match(self._text, self._position)
        return match[1] if match else ""

    def _next(self) -> str:
        match = _TOKEN.match(self._text, self._position)
        if match is None:
            raise self._problem("unexpected end, or unexpected character", self._position)
        self._position = match.end()
        return match[1]

    def _problem(self, reason: str, position: int) -> OptionError:
        excerpt = self._text if len(self._text) <= _SHOWN else f"{self._text[:_SHOWN]}…"
        return OptionError(f"type {excerpt!r}, at character {position}: {reason}")
