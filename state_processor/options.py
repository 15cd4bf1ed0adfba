"""Options of the data sources, and the keyword arguments of the Python surfaces: one set of names and rules.

Spark hands over options as strings under case-insensitive names.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, cast

from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.state.column_types import UndescribedAsBytes
from state_processor.durations import duration_ms, duration_text, instant_ms
from state_processor.format_names import METADATA_FORMAT, SAVEPOINT_FORMAT
from state_processor.identifier import OperatorIdentifier
from state_processor.option_names import check_option_names
from state_processor.serializers.decode_options import Nanos
from state_processor.serializers.errors import OptionError
from state_processor.serializers.evolution.resolution import PortableType
from state_processor.serializers.kryo.types import JavaType

_NANOS: Final = ("error", "truncate", "string")
_UNDESCRIBED: Final = ("error", "bytes")
_KINDS: Final = ("KEYED", "TIMER", "OPERATOR_LIST", "UNION_LIST", "BROADCAST", "RAW_KEYED", "RAW_OPERATOR")
_TABLES: Final = ("operators", "states", "handles")
_EXAMPLE_KEY: Final = '"a"'
_SIZE_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def read_options(
    *,
    flatten: bool = True,
    metadata: bool = False,
    keys: Sequence[Any] | None = None,
    nanos: str = "error",
    row_kind: bool = False,
    ttl: str | timedelta | None = None,
    as_of: str | int | datetime | None = None,
    types: Mapping[str, PortableType | JavaType] | None = None,
    undescribed: str = "error",
) -> ReadOptions:
    """Check keyword arguments of reading.

    ``types`` are as :data:`~state_processor.backends.state.column_types.WantedTypes` has them.

    Raises
    ------
    OptionError
        If one makes no sense.
    """
    if nanos not in _NANOS:
        raise OptionError(f"nanos={nanos!r}: one of {', '.join(map(repr, _NANOS))} is wanted")
    if undescribed not in _UNDESCRIBED:
        raise OptionError(f"undescribed={undescribed!r}: one of {', '.join(map(repr, _UNDESCRIBED))} is wanted")
    return ReadOptions(
        flatten=flatten,
        metadata=metadata,
        keys=None if keys is None else key_list(keys),
        nanos=cast("Nanos", nanos),
        row_kind=row_kind,
        ttl_ms=None if ttl is None else duration_ms(ttl),
        as_of_ms=None if as_of is None else instant_ms(as_of),
        types=(*(types or {}).items(), *([("", UndescribedAsBytes())] if undescribed == "bytes" else [])),
    )


def key_list(keys: Any) -> tuple[Any, ...]:
    """The keys to read, of a list or anything like it.

    Raises
    ------
    OptionError
        If it is a single key, a mapping or a table: taken apart it would be other keys.
    """
    single = isinstance(keys, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(keys, Iterable)
    if single or getattr(keys, "ndim", 1) != 1 or hasattr(keys, "schema"):
        raise OptionError(f"keys={keys!r} ({type(keys).__name__}): expected a list of keys, such as keys=[{_EXAMPLE_KEY}]")
    return tuple(keys)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of the data source, parsed.

    ``split_bytes`` is the size of what one task reads; ``serializers`` are modules to import where values are decoded, which
    register serializers of the user's own; ``scratch`` is the directory for copies of files; ``pushdown`` is ``None`` to follow
    Spark's configuration.
    """

    path: str
    operator: OperatorIdentifier | None = None
    state: str | None = None
    kind: str | None = None
    table: str = "operators"
    read: ReadOptions = field(default_factory=ReadOptions)
    path_mapping: dict[str, str] = field(default_factory=dict)
    split_bytes: int | None = None
    serializers: tuple[str, ...] = ()
    scratch: str | None = None
    pushdown: bool | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str], source: str = SAVEPOINT_FORMAT) -> SourceOptions:
        """The options that Spark hands over to the format ``source``.

        Raises
        ------
        OptionError
            If one is misspelt or makes no sense, or there is no path.
        """
        given = {name.lower(): value for name, value in options.items()}
        check_option_names(given, [o.name for o in _OPTIONS if source in o.sources], f"reading {source}")
        values = {name: option.parse(option.name, given[name]) for name, option in _BY_NAME.items() if name in given}
        if "path" not in given:
            raise OptionError("no path: pass the snapshot's directory to load(path)")
        if "uid" in values and "uidhash" in values:
            raise OptionError("both uid and uidHash are given: name the operator by one of them")
        operator = None
        if "uid" in values:
            operator = OperatorIdentifier.for_uid(values["uid"])
        elif "uidhash" in values:
            operator = OperatorIdentifier.for_uid_hash(values["uidhash"])
        reading = {option.argument: values[name] for name, option in _BY_NAME.items() if option.of_reading and name in values}
        return cls(
            path=given["path"],
            operator=operator,
            state=values.get("state"),
            kind=values.get("kind"),
            table=values.get("table", "operators"),
            read=read_options(**reading),
            path_mapping=values.get("pathmapping", {}),
            split_bytes=values.get("splitsize"),
            serializers=values.get("serializers", ()),
            scratch=values.get("scratch"),
            pushdown=values.get("pushdown"),
        )


