"""Some entries of a dictionary, several keys with one value, other values; names, an index by names, attributes and fields."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


class Named(Protocol):
    """A state, a field, a file."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


def only_keys(mapping: Mapping[K, V], keys: Container[object]) -> dict[K, V]:
    """Return the entries of a mapping that have these keys, in the order of the mapping."""
    return {key: value for key, value in mapping.items() if key in keys}


def without_keys(mapping: Mapping[K, V], keys: Container[object]) -> dict[K, V]:
    """Return the entries of a mapping that have other keys than these, in the order of the mapping."""
    return {key: value for key, value in mapping.items() if key not in keys}


def map_values(function: Callable[[V], R], mapping: Mapping[K, V]) -> dict[K, R]:
    """Return the same keys with the results of a function for their values."""
    return {key: function(value) for key, value in mapping.items()}


def by_each_key(entries: Iterable[tuple[Iterable[K], V]]) -> dict[K, V]:
    """Return a dictionary of values with several keys each. The last value of equal keys counts."""
    values: dict[K, V] = {}
    for keys, value in entries:
        values |= dict.fromkeys(keys, value)
    return values


def names_of(items: Iterable[Named]) -> list[str]:
    """Return the names of states, fields or files."""
    return [item.name for item in items]


def index_by_name(items: Iterable[N]) -> dict[str, N]:
    """Return states, fields or files by their names. The last one of equal names counts."""
    return {item.name: item for item in items}


def unrenamed(names: Iterable[str]) -> dict[str, str]:
    """Return each name by itself, for a selection of columns that keep their names."""
    return {name: name for name in names}


def without_none(values: Iterable[V | None]) -> list[V]:
    """Return the values that are not ``None``."""
    return [value for value in values if value is not None]


def positions_of(items: Iterable[K]) -> dict[K, int]:
    """Return the position of each item. The last position of equal items counts."""
    return {item: position for position, item in enumerate(items)}


def inverted(mapping: Mapping[K, V]) -> dict[V, K]:
    """Return the keys by their values. The last key of equal values counts."""
    return {value: key for key, value in mapping.items()}


def attributes(owner: object, names: Iterable[str]) -> dict[str, Any]:
    """Return some attributes of an object by their names, in the order of the names."""
    return {name: getattr(owner, name) for name in names}


_COLUMNS: Final = {"size": "size_in_bytes"}
"""Columns of tables and JSON, by the names of fields."""


def row_of(record: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as a row of a table or of JSON."""
    return {_COLUMNS.get(name, name): value for name, value in attributes(record, names_of(fields(record))).items()}
