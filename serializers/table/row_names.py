"""Names of the fields of rows (``Row``, ``RowData``): snapshots do not hold them, so that restored serializers are given them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, Final, TypeVar

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.rows import RowSerializer
from state_processor.serializers.errors import OptionError
from state_processor.serializers.table.binary_format import RowSlot
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.serializers.traversal import nested

RowNames = tuple[tuple[str, ...] | None, ...]
"""The names of the fields of all rows inside of a serializer, from the outermost on; ``None`` for rows without names."""

S = TypeVar("S", bound=TypeSerializer)

_ROWS: Final[tuple[type[TypeSerializer], ...]] = (RowSerializer, RowDataSerializer)


def row_names(serializer: TypeSerializer | None) -> RowNames:
    """Return the names of all rows inside of a serializer."""
    return tuple(row.names if isinstance(row, RowSerializer) else row.slot.type.names for row in _rows(serializer))


def with_row_names(serializer: S, names: RowNames) -> S:
    """Return the serializer with the names that :func:`row_names` found in one of the same snapshot.

    Raises
    ------
    OptionError
        If there are not as many rows, or a row does not have as many fields.
    """
    rows = list(_rows(serializer))
    sizes = [len(row.fields if isinstance(row, RowSerializer) else row.slot.fields) for row in rows]
    if len(rows) != len(names) or any(own is not None and len(own) != size for own, size in zip(names, sizes, strict=True)):
        raise OptionError(f"names {names} are not those of the rows in {serializer}")
    by_row = {id(row): own for row, own in zip(rows, names, strict=True)}
    return _renamed(serializer, by_row, {})  # type: ignore[no-any-return]


def _rows(part: Any) -> Iterator[RowSerializer | RowDataSerializer]:
    """All rows, each before those inside of it. A row of SQL's holds the names of the rows inside of it itself."""
    for row in nested(_ROWS, part):
        assert isinstance(row, RowSerializer | RowDataSerializer)
        yield row
        if isinstance(row, RowSerializer):
            yield from _rows(row.fields)


def _renamed(part: Any, names: Mapping[int, tuple[str, ...] | None], done: dict[int, Any]) -> Any:
    """A copy of what has rows inside, with other rows; everything else as it is."""
    if id(part) in done:
        return done[id(part)]
    if not nested(_ROWS, part):
        return part
    if isinstance(part, list | tuple):
        return type(part)(_renamed(each, names, done) for each in part)
    if isinstance(part, Mapping):
        return {key: _renamed(each, names, done) for key, each in part.items()}
    if not isinstance(part, TypeSerializer):
        return replace(part, **{name: _renamed(getattr(part, name), names, done) for name in type(part).__dataclass_fields__})
    done[id(part)] = new = copy(part)  # noted before it is complete: a type may contain itself
    vars(new).update({name: _renamed(value, names, done) for name, value in vars(part).items()})
    own = names.get(id(part))
    if isinstance(new, RowSerializer):
        new.names = own
    elif isinstance(new, RowDataSerializer) and own is not None:
        fields = zip(new.slot.type.fields, own, strict=True)
        new.slot = RowSlot(replace(new.slot.type, fields=tuple(replace(field, name=name) for field, name in fields)))
    return new
