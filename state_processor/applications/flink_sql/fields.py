"""Fields of the rows of plans with their types, and the identities of rows and columns.

Identities are equal in two plans if the meaning is equal, regardless of positions. The identity of a column is the expression
that computes it from columns of tables. So ``$f2`` of two plans is the same column if it has the same expression. The identity
of rows does not contain columns: rows of a table, rows that a condition selects, groups by some columns. Rows and columns of
unknown nodes are equal only if their whole input is equal.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from state_processor.errors import OptionError
from state_processor.support import names_of, without_keys
from state_processor.types import (
    ArrayType,
    LogicalType,
    MapType,
    MultisetType,
    RowField,
    RowType,
    TimestampType,
    parse_logical_type,
)

_FIELD: Final = re.compile(r"\s*`((?:[^`]|``)*)`\s*(.*)", re.DOTALL)
_ROW: Final = re.compile(r"\s*ROW\s*<(.*)>\s*(?:NOT\s+NULL\s*)?", re.DOTALL)
_OPENING: Final = {"<": 1, "(": 1, ">": -1, ")": -1}
_LOCAL_ZONED: Final = {"TIMESTAMP_WITHOUT_TIME_ZONE": False, "TIMESTAMP_WITH_LOCAL_TIME_ZONE": True}
_COLLECTIONS: Final = {"ARRAY": ArrayType, "MULTISET": MultisetType}
_DIGITS: Final = 6
"""Digits of the seconds of a timestamp that a plan leaves out."""


@dataclass(frozen=True, slots=True)
class PlanField:
    """A field of a row: its name and its type. A plan does not describe types of user classes.

    ``fields`` has the field names of a row with unknown types.
    """

    name: str
    type: LogicalType | None = None
    fields: tuple[PlanField, ...] = ()

    def __str__(self) -> str:
        return f"`{self.name}` {self.type or 'of an unknown type'}"


PlanFields = tuple[PlanField, ...]


def row_fields(type_json: Any) -> PlanFields:
    """Return the fields of a row type."""
    if isinstance(type_json, Mapping) and type_json.get("type") == "ROW":
        return tuple(PlanField(str(f["name"]), plan_type(f["fieldType"])) for f in type_json.get("fields", ()))
    match = _ROW.fullmatch(type_json) if isinstance(type_json, str) else None
    if match is None:
        raise OptionError(f"expected the type of a row, found {str(type_json)[:200]!r}")
    return tuple(map(_field, _parts(match[1])))


def distinct_names(fields: Iterable[PlanField]) -> PlanFields:
    """Return the fields with distinct names: Flink permits two fields with the same name."""
    by_name: dict[str, PlanField] = {}
    for position, plan_field in enumerate(fields):
        name = plan_field.name
        while name in by_name:
            name = f"{name}_{position}"
        by_name[name] = replace(plan_field, name=name)
    return tuple(by_name.values())


C = TypeVar("C")


def picked(columns: Sequence[C], positions: Iterable[Any] | None) -> tuple[C, ...]:
    """Return some columns, fields or names by their positions."""
    return tuple(columns[int(position)] for position in positions or ())


def names_text(fields: Iterable[PlanField]) -> str:
    """Return the names of fields as text."""
    return ", ".join(names_of(fields))


def is_time(type_: LogicalType | None, *kinds: str) -> bool:
    """Return whether a type is a time attribute of a kind: ``ROWTIME`` or ``PROCTIME``."""
    return isinstance(type_, TimestampType) and type_.kind in kinds


def plan_type(type_json: Any) -> LogicalType | None:
    """Return a type; ``None`` for a type that only a Java class describes."""
    if isinstance(type_json, str):
        try:
            return parse_logical_type(type_json)
        except OptionError:
            return None
    if not isinstance(type_json, Mapping):
        return None
    type_ = _of_object(type_json)
    return None if type_ is None else replace(type_, nullable=bool(type_json.get("nullable", True)))


def _of_object(type_json: Mapping[str, Any]) -> LogicalType | None:
    """Return a type that a plan has as an object: with the fields of its Java class, or with a name alone."""
    root = str(type_json.get("type"))
    match root:
        case "ROW":
            fields = row_fields(type_json)
            typed_fields = tuple(RowField(f.name, f.type) for f in fields if f.type is not None)
            return RowType(typed_fields) if len(typed_fields) == len(fields) else None
        case "TIMESTAMP_WITHOUT_TIME_ZONE" | "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
            digits, kind = int(type_json.get("precision", _DIGITS)), str(type_json.get("kind", "REGULAR"))
            return TimestampType(digits, _LOCAL_ZONED[root], kind)
        case "ARRAY" | "MULTISET":
            element = plan_type(type_json.get("elementType"))
            return None if element is None else _COLLECTIONS[root](element)
        case "MAP":
            key, value = plan_type(type_json.get("keyType")), plan_type(type_json.get("valueType"))
            return None if key is None or value is None else MapType(key, value)
        case _ if isinstance(type_json.get("type"), str) and type_json.keys() <= {"type", "nullable"}:
            return plan_type(root)
        case _:
            return None


def _field(text: str) -> PlanField:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise OptionError(f"expected the name of a field between backticks, found {text[:200]!r}")
    return PlanField(match[1].replace("``", "`"), plan_type(match[2]))


def _parts(text: str) -> Iterator[str]:
    """Yield the parts between commas outside of brackets and quotes."""
    depth = start = 0
    quote = ""
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'":
            quote = character
        elif character in _OPENING:
            depth += _OPENING[character]
        elif character == "," and not depth:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]


Identity = str


@dataclass(frozen=True)
class Relation:
    """Output rows of a node: their identity, and their columns. ``fields`` has the names and types of the columns.

    ``updates`` is true if rows are known to be retracted. A plan does not contain this for rows of a table.
    """

    rows: Identity
    columns: tuple[Identity, ...]
    fields: PlanFields
    updates: bool = False

    def named(self, name: Any) -> Identity | None:
        """Return the column with a name."""
        return next((column for column, field in zip(self.columns, self.fields, strict=True) if field.name == name), None)

    def picked(self, indices: Iterable[Any] | None) -> list[Identity]:
        """Return some columns."""
        return list(picked(self.columns, indices))


Relations = tuple[Relation, ...]


def identity(*parts: Any) -> Identity:
    """Return the identity of rows or columns that these parts define."""
    return hashlib.sha1(json.dumps(parts, sort_keys=True).encode(), usedforsecurity=False).hexdigest()


def resolved(part: Any, columns: Sequence[Identity]) -> Any:
    """Return the normal form of an expression with the identities of columns instead of references."""
    return _resolved(normal_form(part), columns)


def _resolved(part: Any, columns: Sequence[Identity]) -> Any:
    if isinstance(part, Mapping):
        if part.get("kind") == "INPUT_REF":
            return {"column": columns[int(part["inputIndex"])]}
        return {name: _resolved(member, columns) for name, member in part.items()}
    return [_resolved(element, columns) for element in part] if isinstance(part, list) else part


# The normal form of nodes: equal for nodes that do the same, independent of Flink's version. Versions differ in omitted members,
# in unused names, and in the versions of node types.

_EMPTY: Final[tuple[Any, ...]] = (None, [], {})
"""Values that a plan may omit: Flink 2 does not write empty lists."""

_DEFAULTS: Final = {"upsertMaterializeStrategy": "LEGACY"}
"""Members that plans omit if they have this value."""

_VERSIONED: Final = re.compile(r"(stream-exec-(?:sink|table-source-scan))_[12]")
"""Types of nodes with the same state in versions 1 and 2. Versions of other types are distinguished."""

_OWN: Final = frozenset({"id", "description", "inputProperties", "outputType", "state", "configuration", "unboundedOverVersion"})
"""Members that do not define the function of a node: names, numbers, time-to-live, the version of its states."""


def normal_node(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the function of a node, without its columns, its number, and its name."""
    form: dict[str, Any] = normal_form(without_keys(content, _OWN))
    return form


def normal_form(part: Any) -> Any:
    """Return JSON with only the members that define the function of a node.

    Members that are null, empty or equal to their default are omitted. The names of aggregate calls are omitted. A row type
    becomes the types of its fields.
    """
    if isinstance(part, list):
        return list(map(normal_form, part))
    if not isinstance(part, Mapping):
        return part
    members = {name: _member(name, member) for name, member in part.items() if not (name == "name" and "argList" in part)}
    return {name: member for name, member in members.items() if member not in _EMPTY and _DEFAULTS.get(name) != member}


def _member(name: str, part: Any) -> Any:
    if name == "type" and isinstance(part, str):
        return _VERSIONED.sub(r"\1", part)
    if name.endswith("RowType"):
        try:
            return [str(row.type) for row in row_fields(part)]
        except (OptionError, KeyError, TypeError):
            return normal_form(part)
    return normal_form(part)
