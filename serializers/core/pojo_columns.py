"""Columns of POJOs with subclasses: the class of each value, and the fields of all classes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.core.pojo_entries import PojoField
from state_processor.serializers.decode_options import DecodeOptions, optional_field
from state_processor.serializers.kernel.encode.conversion import match_fields
from state_processor.support.errors import InvalidRowError
from state_processor.support.late import pc

CLASS_FIELD: Final = "_class"
"""The field with the class name of a value, in columns of POJOs that have subclasses."""


class PojoColumns:
    """The columns of a class and of its subclasses. Fields of the same name and type share a column.

    ``classes``: name and fields of the class and of each subclass. The class itself has number 0. ``options``: options that
    affect types. ``places``: the column of each field, by the number of its class and the field's name.
    """

    def __init__(self, classes: Sequence[tuple[str, Sequence[PojoField[Any]]]], options: DecodeOptions) -> None:
        self._classes = [name for name, _ in classes]
        self._options = options
        self.types: dict[str, pa.DataType] = {CLASS_FIELD: pa.string()}
        self.places: dict[tuple[int, str], str] = {}
        kinds: dict[str, str] = {CLASS_FIELD: CLASS_FIELD}
        for number, (class_name, of_class) in enumerate(classes):
            for field in of_class:
                kind, type_ = str(field.serializer), field.serializer.arrow_type(options)
                column = next(
                    c
                    for c in _column_names(field.name, class_name)
                    if c not in self.types or (kinds[c] == kind and self.types[c] == type_)
                )
                self.types[column], kinds[column], self.places[number, field.name] = type_, kind, column

    def struct(self) -> pa.StructType:
        """Return the type of a column of values. A struct of rows may lack the fields of subclasses."""
        groups = self.groups if self._options.describe == "for_writing" else {}
        return pa.struct([optional_field(n, t, groups[n]) if n in groups else pa.field(n, t) for n, t in self.types.items()])

    @property
    def groups(self) -> dict[str, list[str]]:
        """The columns that the class itself lacks, each with the subclasses that have the column."""
        owners: dict[str, list[str]] = {}
        for (number, _), column in self.places.items():
            owners.setdefault(column, []).append(self._classes[number])
        return {column: names for column, names in owners.items() if self._classes[0] not in names}

    def given(self, names: Collection[str]) -> GivenColumns:
        """Return the columns that are present in a struct of rows."""
        groups = self.groups
        lacking = {name: [c for c, of in groups.items() if name in of and c not in names] for name in self._classes}
        return GivenColumns(lacking, {c: of for c, of in groups.items() if c in names})

    def class_of(self, value: Mapping[str, Any]) -> str:
        """Return the class of one value, after the checks that columns get too."""
        match_fields(list(value), list(self.types), "a value", self.groups)
        return self.given(value).class_of(value)


@dataclass(frozen=True)
class GivenColumns:
    """The columns of a POJO with subclasses that are present in a struct of rows."""

    # the columns that the struct lacks, for values of each class. The POJO itself comes first.
    lacking: Mapping[str, Sequence[str]]
    groups: Mapping[str, Sequence[str]]  # the columns of subclasses that the struct has, each with the names of the subclasses

    @property
    def classes(self) -> list[str]:
        """The classes whose values the struct can hold."""
        return [name for name, missing in self.lacking.items() if not missing]

    @property
    def class_limit(self) -> ClassLimit:
        """The check of class names."""
        short = [f"; {name} needs the field {', '.join(missing)} too" for name, missing in self.lacking.items() if missing]
        return ClassLimit(tuple(self.classes), f"expected {' or '.join(self.classes)}{''.join(short)}")

    @property
    def field_limits(self) -> tuple[FieldLimit, ...]:
        """The checks that fields of subclasses are null in rows of other classes."""
        return tuple(FieldLimit(column, tuple(classes), next(iter(self.lacking))) for column, classes in self.groups.items())

    def class_of(self, value: Mapping[str, Any]) -> str:
        """Return the class of one value."""
        name = value.get(CLASS_FIELD)
        if name is None:
            name = next(iter(self.lacking))
        if name not in self.classes:
            raise InvalidRowError(f"{CLASS_FIELD} is {name!r}: {self.class_limit.rule}")
        for limit in self.field_limits:
            if value[limit.column] is not None and name not in limit.classes:
                raise InvalidRowError(limit.rule)
        return str(name)


@dataclass(frozen=True)
class ClassLimit:
    """The check that a class name is one of several; null means the POJO itself."""

    classes: tuple[str, ...]
    rule: str

    def broken(self, array: pa.Array) -> npt.NDArray[np.bool_]:
        """Return a mask of the names of other classes."""
        is_declared = pc.is_in(array, value_set=pa.array([*self.classes, None], pa.string()))
        return ~np.asarray(is_declared.to_numpy(zero_copy_only=False), dtype=np.bool_)


@dataclass(frozen=True)
class FieldLimit:
    """The check that a field of subclasses is null in structs of other classes."""

    column: str
    classes: tuple[str, ...]
    default: str

    @property
    def rule(self) -> str:
        """The rule, for messages."""
        return (
            f"the field {self.column} is one of {' and '.join(self.classes)}: name the class in {CLASS_FIELD} (null stands for "
            f"{self.default}), or leave {self.column} null"
        )

    def broken(self, array: pa.Array) -> npt.NDArray[np.bool_]:
        """Return a mask of the structs of other classes that have a value in the field."""
        there = pc.is_valid(pc.struct_field(array, [array.type.get_field_index(self.column)]))
        if array.type.get_field_index(CLASS_FIELD) >= 0:
            of_class = pc.struct_field(array, [array.type.get_field_index(CLASS_FIELD)])
            there = pc.and_not(there, pc.is_in(of_class, value_set=pa.array(self.classes, pa.string())))
        return np.asarray(there.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _column_names(field: str, class_name: str) -> Iterator[str]:
    """Yield names for a field's column, best first."""
    yield field
    simple = class_name.replace("$", ".").rsplit(".", 1)[-1]
    name = f"{field}_{simple}"
    while True:
        yield name
        name += "_"
