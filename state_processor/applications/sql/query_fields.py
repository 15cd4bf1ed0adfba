"""Fields of structs that a query uses. DuckDB asks a data set for columns; it does not tell which fields of a struct it needs.

DuckDB parses a query into a tree. A field is left out if every access to its column in the tree names other fields. All fields
are read if the query has a form that does not name its columns: ``*``, ``USING``, a table as a value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import pyarrow as pa

Names: TypeAlias = tuple[str, ...]

_FUNCTIONS_OF_ROWS: Final = frozenset({"generate_series", "range", "unnest"})
"""Functions in the place of tables that read no view."""
_COLUMNS_UNSAID: Final = frozenset({"STAR", "POSITIONAL_REFERENCE"})


@dataclass(frozen=True)
class QueryFields:
    """The tables of a query, and the columns and fields that it names."""

    # names of tables, and of named parts of the query, with their schemas: ``("orders", "total")``; names that no table has for
    # parts that may read any
    tables: frozenset[Names]
    # references to columns, with tables before and fields behind the name of the column, all in lower case
    accesses: frozenset[Names]
    is_whole: bool  # whether fields may be used that the accesses do not name

    @classmethod
    def of(cls, connection: Any, query: str) -> Self | None:
        """Parse a query; ``None`` if it is not a ``SELECT``, or DuckDB can't parse it."""
        [(text,)] = connection.execute("SELECT json_serialize_sql($1::VARCHAR)", [query]).fetchall()
        tree = json.loads(text)
        return None if tree["error"] else cls._of_nodes(list(_nodes(tree["statements"])))

    @classmethod
    def _of_nodes(cls, nodes: Sequence[Mapping[str, Any]]) -> Self:
        tables = [n for n in nodes if n.get("type") == "BASE_TABLE"]
        names = {_folded([n["schema_name"], n["table_name"]] if n["schema_name"] else [n["table_name"]]) for n in tables}
        names |= {(f"{n['type']}()",) for n in nodes if _reads_any_table(n)}
        accesses = frozenset(_folded(n["column_names"]) for n in nodes if n.get("class") == "COLUMN_REF")
        called = {name.casefold() for n in tables for name in (n["alias"], n["table_name"])}
        is_whole = any(map(_leaves_columns_unsaid, nodes)) or any(access[-1] in called for access in accesses)
        return cls(frozenset(names), accesses, is_whole)

    def narrowed(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a view, with structs that have only the fields that the query uses."""
        return schema if self.is_whole else pa.schema([self._narrowed(field) for field in schema])

    def _narrowed(self, field: pa.Field) -> pa.Field:
        name = field.name.casefold()
        used = [access[at + 1 :] for access in self.accesses for at, part in enumerate(access) if part == name]
        return field.with_type(_narrowed(field.type, used)) if used else field


def _narrowed(type_: pa.DataType, used: Sequence[Names]) -> pa.DataType:
    if not pa.types.is_struct(type_) or not all(used):
        return type_
    by_name: dict[str, list[Names]] = {}
    for path in used:
        by_name.setdefault(path[0], []).append(path[1:])
    names = [field.name.casefold() for field in type_]
    if len({*names}) < len(names) or not by_name.keys() <= {*names}:
        return type_
    used_fields = ((field, by_name.get(field.name.casefold())) for field in type_)
    return pa.struct([field.with_type(_narrowed(field.type, paths)) for field, paths in used_fields if paths])


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all nodes of a tree."""
    if isinstance(tree, Mapping):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from _nodes(part)


def _leaves_columns_unsaid(node: Mapping[str, Any]) -> bool:
    kind = node.get("type")
    return (
        kind in _COLUMNS_UNSAID
        or (kind == "JOIN" and (node.get("ref_type") == "NATURAL" or bool(node.get("using_columns"))))
        or (kind == "BASE_TABLE" and bool(node.get("column_name_alias")))
        or _reads_any_table(node)
    )


def _reads_any_table(node: Mapping[str, Any]) -> bool:
    """Return whether a part of a query lists tables, or is a function that may read them."""
    kind = node.get("type")
    return (kind == "SHOW_REF" and not node.get("query")) or (
        kind == "TABLE_FUNCTION" and _function_name(node) not in _FUNCTIONS_OF_ROWS
    )


def _function_name(node: Mapping[str, Any]) -> str | None:
    function = node.get("function")
    return function.get("function_name") if isinstance(function, Mapping) else None


def _folded(names: Sequence[str]) -> Names:
    return tuple(name.casefold() for name in names)
