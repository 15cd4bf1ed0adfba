"""Types as users declare them.

- Text for options: ``MAP<STRING,LIST<LONG>>``, ``ROW<name:STRING,score:DOUBLE>``, ``POJO<com.acme.Account>``
- Types of parts that Kryo wrote, which snapshots do not record
- Types of states of PyFlink jobs: a type, a kind of state with its types, or the text of one of both
- The type that a column without a declared type suggests
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.state.column_types import kryo_parts_of
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.state.python_states import PythonType, Unpickled, is_python_state
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.core.collections import ListSerializer, MapSerializer
from state_processor.serializers.core.rows import RowSerializer
from state_processor.serializers.core.scalars import SCALARS
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kryo.columns import shape
from state_processor.serializers.kryo.user_classes import java_type_of
from state_processor.serializers.shared_types import PortableType
from state_processor.serializers.table.python_state import python_coder
from state_processor.serializers.traversal import MOST_LEVELS, within_limits
from state_processor.support.doors import code_or_text, spelled
from state_processor.support.errors import InvalidRowError, OptionError
from state_processor.support.mappings import attributes, by_each_key, without_keys
from state_processor.types.flink_types import Types
from state_processor.types.state_specs import AggregatingState, ListState, MapState, ReducingState, StateSpec, ValueState

DeclaredTypes = Mapping[str, TypeSerializer | str]
"""Types by the path of the part: ``{"value.counters": Types.MAP(Types.STRING(), Types.LONG())}``, or the text ``MAP<…>``."""


_COLUMNS: Final = frozenset({"key", "value", "list_value", "map_key", "map_value"})


def split_declared_types(state: StateDescription, types: DeclaredTypes) -> tuple[dict[str, TypeSerializer], DeclaredTypes]:
    """Return the declared types of whole columns, for the names of rows, and the declared types of parts that Kryo wrote."""
    by_kryo = {path for path, _ in kryo_parts_of(state)}
    columns = {c: type_of(c, declared) for c, declared in types.items() if c in _COLUMNS and c not in by_kryo}
    return columns, without_keys(types, columns)


@contextmanager
def asking_for_types(state: StateDescription) -> Iterator[None]:
    """Add to an error about columns that do not fit a part that Kryo wrote how to declare its type."""
    try:
        yield
    except InvalidRowError as problem:
        for path, part in kryo_parts_of(state):
            field = f".{path.partition('.')[2]}' " if "." in path else f"column {path!r} "
            if shape(part.declared)[0] == "json" and field in str(problem):
                raise InvalidRowError(f"{problem}; Kryo wrote it: declare its type by {spelled('types', {path: '…'})}") from None
        raise


def type_of(path: str, declared: TypeSerializer | str) -> TypeSerializer:
    """Return a declared type, which may be text."""
    try:
        type_ = parse_type(declared) if isinstance(declared, str) else declared
    except OptionError as problem:
        raise OptionError(f"types: {path!r}: {problem}") from None
    if not isinstance(type_, TypeSerializer):
        raise OptionError(f"types: {path!r} is given {declared!r}; expected a type of Types, or the text of one")
    return type_


def java_types_by_path(types: DeclaredTypes | None) -> dict[str, JavaType]:
    """Return the declared types as Java types, by path."""
    if types is not None and not isinstance(types, Mapping):
        raise OptionError(f"types={types!r}: expected a mapping of paths to types, such as {{'value.counters': Types.LIST(…)}}")
    by_path = {}
    for path, declared in (types or {}).items():
        type_ = type_of(path, declared)
        try:
            by_path[path] = java_type_of(type_)
        except OptionError as problem:
            raise OptionError(f"types: {path!r}: {problem}") from None
    return by_path


_SCALARS: Final = by_each_key((scalar.inferred_from, scalar.serializer) for scalar in SCALARS.values())


def type_of_column(arrow_type: pa.DataType, label: str) -> TypeSerializer:
    """Return the type that Flink most likely has for a column, such as ``LONG`` for ``bigint``."""
    return within_limits(_type_of(arrow_type, label))


def _type_of(arrow_type: pa.DataType, label: str) -> TypeSerializer:
    if arrow_type in _SCALARS:
        return _SCALARS[arrow_type]
    if pa.types.is_decimal(arrow_type):
        return SCALARS["BIG_DEC"].serializer
    if pa.types.is_map(arrow_type):
        return MapSerializer(_type_of(arrow_type.key_type, f"{label}.key"), _type_of(arrow_type.item_type, f"{label}.value"))
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return ListSerializer(_type_of(arrow_type.value_type, f"{label}.element"))
    if pa.types.is_struct(arrow_type):
        return RowSerializer([_type_of(f.type, f"{label}.{f.name}") for f in arrow_type], arrow_type.names)
    raise OptionError(f"{label} is of type {arrow_type}; name the Flink type of it")


_SHOWN: Final = 1000
_TOKEN: Final = re.compile(r"\s*([A-Za-z_$][\w$.]*|[<>,():])")
_PLAIN: Final[dict[str, Callable[[], TypeSerializer]]] = {
    **attributes(Types, SCALARS),
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
            names, types = map(list, zip(*self._inside(self._row_field), strict=True))
            return Types.ROW_NAMED(names, types) if all(names) else Types.ROW(types)
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


PythonTypeArgument = TypeSerializer | StateSpec | str
"""``Types.LONG()``, ``ListState(Types.LONG())``, or the text ``ListState<LONG>``."""

_SPEC: Final = re.compile(r"\s*(ValueState|ReducingState|AggregatingState|ListState|MapState)\s*<(.*)>\s*", re.DOTALL)


def python_type_of(type_: PythonType | PythonTypeArgument) -> PythonType:
    """Return a type as tasks get it."""
    match type_:
        case PythonType():
            return type_
        case str():
            return python_type_of(_parsed(type_))
        case TypeSerializer():
            return PythonType("", _portable(type_))
        case ListState():
            return PythonType("LIST", _portable(type_.type))
        case MapState():
            return PythonType("MAP", _portable(type_.value), _portable(type_.key))
        case ValueState() | ReducingState() | AggregatingState():
            return PythonType("VALUE", _portable(type_.type))
    code = "a type of Types, nor a state such as ListState(Types.…), nor the text of one"
    raise OptionError(f"{type_!r} is neither {code_or_text(code, 'a type such as LONG, nor a state such as ListState<LONG>')}")


@contextmanager
def asking_for_python_type(state: StateDescription) -> Iterator[None]:
    """Add to an error about the columns of a state of PyFlink without its type that it has to be given."""
    try:
        yield
    except InvalidRowError as problem:
        if not is_python_state(state.name) or not any(isinstance(s, BytesSerializer) for s in state.serializers.values()):
            raise
        giving = f"give the type in the job by {spelled('python_type')}"
        raise InvalidRowError(f"{problem}; it is a state of PyFlink: {giving}") from None


def unpickled_of(argument: bool | TypeSerializer | PortableType) -> Unpickled:
    """Return whether pickles are loaded as tasks get it."""
    if isinstance(argument, TypeSerializer):
        return PortableType.of(argument)
    if not isinstance(argument, (bool, PortableType)):
        raise TypeError(f"found a {type(argument).__name__}")
    return argument


def spec_of(type_: PythonType, ttl: bool | None = None) -> StateSpec:
    """Return the state to write for a type; a type alone means value state."""
    value = type_.value.restore()
    if type_.kind == "MAP" and type_.map_key is not None:
        return MapState(type_.map_key.restore(), value, ttl=ttl)
    return (ListState if type_.kind == "LIST" else ValueState)(value, ttl=ttl)


def _portable(type_: TypeSerializer) -> PortableType:
    if not isinstance(type_, TypeSerializer):
        raise OptionError(f"{type_!r} is not a type of Types")
    python_coder(type_)
    return PortableType.of(type_)


def _parsed(text: str) -> TypeSerializer | StateSpec:
    match = _SPEC.fullmatch(text)
    if match is None:
        return parse_type(text)
    name, inside = match.groups()
    if name == "MapState":
        types = parse_type(f"MAP<{inside}>")
        return MapState(types.key, types.value.inner)  # type: ignore[attr-defined]
    return (ListState if name == "ListState" else ValueState)(parse_type(inside))


def to_json(type_: PythonType) -> dict[str, Any]:
    """Return what JSON has of a type."""
    content: dict[str, Any] = {"kind": type_.kind, "value": _json(type_.value)}
    return content if type_.map_key is None else content | {"map_key": _json(type_.map_key)}


def of_json(content: Any) -> PythonType:
    """Return the type of :func:`to_json`, or of text."""
    if isinstance(content, str):
        return python_type_of(content)
    if not isinstance(content, Mapping) or content.get("kind") not in ("", "VALUE", "LIST", "MAP"):
        raise ValueError(f"{content!r} is not a type")
    map_key = content.get("map_key")
    return PythonType(content["kind"], _of_json(content.get("value")), None if map_key is None else _of_json(map_key))


def _json(type_: PortableType) -> dict[str, Any]:
    return {"snapshot": b64encode(type_.snapshot).decode(), "rows": type_.rows}


def _of_json(content: Any) -> PortableType:
    try:
        rows = tuple(None if names is None else tuple(names) for names in content.get("rows", ()))
        return PortableType(b64decode(content["snapshot"], validate=True), rows)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"{content!r} is not a serializer snapshot: {error!r}") from error
