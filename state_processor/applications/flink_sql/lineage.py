"""Identities of the rows and columns of a plan. They are equal in two plans if the meaning is equal, regardless of positions.

The identity of a column is the expression that computes it from columns of tables. So ``$f2`` of two plans is the same column if
it has the same expression. The identity of rows does not contain columns: rows of a table, rows that a condition selects, groups
by some columns. Rows and columns of unknown nodes are equal only if their whole input is equal.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from state_processor.applications.flink_sql.fields import PlanFields, row_fields
from state_processor.errors import OptionError

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
        return [self.columns[int(i)] for i in indices or ()]


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
    form: dict[str, Any] = normal_form({name: part for name, part in content.items() if name not in _OWN})
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
