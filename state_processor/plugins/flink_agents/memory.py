"""The tree of an agent's memory (Flink Agents: ``MemoryObjectImpl``).

Each path is an entry of the map: a value, or an object that names its fields. The agent looks up each named field, and fails if
one is missing. It does not find fields that their object does not name. A change of paths therefore changes objects too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from state_processor.errors import InvalidRowError

_COLUMNS: Final = ("key", "map_key", "map_value")
_ROOT: Final = ""
_SEPARATOR: Final = "."


def corrected_objects(memory: pa.Table) -> pa.Table:
    """Return the objects whose fields are not the paths that memory has, with the fields corrected.

    Call it with the memory as it shall be, and write the result with ``update_keyed_state``.

    Parameters
    ----------
    memory
        All rows of ``shortTermMemory`` or ``sensoryMemory``, less those that are deleted, with those that are added: ``key``,
        ``map_key`` and ``map_value``.

    Returns
    -------
    pyarrow.Table
        The objects to write, in the same columns. Objects that are missing above a path are among them.

    Raises
    ------
    InvalidRowError
        A column is missing, or a path is below a value.
    """
    if missing := [name for name in _COLUMNS if name not in memory.column_names]:
        raise InvalidRowError(f"expected the columns {', '.join(_COLUMNS)} of memory; missing: {', '.join(missing)}")
    schema = pa.schema([memory.schema.field(name) for name in _COLUMNS])
    trees: dict[str, tuple[Any, dict[str, Any]]] = {}
    for row in memory.select(_COLUMNS).to_pylist():
        trees.setdefault(repr(row["key"]), (row["key"], {}))[1][row["map_key"]] = row["map_value"]
    changed = [
        {"key": key, "map_key": path, "map_value": item}
        for key, items in trees.values()
        for path, item in _corrected(key, items).items()
    ]
    return pa.Table.from_pylist(changed, schema=schema)


def _corrected(key: Any, items: Mapping[str, Any]) -> dict[str, Any]:
    fields = _fields(items)
    changed = {}
    for path, names in fields.items():
        item = items.get(path) or {"type": "OBJECT", "value": None, "subKeys": None}
        if item["type"] == "OBJECT" and {*(item["subKeys"] or ())} != names:
            changed[path] = {**item, "subKeys": sorted(names)}
        elif item["type"] != "OBJECT" and names:
            raise InvalidRowError(f"memory of key {key!r}: {path!r} is a value, and has the fields {', '.join(sorted(names))}")
    return changed


def _fields(items: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the names of the fields of each path, and of each path above one."""
    fields: dict[str, set[str]] = {path: set() for path in items}
    for path in items:
        below = path
        while below != _ROOT:
            above, _, name = below.rpartition(_SEPARATOR)
            fields.setdefault(above, set()).add(name)
            below = above
    return fields
