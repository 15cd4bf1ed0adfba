"""Values of POJOs, their fields, and the columns of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.collections import NullFlagged
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.user_registrations import current_registrations, register

CLASS_FIELD: Final = "_class"
"""The field that names the class of a value where a POJO has subclasses."""


def register_primitive_fields(class_name: str, fields: Iterable[str]) -> None:
    """Register the fields of a POJO that are of primitive types; snapshots do not distinguish ``int`` from ``Integer``.

    A null in such a field is refused when it is written; Flink would fail to restore it. Numbers that are not named are known
    to be boxes then: as fields that are new in an evolved state they are null, as Flink leaves them, and not 0.

    Parameters
    ----------
    class_name
        The Java class, of the values or the one that declares the fields.
    fields
        The names of all its primitive fields.
    """
    names = frozenset(fields)
    register(lambda registered: registered.with_primitive_fields(class_name, names))


class PojoValue(dict[str, Any]):
    """A POJO: its fields by name, in the order of its serializer, and the Java class that it is an instance of."""

    __slots__ = ("class_name",)

    def __init__(self, class_name: str, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.class_name = class_name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PojoValue) and other.class_name == self.class_name and dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PojoValue({self.class_name!r}, {dict(self)!r})"


@dataclass(frozen=True)
class PojoField:
    """Field: its name, the serializer of its values, and the class that declares it.

    ``declaring_class`` is ``None`` where the class no longer had such a field when the snapshot was written.
    """

    name: str
    serializer: TypeSerializer
    declaring_class: str | None = None

    @property
    def flagged(self) -> NullFlagged:
        """The serializer of the field's bytes: each begins with a null flag."""
        return NullFlagged(self.serializer)

    def is_primitive(self, class_name: str) -> bool | None:
        """Return if it is of a primitive type, in values of a class; ``None`` if that was not registered."""
        registered = current_registrations().primitive_fields
        known = (registered.get(owner) for owner in (class_name, self.declaring_class) if owner is not None)
        return next((self.name in fields for fields in known if fields is not None), None)


def field_columns(
    classes: Sequence[tuple[str, Sequence[PojoField]]], options: DecodeOptions
) -> tuple[dict[str, pa.DataType], dict[tuple[int, str], str]]:
    """Return the types of the columns of a class with subclasses, by name, and the column of each field.

    Fields of the same name and type share a column.

    Parameters
    ----------
    classes
        Name and fields of the class and of each subclass; a field is given by the number of its class and its name.
    options
        Options that decide on types.
    """
    types: dict[str, pa.DataType] = {CLASS_FIELD: pa.string()}
    kinds: dict[str, str] = {CLASS_FIELD: CLASS_FIELD}
    columns: dict[tuple[int, str], str] = {}
    for number, (class_name, of_class) in enumerate(classes):
        for field in of_class:
            kind, type_ = str(field.serializer), field.serializer.arrow_type(options)
            column = next(
                c for c in _names(field.name, class_name) if c not in types or (kinds[c] == kind and types[c] == type_)
            )
            types[column], kinds[column], columns[number, field.name] = type_, kind, column
    return types, columns


def _names(field: str, class_name: str) -> Iterator[str]:
    """Yield names for a field's column, best first."""
    yield field
    simple = class_name.replace("$", ".").rsplit(".", 1)[-1]
    name = f"{field}_{simple}"
    while True:
        yield name
        name += "_"
