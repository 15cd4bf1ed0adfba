"""Selection of columns and of their fields: only selected parts of an entry are decoded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, TypeAlias

import pyarrow as pa

from state_processor.serializers.kernel.columns import LAST_ACCESS_FIELD
from state_processor.serializers.traversal import ELEMENT, KEY, VALUE, is_inside
from state_processor.support.errors import OptionError
from state_processor.support.mappings import index_by_name, only_keys


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields of a column's values."""

    # the fields of a struct, the ``element`` of lists, the ``value`` of maps; ``None`` selects everything
    inside: Mapping[str, Fields] | None = None

    def of(self, name: str) -> Fields:
        """Return the selected fields inside of a part; ``None`` if the part is not selected."""
        return EVERYTHING if self.inside is None else self.inside.get(name, NOTHING)

    def applied(self, type_: pa.DataType) -> pa.DataType:
        """Return a type with the selected fields. Lists and maps keep their elements; maps keep their keys."""
        if self.inside is None:
            return type_
        if pa.types.is_struct(type_):
            return pa.struct([f.with_type(self.of(f.name).applied(f.type)) for f in type_ if f.name in self.inside])
        if pa.types.is_list(type_):
            return pa.list_(self.of(ELEMENT).applied(type_.value_type))
        if pa.types.is_map(type_):
            return pa.map_(type_.key_type, self.of(VALUE).applied(type_.item_type))
        return type_

    def timed(self) -> Fields:
        """Return the selection for values with the time of their last access."""
        return self if self.inside is None else Fields({LAST_ACCESS_FIELD: EVERYTHING, "value": self})


EVERYTHING: Final = Fields()
NOTHING: Final = Fields({})


def inside(part: str, fields: Fields) -> Fields:
    """Return the selection of fields in the elements of lists, or in the values of maps."""
    return fields if fields.inside is None else Fields({part: fields})


FieldSelection: TypeAlias = Collection[str]
"""Names of columns, or a mapping of names to the :class:`Fields` in them."""
Selection: TypeAlias = Mapping[str, Fields]
"""The columns to read, in order."""


def fields_in(columns: FieldSelection, name: str) -> Fields:
    """Return the selected fields of a column."""
    return columns[name] if isinstance(columns, Mapping) else EVERYTHING


def selected(paths: Sequence[str], schema: pa.Schema) -> Selection:
    """Return the selection of paths: columns, or fields in columns such as ``value.id``.

    A path continues with names of fields of structs, ``element`` of lists, ``key`` and ``value`` of maps.
    """
    tree: dict[str, _Node] = {}
    for path in paths:
        node = tree
        steps = list(_steps(path, schema))
        for step in steps[:-1]:
            node = node.setdefault(step, _Node()).inside
        node.setdefault(steps[-1], _Node()).whole = True
    return {name: node.fields() for name, node in tree.items()}


class _Node:
    def __init__(self) -> None:
        self.whole = False
        self.inside: dict[str, _Node] = {}

    def fields(self) -> Fields:
        return EVERYTHING if self.whole else Fields({name: node.fields() for name, node in self.inside.items()})


def applied(selection: Selection | None, schema: pa.Schema) -> pa.Schema:
    """Return the columns of a selection that a schema has; the whole schema without a selection."""
    if selection is None:
        return schema
    fields_by_name = index_by_name(schema)
    selected = []
    for name, inside in only_keys(selection, fields_by_name).items():
        field = fields_by_name[name]
        selected.append(field.with_type(inside.applied(field.type)))
    return pa.schema(selected)


def _steps(path: str, schema: pa.Schema) -> Iterator[str]:
    """Yield the names along a path. Names may contain dots, so each name has to end at a dot of the path or at its end."""
    types = dict(zip(schema.names, schema.types, strict=True))
    rest, parents = path, ""
    while True:
        fitting = _begins(rest, types)
        if len(fitting) > 1:  # keep the names that have the rest of the path
            fitting = [n for n in fitting if n == rest or _begins(rest[len(n) + 1 :], _parts(types[n]))]
        if len(fitting) > 1:
            either = " or in ".join(repr(parents + name) for name in fitting)
            raise OptionError(f"columns: {path!r} may be in {either}; name the whole column")
        if not fitting:
            raise _unknown(path, parents, rest, list(types))
        (name,) = fitting
        yield name
        if rest == name:
            return
        rest, parents, types = rest[len(name) + 1 :], f"{parents}{name}.", _parts(types[name])


def _begins(rest: str, names: Collection[str]) -> list[str]:
    """Return the names at the start of the rest of a path."""
    return [name for name in names if is_inside(rest, name)]


def _parts(type_: pa.DataType) -> dict[str, pa.DataType]:
    if pa.types.is_struct(type_):
        return {f.name: f.type for f in type_}
    if pa.types.is_list(type_):
        return {ELEMENT: type_.value_type}
    if pa.types.is_map(type_):
        return {KEY: type_.key_type, VALUE: type_.item_type}
    return {}


def _unknown(path: str, parents: str, rest: str, names: list[str]) -> OptionError:
    place = f"{parents[:-1]!r} does not have a field {rest!r}" if parents else f"there is no column {path!r}"
    if not names:
        return OptionError(f"columns: {path!r}: {parents[:-1]!r} does not have fields; remove the rest of the path")
    near = get_close_matches(rest, names, n=1, cutoff=0.5) or get_close_matches(rest.split(".")[0], names, n=1, cutoff=0.5)
    hint = f"did you mean {parents + near[0]!r}?" if near else f"there are {', '.join(sorted(names))}"
    return OptionError(f"columns: {path!r}: {place}; {hint}")
