"""What shapes the rows of a state besides its bytes, as text that a position records.

Rows that were read with other values do not belong into one table or one stream: a table would have two time zones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import sha256
from types import CodeType
from typing import Any, Final

import state_processor
from state_processor.options import (
    READ_OPTIONS,
    SNAPSHOT_OPTIONS,
    Option,
    ReadOptions,
    SnapshotAccess,
    import_serializers,
    option_values,
    spelled,
)
from state_processor.serializers import TypeSerializer
from state_processor.support import attributes, names_of
from state_processor.types import ENTRY_POINT_GROUP, entry_points, user_registrations

RowShape = Mapping[str, str]
"""The values that shape rows, by name."""

NOT_OF_ROWS: Final = frozenset(
    {"path_mapping", "allow_paths", "serializers", "uids", "storage_options", "batch_memory", "threads"}
)
"""Options that change where files are found, and how much memory a read takes. Rows are the same."""
_OF_NO_STATE: Final = frozenset({"connectors"})
"""Registrations that no keyed state and no broadcast state needs."""
_VERSION: Final = "version"
_REGISTRATIONS: Final = "registrations"
_SHORT: Final = 60
"""Longer values are recorded as a digest."""
_UTC: Final = "UTC"


def row_shape(read: ReadOptions, access: SnapshotAccess) -> dict[str, str]:
    """Return what shapes rows: options, registrations of users and of installed packages, and the version of this library.

    Options that have their default values are left out.

    ``read``: the options of reading values. ``access``: the options of opening snapshots, with the content of the plan.
    """
    import_serializers(access.serializers)
    shape = {_VERSION: state_processor.__version__}
    for holder, options in ((read, READ_OPTIONS), (access, SNAPSHOT_OPTIONS)):
        shape |= {o.argument: _short(value) for o, value in _set_values(holder, options)}
    packages = sorted(f"{e.value} {e.dist.version if e.dist else ''}" for e in entry_points(group=ENTRY_POINT_GROUP))
    registered = attributes(user_registrations(), names_of(fields(user_registrations())))
    content = {name: entries for name, entries in registered.items() if entries and name not in _OF_NO_STATE}
    if content or packages:
        shape[_REGISTRATIONS] = _digest(_described((content, packages)))
    return shape


def shape_text(shape: RowShape) -> str:
    """Return a shape as a position records it."""
    return json.dumps(shape, sort_keys=True)


def shape_of_text(text: str | None) -> dict[str, str]:
    """Return the shape that a position records; empty if an earlier version of this library made the position."""
    return {} if text is None else {str(name): str(value) for name, value in json.loads(text).items()}


def difference(recorded: RowShape, present: RowShape) -> str:
    """Return in words how a recorded shape differs from the present one; empty if they are equal."""
    if not recorded:
        return "the options of its rows were not recorded"
    changed = [n for n in sorted({*recorded, *present}) if recorded.get(n) != present.get(n)]
    return ", ".join(f"{_spelled(name)} was {_said(recorded, name)} and is {_said(present, name)}" for name in changed)


def _spelled(name: str) -> str:
    if name == _VERSION:
        return "the version of state-processor"
    return "the content of the registrations" if name == _REGISTRATIONS else spelled(name)


def _said(shape: RowShape, name: str) -> str:
    return shape.get(name, "not set")


def _set_values(holder: Any, options: Iterable[Option]) -> Iterator[tuple[Option, Any]]:
    """Yield the options that shape rows and do not have their default."""
    values = option_values(holder)
    for option in options:
        value = values[option.argument]
        is_default = value == option.default or (option.argument == "time_zone" and value == _UTC)
        if option.argument not in NOT_OF_ROWS and not is_default:
            yield option, value


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else _described(value)
    return text if len(text) <= _SHORT else _digest(text)


def _digest(text: str) -> str:
    return f"sha256:{sha256(text.encode()).hexdigest()[:16]}"


def _described(value: Any, enclosing_ids: tuple[int, ...] = ()) -> str:
    """Return text that is equal in another process if the value means the same."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, Enum)):
        return repr(value)
    if isinstance(value, CodeType):
        parts: tuple[Any, ...] = (value.co_code, value.co_names, value.co_consts)
        return f"code{_described(parts, enclosing_ids)}"
    if id(value) in enclosing_ids:
        return "itself"
    enclosing_ids = (*enclosing_ids, id(value))
    if isinstance(value, Mapping):
        items = (f"{_described(k, enclosing_ids)}:{_described(v, enclosing_ids)}" for k, v in value.items())
        return f"{{{','.join(sorted(items))}}}"
    if isinstance(value, (set, frozenset)):
        return f"{{{','.join(sorted(_described(v, enclosing_ids) for v in value))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(_described(v, enclosing_ids) for v in value)}]"
    if isinstance(value, type) or hasattr(value, "__code__"):
        return _of_code(value, enclosing_ids)
    return _of_object(value, enclosing_ids)


def _of_code(value: Any, enclosing_ids: tuple[int, ...]) -> str:
    """Describe a class or a function. The version of this library tells its own code."""
    name = f"{value.__module__}.{value.__qualname__}"
    if value.__module__.partition(".")[0] in (state_processor.__name__, "builtins", "typing", "abc"):
        return name
    if hasattr(value, "__code__"):
        return f"{name}{_described(value.__code__, enclosing_ids)}"
    members = {n: m for n, v in vars(value).items() if hasattr(m := getattr(v, "__func__", v), "__code__")}
    bases = [base for base in value.__bases__ if base is not object]
    return f"{name}{_described((bases, members), enclosing_ids)}"


def _of_object(value: Any, enclosing_ids: tuple[int, ...]) -> str:
    kind = _described(type(value), enclosing_ids)
    if isinstance(value, TypeSerializer):
        try:
            return f"{kind}{value.snapshot().to_bytes().hex()}"
        except Exception:  # its class belongs to users: what it has is compared instead
            pass
    names = names_of(fields(value)) if is_dataclass(value) else list(getattr(value, "__dict__", {}))
    return f"{kind}{_described(attributes(value, names), enclosing_ids)}"
