"""Options that dataclasses declare, with the values that users may pass, and the refusal of options without effect.

A kind of values has one check for keyword arguments and text, and the text of each value.

An option declares the kinds of reads that it acts on (``on``), the kinds whose rows are as it asks anyway (``holds_on``), and the
options that it needs (``needs``). Signatures and flags follow the declaration. One call may read several kinds, so
:func:`check_effects` refuses every other use, whichever way the option was given.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, time
from decimal import Decimal
from functools import cache
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np
import pyarrow as pa

from state_processor.backends.read.read_options import Declaration, Kind, declarations
from state_processor.backends.state.python_states import PythonType, Unpickled
from state_processor.options.user_serializers import is_module_name
from state_processor.options.user_tables import as_key_table, rows_of
from state_processor.serializers.core.time_values import java_zone
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.shared_types import PortableType
from state_processor.serializers.text_grammar import parse_json
from state_processor.support.doors import choice_of, flag_name, spelled, text_name
from state_processor.support.errors import OptionError, StateProcessorError
from state_processor.support.mappings import attributes, map_values, names_of
from state_processor.types.durations import duration_ms, duration_text, instant_ms

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN_NUMBERS: Final = "biuf"
"""Kinds of numpy's numbers whose Python values are the same numbers. Times have other values."""
_JSON_BEGINS: Final = ("{", "[")
_SIZE_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _unchanged(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class ValueKind:
    """A kind of value."""

    expected: str  # description of the values, for messages and documentation: ``true or false``
    annotation: str  # the type of keyword arguments, as in :mod:`~state_processor.options.groups`
    check: Callable[[Any], Any]  # returns the normal form of a value, or raises a ``ValueError`` or ``TypeError`` with the reason
    decode: Callable[[str], Any] = _unchanged  # returns the value of an option's text; ``check`` comes after it
    encode: Callable[[Any], str] = str  # returns the text of a normal form
    is_secret: bool = False  # whether messages leave out values

    def of_at_least(self, least: int) -> ValueKind:
        """Return the kind of the numbers of this kind that are not smaller than ``least``."""

        def check(value: Any) -> Any:
            number = self.check(value)
            if number < least:
                raise ValueError
            return number

        return replace(self, expected=f"{self.expected} of at least {least}", check=check)

    def of_argument(self, name: str, value: Any) -> Any:
        """Return the normal form of a keyword argument."""
        return self._checked(spelled(name), spelled(name, value), value, self.check)

    def of_text(self, name: str, text: str) -> Any:
        """Return the normal form of the text of an option."""
        return self._checked(f"option {name}", f"option {name}={text!r}", text, lambda decoded: self.check(self.decode(decoded)))

    def _checked(self, name: str, assignment: str, value: Any, check: Callable[[Any], Any]) -> Any:
        try:
            return check(value)
        except OptionError:
            raise
        except (ValueError, TypeError) as error:
            if self.is_secret:
                raise OptionError(f"{name}: expected {self.expected}") from None
            reason = f" ({error})" if str(error) else ""
            raise OptionError(f"{assignment}: expected {self.expected}{reason}") from None


def one_of(*choices: str) -> ValueKind:
    """Return the kind of values that are one of some names, in any spelling."""

    def check(value: Any) -> str:
        choice = choice_of(value, choices)
        if choice is None:
            raise ValueError
        return choice

    return ValueKind(f"one of {', '.join(map(repr, choices))}", "str", check)


def _check_text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("empty" if value == "" else f"found a {type(value).__name__}")
    return value


def _check_path(value: str | PathLike[str]) -> str:
    return _check_text(fspath(value))


def _check_boolean(value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError
    return bool(value)


def _decode_boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.strip().lower())


def _check_count(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.strip().isdecimal():
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    if value < 0:
        raise ValueError
    return value


def _check_size(value: Any) -> int:
    match = re.fullmatch(r"(\d+)\s*([kmg]?)(?:i?b)?", str(value).strip().lower())
    if match is None or not int(match[1]):
        raise ValueError
    return int(match[1]) * _SIZE_UNITS[match[2]]


def _check_keys(keys: Any) -> Any:
    """Return the keys of a list or a similar collection as a tuple, and a table of keys as an Arrow table.

    Iterating over a mapping, or over a table of another kind, would yield its keys or columns instead.
    """
    table = as_key_table(keys)
    if table is not None:
        return table
    if isinstance(keys, np.ndarray) and keys.ndim == 1 and keys.dtype.kind in _PLAIN_NUMBERS:
        return tuple(keys.tolist())
    single = isinstance(keys, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(keys, Iterable)
    if single or getattr(keys, "ndim", 1) != 1 or hasattr(keys, "schema"):
        raise TypeError(f"found a {type(keys).__name__}")
    return tuple(keys)


def _encode_keys(keys: Any) -> str:
    return json.dumps(rows_of(keys) if isinstance(keys, pa.Table) else keys, default=_json_of_key)


def _json_of_key(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise OptionError(f"keys: {value!r} can't be written as JSON; expected numbers, text, booleans, dates, times or decimals")


def _check_names(names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"found a {type(names).__name__}")
    checked = tuple(dict.fromkeys(map(_check_text, names)))
    if not checked:
        raise ValueError("found an empty list")
    return checked


def _decode_names(text: str) -> Any:
    """Return a JSON list, or names with commas between them."""
    return parse_json(text) if text.lstrip().startswith("[") else list(map(str.strip, text.split(",")))


def _check_strings(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise TypeError
    return {fspath(name): fspath(text) for name, text in value.items()}


def _check_paths(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = parse_json(value) if value.startswith("[") else [value]
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError
    return tuple(map(_check_path, value))


def _check_time_zone(value: Any) -> str:
    try:
        return java_zone(_check_text(value)).name
    except OptionError:
        raise ValueError("it is not in the time zone database") from None


def _check_modules(value: Any) -> tuple[str, ...]:
    modules = filter(None, map(str.strip, value.split(","))) if isinstance(value, str) else map(_check_text, value)
    names = tuple(modules)
    for name in names:
        if not is_module_name(name):
            raise ValueError(f"{name[:80]!r} is none")
    return names


def _check_types(types: Any) -> tuple[tuple[str, PortableType | JavaType], ...]:
    """Return types by path, in the form that tasks get.

    Java types are for parts that Kryo wrote; a serializer snapshot is for a column that is read by Flink's rules of evolution.
    """
    if not isinstance(types, Mapping):
        raise TypeError
    return tuple((path, type_ if isinstance(type_, PortableType) else _java_type(path, type_)) for path, type_ in types.items())


def _java_type(path: str, type_: Any) -> JavaType:
    from state_processor.types.declared_types import (
        java_types_by_path,  # few tasks need the parser of types, and its import is slow
    )

    return java_types_by_path({path: type_})[path]


def _decode_types(text: str) -> dict[str, Any]:
    types = parse_json(text)
    if not isinstance(types, dict):
        raise TypeError
    return {path: type_ if isinstance(type_, str) else _decode_snapshot(path, type_) for path, type_ in types.items()}


def _decode_snapshot(path: str, type_: Any) -> PortableType:
    try:
        rows = tuple(None if names is None else tuple(names) for names in type_.get("rows", ()))
        return PortableType(b64decode(type_["snapshot"], validate=True), rows)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"column {path!r}: {type_!r} is neither a type nor a serializer snapshot: {error!r}") from error


def _encode_types(types: Iterable[tuple[str, PortableType | JavaType]]) -> str:
    return json.dumps({path: _json_of_type(type_) for path, type_ in types})


@contextmanager
def _as_reason() -> Iterator[None]:
    """Raise errors about a type as reasons why a value is not of its kind."""
    try:
        yield
    except StateProcessorError as error:
        raise ValueError(str(error)) from None


def _check_python_type(type_: Any) -> PythonType:
    from state_processor.types.declared_types import python_type_of  # as above

    with _as_reason():
        return python_type_of(type_)


def _check_python_types(types: Any) -> tuple[tuple[str, PythonType], ...]:
    if not isinstance(types, Mapping):
        raise TypeError
    return tuple((_check_text(name), _check_python_type(type_)) for name, type_ in types.items())


def _decode_python_type(text: str) -> PythonType:
    from state_processor.types.declared_types import of_json  # as above

    with _as_reason():
        return of_json(parse_json(text) if text.lstrip().startswith("{") else text)


def _decode_python_types(text: str) -> dict[str, PythonType]:
    from state_processor.types.declared_types import of_json  # as above

    types = parse_json(text)
    if not isinstance(types, dict):
        raise TypeError
    with _as_reason():
        return map_values(of_json, types)


def _encode_python_type(type_: PythonType) -> str:
    from state_processor.types.declared_types import to_json  # as above

    return json.dumps(to_json(type_))


def _encode_python_types(types: Iterable[tuple[str, PythonType]]) -> str:
    return json.dumps({name: json.loads(_encode_python_type(type_)) for name, type_ in types})


def _check_unpickled(types: Any) -> Unpickled:
    from state_processor.types.declared_types import unpickled_of  # as above

    return unpickled_of(types)


def _json_of_type(type_: PortableType | JavaType) -> Any:
    if isinstance(type_, JavaType):
        return f"KRYO<{type_}>"
    return {"snapshot": b64encode(type_.snapshot).decode(), "rows": type_.rows}


def _check_fields(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, Mapping):
        raise TypeError
    return tuple((_check_text(path), _check_names(names)) for path, names in value.items())


def _check_plan(value: Any) -> str:
    return json.dumps(value) if isinstance(value, Mapping) else _check_path(value)


def _check_uids(value: Any) -> str | tuple[str, ...]:
    """Return the path of a file of uids, or the uids."""
    return _check_path(value) if isinstance(value, (str, PathLike)) else _check_names(value)


def _decode_uids(text: str) -> Any:
    return parse_json(text) if text.startswith("[") else text


def _check_settings(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise TypeError
    return dict(value)


def _decode_settings(text: str) -> dict[str, Any]:
    return {name: json.loads(setting) if setting[:1] in _JSON_BEGINS else setting for name, setting in json.loads(text).items()}


def _encode_settings(value: Mapping[str, Any]) -> str:
    return json.dumps({name: setting if isinstance(setting, str) else json.dumps(setting) for name, setting in value.items()})


TEXT: Final = ValueKind("text", "str", _check_text)
BOOLEAN: Final = ValueKind("true or false", "bool", _check_boolean, _decode_boolean, lambda value: str(value).lower())
WHOLE_NUMBER: Final = ValueKind("a number", "int", _check_count)
FIELDS: Final = ValueKind(
    'names by state such as {"left-records": ["id", "amount"]}',
    "Mapping[str, Sequence[str]]",
    _check_fields,
    parse_json,
    lambda value: json.dumps(dict(value)),
)
PLAN: Final = ValueKind("a path, or the JSON of a compiled plan", "str | PathLike[str] | Mapping[str, Any]", _check_plan)

VALUES: Final = {
    "text": TEXT,
    "path": ValueKind("a path", "str | PathLike[str]", _check_path),
    "boolean": BOOLEAN,
    "count": WHOLE_NUMBER,
    "size": ValueKind("a size such as 64m or 67108864", "int | str", _check_size),
    "duration": ValueKind("a duration such as 1h, 7d or PT1H", "str | timedelta", duration_ms, encode=duration_text),
    "instant": ValueKind(
        "now, a point in time such as 2024-01-31T12:00:00Z, or epoch milliseconds", "str | int | datetime", instant_ms
    ),
    "keys": ValueKind('a list of keys such as ["a", "b"], or a table of keys', "Keys", _check_keys, parse_json, _encode_keys),
    "names": ValueKind('names such as ["key", "value.id"]', "Sequence[str]", _check_names, _decode_names, json.dumps),
    "path_mapping": ValueKind(
        'a mapping of recorded to present prefixes such as {"s3://old/prefix": "/new/prefix"}',
        "Mapping[str, str]",
        _check_strings,
        parse_json,
        json.dumps,
    ),
    "paths": ValueKind(
        'a path, or paths such as ["/data/flink", "s3://bucket/flink"]',
        "Iterable[str | PathLike[str]]",
        _check_paths,
        encode=json.dumps,
    ),
    "modules": ValueKind("names of modules, separated by commas", "Sequence[str]", _check_modules, encode=",".join),
    "settings": ValueKind(
        'settings such as {"endpoint_override": "http://localhost:9000"}',
        "Mapping[str, Any]",
        _check_settings,
        _decode_settings,
        _encode_settings,
        is_secret=True,
    ),
    "python_type": ValueKind(
        "a type such as LONG, or a state such as ListState<LONG>",
        "PythonTypeArgument",
        _check_python_type,
        _decode_python_type,
        _encode_python_type,
    ),
    "python_types": ValueKind(
        'types by state such as {"total": "LONG", "items": "ListState<STRING>"}',
        "Mapping[str, PythonTypeArgument]",
        _check_python_types,
        _decode_python_types,
        _encode_python_types,
    ),
    "unpickled": ValueKind(
        "true, false or a type",
        "bool | TypeSerializer",
        _check_unpickled,
        _decode_boolean,
        lambda value: str(value).lower(),
    ),
    "time_zone": ValueKind("a time zone such as America/New_York or +05:30", "str", _check_time_zone),
    "types": ValueKind(
        'types by path such as {"value.counters": "MAP<STRING,LONG>"}',
        "DeclaredTypes",
        _check_types,
        _decode_types,
        _encode_types,
    ),
    "fields": FIELDS,
    "plan": PLAN,
    "uids": ValueKind(
        'the path of a file with a uid on each line, or uids such as ["orders", "payments"]',
        "str | PathLike[str] | Sequence[str]",
        _check_uids,
        _decode_uids,
        lambda value: value if isinstance(value, str) else json.dumps(value),
    ),
}
"""The kinds of values by the names that declarations of options use."""


@dataclass(frozen=True)
class Option(Declaration):
    """An option: its declaration, and its keyword argument (the name of the field)."""

    argument: str = ""

    @property
    def kind(self) -> ValueKind:
        """The values that users may pass."""
        return value_kind(self.values, self.least)

    @property
    def applies_to(self) -> frozenset[Kind]:
        """The kinds of reads that accept it."""
        return self.on | self.holds_on

    @property
    def flag(self) -> str:
        """Its flag on the command line with the operand; empty without a flag."""
        return "" if self.operand is None else f"{flag_name(self.argument)} {self.operand}".rstrip()

    @property
    def is_repeated(self) -> bool:
        """Whether its flag may be repeated: for each entry of a mapping, or each element."""
        return "=" in (self.operand or "") or (self.operand or "").endswith("...")

    @property
    def name(self) -> str:
        """Name as an option of the data source, in camel case."""
        return text_name(self.argument)


@cache
def value_kind(values: Any, least: int | None = None) -> ValueKind:
    """Return the kind of values that a declaration names: an entry of ``VALUES``, or the choices of a ``Literal``."""
    kind = VALUES[values] if isinstance(values, str) else one_of(*get_args(values))
    return kind if least is None else kind.of_at_least(least)


def options_of(holder: type) -> tuple[Option, ...]:
    """Return the options that a dataclass declares."""
    declared = declarations(holder).items()
    return tuple(Option(**attributes(d, names_of(fields(d))), argument=argument) for argument, d in declared)


def values_of(options: Iterable[Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of some options."""
    return {o.argument: values[o.argument] for o in options if o.argument in values}


def checked(options: Iterable[Option], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the normal forms of keyword arguments. Arguments that are ``None`` are left out."""
    values: dict[str, Any] = {}
    for option in options:
        argument = option.argument
        if arguments.get(argument) is not None:
            values[argument] = option.kind.of_argument(argument, arguments[argument])
    return values


UID = Option("text", "The operator, by uid.", argument="uid")
UID_HASH = Option("text", "The operator, by the hash of its uid.", argument="uid_hash")


def check_effects(arguments: Collection[str], kind: Kind, options: Iterable[Option], subject: str) -> None:
    """Check that every option that is given has an effect.

    ``arguments``: the options that are given, as keyword arguments. ``kind``: what is read. ``options``: entries of the table of
    options. ``subject``: the operator and the state, for messages.
    """
    for option in options:
        if option.argument not in arguments:
            continue
        name = spelled(option.argument)
        if kind not in option.applies_to:
            applies = ", ".join(k.value for k in Kind if k in option.on)
            way = "Name one state, or leave" if kind is Kind.WHOLE and Kind.KEYED in option.on else "Leave"
            raise OptionError(
                f"{name} does not apply to {subject}, a read of {kind.value}: it is for {applies}. {way} {name} out"
            )
        if option.needs and not any(need in arguments for need in option.needs):
            raise OptionError(f"{name} needs {' or '.join(map(spelled, option.needs))}: give it too, or leave {name} out")


def check_given(values: Mapping[str, Any], options: Iterable[str], condition: str) -> None:
    """Refuse options that act only with a value of another argument that the user did not give.

    ``values``: the arguments. An argument that is ``None`` is not given. ``condition``: when they act, and what to do: ``with
    --check: add that``.
    """
    for name in options:
        if values.get(name) is not None:
            raise OptionError(f"{spelled(name)} acts only {condition}, or leave {spelled(name)} out")


def check_time_to_live(arguments: Collection[str], subject: str, *, has_ttl: bool) -> None:
    """Check that values have times of last access where an option needs them."""
    if "ttl" in arguments and not has_ttl:
        name = spelled("ttl")
        raise OptionError(f"{name} does not apply to {subject}, declared without time-to-live. Leave {name} out")
