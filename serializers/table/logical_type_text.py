"""Types of Flink SQL in SQL syntax: ``ROW<id BIGINT NOT NULL, name STRING>`` (Flink: ``LogicalTypeParser``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from state_processor.serializers.io import MAX_NESTING
from state_processor.serializers.table.logical_types import (
    MAX_LENGTH,
    ArrayType,
    BytesType,
    IntervalType,
    LogicalType,
    MapType,
    MultisetType,
    RowField,
    RowType,
    TextType,
    TimestampType,
    TimeType,
)
from state_processor.serializers.table.type_descriptors import SQL_TYPES
from state_processor.support.errors import OptionError

_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^']|'')*')|([A-Za-z_]\w*)|([0-9]+)|([<>(),]))")
_ZONED: Final = ("TIME", "TIMESTAMP")
"""Types with an optional zone behind their precision."""
_NANOS: Final = 9
_YEARS: Final = ("YEAR", "MONTH")
_UNITS: Final = (*_YEARS, "DAY", "HOUR", "MINUTE", "SECOND")

_LONGEST: Final[Mapping[str, Callable[[], LogicalType]]] = {"STRING": TextType, "BYTES": BytesType}
"""Names of types with the greatest length."""
_NAMED: Final = {name: sql_type for sql_type in SQL_TYPES for name in sql_type.names}


def parse_logical_type(text: str) -> LogicalType:
    """Parse the text of a type.

    Parameters
    ----------
    text
        A type of Flink SQL. Names of fields that are not identifiers are quoted with backticks.

    Raises
    ------
    OptionError
        If it is not a type; the message gives the position.
    """
    parser = _Parser(text)
    type_ = parser.type()
    parser.end()
    return type_


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def type(self) -> LogicalType:
        """Parse a type and its suffixes: ``NOT NULL``, ``ARRAY``, ``MULTISET``."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self._problem(f"more than {MAX_NESTING} types nested in one another", self._position)
        type_ = self._nullable(self._plain())
        while (word := self._peek().upper()) in ("ARRAY", "MULTISET"):
            self._next()
            type_ = self._nullable(ArrayType(type_) if word == "ARRAY" else MultisetType(type_))
        self._depth -= 1
        return type_

    def end(self) -> None:
        if self._text[self._position :].strip():
            raise self._problem("expected the end of the text", self._position)

    def _nullable(self, type_: LogicalType) -> LogicalType:
        if self._take("NOT"):
            self._expect("NULL")
            return replace(type_, nullable=False)
        self._take("NULL")
        return type_

    def _plain(self) -> LogicalType:
        start = self._position
        word = self._next().upper()
        if word in _LONGEST:
            return _LONGEST[word]()
        if word in _OF_OWN_SYNTAX:
            return _OF_OWN_SYNTAX[word](self)
        if word in _NAMED:
            return self._named(word)
        raise self._problem(f"{word!r} is not a type of Flink SQL", start)

    def _named(self, name: str) -> LogicalType:
        """Parse the rest of a name, numbers in parentheses, and a zone."""
        longer = f"{name} {self._peek().upper()}"
        if longer in _NAMED:
            self._next()
        sql_type = _NAMED.get(longer, _NAMED[name])
        parameters = sql_type.numbers
        numbers = self._numbers(*(p.default for p in parameters)) if parameters else ()
        type_ = sql_type.make(True, {p.attribute: number for p, number in zip(parameters, numbers, strict=True)})
        if name in _ZONED:
            type_ = self._zoned(type_)
        if isinstance(type_, TimeType | TimestampType) and type_.precision > _NANOS:
            raise self._problem(f"{type_.precision} digits of a second, more than nine", self._position)
        return type_

    def _numbers(self, *defaults: int) -> list[int]:
        """Parse numbers in parentheses, at most as many as there are defaults."""
        start = self._position
        if not self._take("("):
            return list(defaults)
        numbers = [self._number()]
        while self._take(","):
            numbers.append(self._number())
        self._expect(")")
        if len(numbers) > len(defaults):
            raise self._problem(f"{len(numbers)} numbers where {len(defaults)} may be", start)
        return numbers + list(defaults[len(numbers) :])

    def _number(self) -> int:
        start = self._position
        token = self._next()
        if not token.isdecimal() or int(token) > MAX_LENGTH:
            raise self._problem("expected a number", start)
        return int(token)

    def _zoned(self, type_: LogicalType) -> LogicalType:
        """Parse the zone behind a time of day or a timestamp."""
        if isinstance(type_, TimestampType) and self._take("WITH"):
            self._words("LOCAL", "TIME", "ZONE")
            type_ = replace(type_, local_zoned=True)
        elif self._take("WITHOUT"):
            self._words("TIME", "ZONE")
        return type_

    def _words(self, *words: str) -> None:
        for word in words:
            self._expect(word)

    def _interval(self) -> LogicalType:
        start = self._position
        first, of_first = self._unit()
        last, of_last = self._unit() if self._take("TO") else (first, of_first)
        if (first in _YEARS) != (last in _YEARS) or _UNITS.index(first) > _UNITS.index(last):
            raise self._problem(f"an interval from {first} to {last} does not exist", start)
        default = IntervalType(first if first == last else f"{first}_TO_{last}")
        precision = of_first if of_first is not None and first in ("YEAR", "DAY") else default.precision
        fraction = of_last if of_last is not None and last == "SECOND" else default.fraction
        return IntervalType(default.resolution, precision, fraction)

    def _unit(self) -> tuple[str, int | None]:
        start = self._position
        word = self._next().upper()
        if word not in _UNITS:
            raise self._problem(f"expected one of {', '.join(_UNITS)}", start)
        return word, self._numbers(0)[0] if self._peek() == "(" else None

    def _array(self) -> LogicalType:
        (element,) = self._inside(1)
        return ArrayType(element)

    def _multiset(self) -> LogicalType:
        (element,) = self._inside(1)
        return MultisetType(element)

    def _map(self) -> LogicalType:
        return MapType(*self._inside(2))

    def _inside(self, count: int) -> list[LogicalType]:
        self._expect("<")
        types = [self.type()]
        while len(types) < count:
            self._expect(",")
            types.append(self.type())
        self._expect(">")
        return types

    def _row(self) -> LogicalType:
        start = self._position
        opening = self._next()
        if opening not in ("<", "("):
            raise self._problem("expected the fields of a ROW in angle brackets", start)
        closing = ">" if opening == "<" else ")"
        fields: list[RowField] = []
        if not self._take(closing):
            fields.append(self._field())
            while self._take(","):
                fields.append(self._field())
            self._expect(closing)
        return RowType(tuple(fields))

    def _field(self) -> RowField:
        start = self._position
        name = self._next()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        elif not name[0].isalpha() and name[0] != "_":
            raise self._problem("expected the name of a field", start)
        type_ = self.type()
        description = self._next()[1:-1].replace("''", "'") if self._peek().startswith("'") else None
        return RowField(name, type_, description)

    def _take(self, token: str) -> bool:
        is_next = self._peek().upper() == token
        if is_next:
            self._next()
        return is_next

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise self._problem(f"expected {token!r}", self._position)

    def _peek(self) -> str:
        match = _TOKEN.match(self._text, self._position)
        return match[0].strip() if match else ""

    def _next(self) -> str:
        match = _TOKEN.match(self._text, self._position)
        if match is None:
            raise self._problem("unexpected end, or unexpected character", self._position)
        self._position = match.end()
        return match[0].strip()

    def _problem(self, problem: str, position: int) -> OptionError:
        return OptionError(f"type {self._text!r}, at character {position}: {problem}")


_OF_OWN_SYNTAX: Final[dict[str, Callable[[_Parser], LogicalType]]] = {
    "INTERVAL": _Parser._interval,
    "ARRAY": _Parser._array,
    "MULTISET": _Parser._multiset,
    "MAP": _Parser._map,
    "ROW": _Parser._row,
}
"""Intervals, and types with nested types."""
