"""Match of the fields of a user's struct and of a type: by name if the type has names, by position if both lack names.

Savepoints do not store names for the fields of tuples, case classes and rows; such types have the fields ``f0, f1, …`` or
``_1, _2, …``. A struct counts as unnamed too if its fields are, in this order, ``f0, f1, …``, ``_1, _2, …`` or
``col1, col2, …`` (from Spark's ``struct`` and tuples). Then fields match by position. A type with names takes a struct of
exactly these names, in any order. All other structs are refused, for example a permutation of ``f0, f1, …``: it is ambiguous
whether it means names or positions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from state_processor.serializers.errors import InvalidRowError

OPTIONAL_FIELDS: Final = frozenset({"_class", "row_kind"})
"""Fields that a struct may lack. Its value is of the class itself then, or an insertion."""

_OF_TYPES: Final = (("f", 0), ("_", 1))
_OF_STRUCTS: Final = (*_OF_TYPES, ("col", 1))


def match_fields(
    given: Sequence[str], expected: Sequence[str], where: str, groups: Mapping[str, Collection[str]] = MappingProxyType({})
) -> dict[str, int]:
    """Return the position in a struct of each field that a type expects; optional fields may be missing.

    Parameters
    ----------
    given, expected
        Names of the fields of the struct, and of the type.
    where
        The column or value, for messages.
    groups
        More optional fields, each with its groups. A group is the fields of a subclass: a struct has all of them or none.

    Raises
    ------
    InvalidRowError
        If names and positions do not settle it; the message shows both lists. If an optional field is there, and another one of
        each of its groups is not.
    """
    optional = [n for n in expected if n in OPTIONAL_FIELDS or n in groups]
    own = [n for n in expected if n not in optional]
    rest = [n for n in given if n not in optional]
    at = {name: position for position, name in enumerate(given)}
    if len(own) + len(set(optional)) < len(expected):
        words = f"one of them is called {optional[0]}, as what rows have beside fields: rename it"
        raise _mismatch(given, expected, where, words)
    if len(at) < len(given) or len(set(expected)) < len(expected):
        raise _mismatch(given, own, where, "names have to be distinct")
    found = {name: at[name] for name in optional if name in at}
    if _is_numbered(own, _OF_TYPES):
        if len(rest) != len(own) or not _is_numbered(rest, _OF_STRUCTS):
            words = "the type has no names, so that fields go by position: name them as the type shows them, in this order"
            raise _mismatch(given, own, where, f"{words}, or declare the type with names")
        return found | {name: at[other] for name, other in zip(own, rest, strict=True)}
    if set(rest) != set(own):
        may_have = f"; ({', '.join(optional)}) are optional" if groups else ""
        raise _mismatch(given, own, where, f"fields go by name: each has to be there, and no other{may_have}")
    for name in filter(groups.__contains__, given):
        lacking = {group: [n for n, of in groups.items() if group in of and n not in at] for group in groups[name]}
        if all(lacking.values()):
            others = " and ".join(f"{group} has {', '.join(missing)} as well" for group, missing in lacking.items())
            raise InvalidRowError(f"{where} has the field {name}; {others}: add the rest, or drop {name}")
    return found | {name: at[name] for name in own}


def fields_in_order(value: Any, expected: Sequence[str], where: str) -> Sequence[Any]:
    """Return the fields of a mapping, a list or a tuple in the order of a type's fields; optional ones may be missing.

    Text and sets do not count as lists of fields, although they can be iterated over.

    Raises
    ------
    InvalidRowError
        As for :func:`match_fields`, or if the value is neither.
    """
    if not isinstance(value, Mapping):
        first = 1 if OPTIONAL_FIELDS.intersection(expected[:1]) else 0
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or len(value) != len(expected) - first:
            found, own = f"{value!r} of type {type(value).__name__}", ", ".join(expected[first:])
            raise InvalidRowError(f"{where} is {found}; expected the fields ({own}), by name or as a list")
        return [*[None] * first, *value]
    positions = match_fields(list(value), expected, where)
    values = list(value.values())
    return [values[positions[name]] if name in positions else None for name in expected]


def _is_numbered(names: Sequence[str], forms: Sequence[tuple[str, int]]) -> bool:
    return any(list(names) == [f"{prefix}{first + i}" for i in range(len(names))] for prefix, first in forms)


def _mismatch(given: Sequence[str], own: Sequence[str], where: str, rule: str) -> InvalidRowError:
    lists = f"is a struct of ({', '.join(given)}); the type has the fields ({', '.join(own)})"
    return InvalidRowError(f"{where} {lists}; {rule}")
