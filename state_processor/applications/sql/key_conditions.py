"""Keys that a condition of a query allows. Reads look these keys up and skip all others.

A set has the values that the condition allows for the key. ``None`` allows any value. A set may have keys for which the condition
is false: queries apply the condition to the rows as well.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, TypeAlias

import pyarrow as pa

from state_processor.states import KEY_COLUMN
from state_processor.support import pc

Values: TypeAlias = frozenset[Any] | None


def both(left_values: Values, right_values: Values) -> Values:
    """Return the values that two conditions allow if both hold."""
    if left_values is None or right_values is None:
        return right_values if left_values is None else left_values
    return left_values & right_values


def either(left_values: Values, right_values: Values) -> Values:
    """Return the values that two conditions allow if one of them holds."""
    return None if left_values is None or right_values is None else left_values | right_values


@dataclass(frozen=True, slots=True)
class FieldName:
    """A column, or a field inside of columns."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments; ``options`` are the settings of the function."""

    function: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


class ArrowCondition:
    """A condition of ``pyarrow.compute``, as DuckDB hands it to data sets.

    Arrow serializes an expression as a batch of its literals, with the functions and fields in the metadata of the schema.
    """

    def __init__(self, expression: pc.Expression) -> None:
        _, (buffer,) = expression.__reduce__()
        batch = pa.ipc.open_file(buffer).get_batch(0)
        self._literals = [column[0].as_py() for column in batch.columns]
        self._tokens = iter(_metadata(batch.schema))
        self._root = self._parse(*next(self._tokens))

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the condition is about."""
        return frozenset(_columns(self._root))

    @property
    def keys(self) -> Values:
        """The values that the condition allows the column ``key`` to have."""
        return _allowed(self._root)

    def _parse(self, kind: str, value: str) -> Any:
        if kind == "literal":
            return self._literals[int(value)]
        if kind == "field_ref":
            return FieldName((value,))
        if kind == "nested_field_ref":
            return FieldName(tuple(next(self._tokens)[1] for _ in range(int(value))))
        inside = list(takewhile(lambda token: token[0] != "end", self._arguments()))
        options = next((self._literals[int(v)] for k, v in inside if k == "options"), None)
        return Call(value, tuple(v for k, v in inside if k != "options"), options or {})

    def _arguments(self) -> Iterator[tuple[str, Any]]:
        """Yield the parts of a call, parsed, up to its end."""
        for kind, value in self._tokens:
            yield (kind, value) if kind in ("end", "options") else ("argument", self._parse(kind, value))


def _columns(node: Any) -> Iterator[str]:
    if isinstance(node, FieldName):
        yield node.path[0]
    elif isinstance(node, Call):
        for argument in node.arguments:
            yield from _columns(argument)


def _allowed(node: Any) -> Values:
    if not isinstance(node, Call):
        return None
    rule = _RULES.get(node.function)
    return None if rule is None else rule(node)


def _equal(call: Call) -> Values:
    column, literal = call.arguments
    if column == _KEY_COLUMN:
        column, literal = literal, column
    return frozenset({column}) if literal == _KEY_COLUMN and _is_plain(column) else None


def _is_in(call: Call) -> Values:
    values = call.options.get("value_set")
    if call.arguments[0] != _KEY_COLUMN or not isinstance(values, list) or not all(map(_is_plain, values)):
        return None
    return frozenset(values)


def _if_else(call: Call) -> Values:
    """Return the values that a condition allows if it is null where another condition is false."""
    _, consequence, alternative = call.arguments
    return _allowed(consequence) if alternative is None else either(_allowed(consequence), _allowed(alternative))


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, bool))


_KEY_COLUMN: Final = FieldName((KEY_COLUMN,))
_RULES: Final[dict[str, Callable[[Call], Values]]] = {
    "equal": _equal,
    "is_in": _is_in,
    "if_else": _if_else,
    "and_kleene": lambda call: both(*map(_allowed, call.arguments)),
    "or_kleene": lambda call: either(*map(_allowed, call.arguments)),
}


class _CSchema(ctypes.Structure):
    """The beginning of ``ArrowSchema`` of the Arrow C data interface, and room for the rest."""

    _fields_ = (
        ("format", ctypes.c_void_p),
        ("name", ctypes.c_void_p),
        ("metadata", ctypes.c_void_p),
        ("rest", ctypes.c_void_p * 8),
    )


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a schema's metadata. pyarrow's own ``metadata`` keeps one pair for each name."""
    exported = _CSchema()
    address = ctypes.addressof(exported)
    schema._export_to_c(address)
    try:
        at = exported.metadata or 0
        number, at = ctypes.c_int32.from_address(at).value if at else 0, at + 4
        pairs = []
        for _ in range(2 * number):
            size = ctypes.c_int32.from_address(at).value
            pairs.append(ctypes.string_at(at + 4, size).decode())
            at += 4 + size
    finally:
        pa.Schema._import_from_c(address)  # which releases it
    return iter(zip(pairs[::2], pairs[1::2], strict=True))