def option_strings(**arguments: Any) -> dict[str, str]:
    """Keyword arguments as options of the data source; those that are ``None`` are left out."""
    return {_BY_ARGUMENT[name].name: _BY_ARGUMENT[name].format(value) for name, value in arguments.items() if value is not None}


def _text(name: str, text: str) -> str:
    if not text:
        raise OptionError(f"option {name} is empty")
    return text


def _boolean(name: str, text: str) -> bool:
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise OptionError(f"option {name}={text!r}: true or false is wanted")
    return value


def _one_of(choices: Sequence[str]) -> Callable[[str, str], str]:
    by_lower = {c.lower(): c for c in choices}

    def parse(name: str, text: str) -> str:
        choice = by_lower.get(text.strip().lower())
        if choice is None:
            raise OptionError(f"option {name}={text!r}: one of {', '.join(map(repr, choices))} is wanted")
        return choice

    return parse


def _json(kind: type, example: str) -> Callable[[str, str], Any]:
    def parse(name: str, text: str) -> Any:
        try:
            value = json.loads(text)
        except ValueError as error:
            raise OptionError(f"option {name}={text!r} is no JSON ({error}); it looks like {example}") from None
        if not isinstance(value, kind):
            raise OptionError(f"option {name}={text!r}: it looks like {example}")
        return value

    return parse


def _path_mapping(name: str, text: str) -> dict[str, str]:
    mapping = _json(dict, '{"s3://old/prefix": "/new/prefix"}')(name, text)
    if not all(isinstance(value, str) for value in mapping.values()):
        raise OptionError(f"option {name}={text!r}: every recorded prefix needs a present prefix, both text")
    return cast("dict[str, str]", mapping)


def _types(name: str, text: str) -> dict[str, PortableType | JavaType]:
    types: dict[str, PortableType | JavaType] = {}
    for column, given in _json(dict, '{"value.counters": "MAP<STRING,LONG>"}')(name, text).items():
        if isinstance(given, str):
            from state_processor.declared_types import java_types_by_path  # few reads need the parser, and all pay for it

            types |= java_types_by_path({column: given})
            continue
        try:
            rows = tuple(None if names is None else tuple(names) for names in given.get("rows", ()))
            types[column] = PortableType(b64decode(given["snapshot"], validate=True), rows)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise OptionError(f"option {name}, column {column!r}: {given!r} describes no type ({error})") from error
    return types


def _types_text(types: Mapping[str, PortableType | JavaType]) -> str:
    def form(type_: PortableType | JavaType) -> Any:
        if isinstance(type_, JavaType):
            return f"KRYO<{type_}>"
        return {"snapshot": b64encode(type_.snapshot).decode(), "rows": type_.rows}

    return json.dumps({path: form(type_) for path, type_ in types.items()})


def _size(name: str, text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([kmg]?)(?:i?b)?", text.strip().lower())
    if match is None or not int(match[1]):
        raise OptionError(f"option {name}={text!r}: a size is wanted, such as 64m or 67108864")
    return int(match[1]) * _SIZE_UNITS[match[2]]


def _modules(_: str, text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _keys_text(keys: Any) -> str:
    return json.dumps(key_list(keys), default=_key_json)


def _key_json(value: Any) -> Any:
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise OptionError(f"keys: {value!r} has no form in JSON")


@dataclass(frozen=True, slots=True)
class _Option:
    """One option: its name, its keyword argument, and how it is read from and written as text."""

    name: str
    argument: str
    parse: Callable[[str, str], Any]
    format: Callable[[Any], str] = _as_text
    of_reading: bool = False
    sources: tuple[str, ...] = (SAVEPOINT_FORMAT,)


_OPTIONS: Final = (
    _Option("uid", "uid", _text),
    _Option("uidHash", "uid_hash", _text),
    _Option("state", "state", _text),
    _Option("kind", "kind", _one_of(_KINDS)),
    _Option("table", "table", _one_of(_TABLES), sources=(METADATA_FORMAT,)),
    _Option("flatten", "flatten", _boolean, of_reading=True),
    _Option("metadata", "metadata", _boolean, of_reading=True),
    _Option("keys", "keys", _json(list, '["a", "b"]'), _keys_text, of_reading=True),
    _Option("nanos", "nanos", _one_of(_NANOS), of_reading=True),
    _Option("rowKind", "row_kind", _boolean, of_reading=True),
    _Option("ttl", "ttl", lambda _, text: text, lambda value: duration_text(duration_ms(value)), of_reading=True),
    _Option("asOf", "as_of", lambda _, text: text, lambda value: str(instant_ms(value)), of_reading=True),
    _Option("types", "types", _types, _types_text, of_reading=True),
    _Option("undescribed", "undescribed", _one_of(_UNDESCRIBED), of_reading=True),
    _Option("pathMapping", "path_mapping", _path_mapping, json.dumps, sources=(SAVEPOINT_FORMAT, METADATA_FORMAT)),
    _Option("splitSize", "split_size", _size),
    _Option("serializers", "serializers", _modules, ",".join, sources=(SAVEPOINT_FORMAT, METADATA_FORMAT)),
    _Option("scratch", "scratch", _text, sources=(SAVEPOINT_FORMAT, METADATA_FORMAT)),
    _Option("pushdown", "pushdown", _boolean),
)
_BY_NAME: Final = {option.name.lower(): option for option in _OPTIONS}
_BY_ARGUMENT: Final = {option.argument: option for option in _OPTIONS}
