"""Parts of POJOs: values, fields, what users register about them, fields and subclasses in snapshots, and columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.serializers.base import SchemaCompatibility, TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.collections import NullFlagged
from state_processor.serializers.core.unread import (
    OptionalEntry,
    iterate_optional_map,
    read_framed_snapshot,
    snapshot_frame,
)
from state_processor.serializers.decode_options import DecodeOptions, optional_field
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.encode.conversion import match_fields
from state_processor.serializers.registry import current_registrations, register
from state_processor.support.errors import InvalidRowError, StateProcessorError
from state_processor.support.late import pc


class PojoValue(dict[str, Any]):
    """A POJO: its fields by name, in the order of its serializer, and the Java class of the value."""

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


Part_co = TypeVar("Part_co", bound=Codec, covariant=True)


@dataclass(frozen=True)
class PojoField(Generic[Part_co]):
    """Field: its name, the serializer or codec of its values, and the class that declares it.

    ``declaring_class`` is ``None`` if the class no longer had such a field when the snapshot was written.
    """

    name: str
    serializer: Part_co
    declaring_class: str | None = None

    @property
    def flagged(self) -> NullFlagged[Codec]:
        """The codec of the field's bytes, which begin with a null flag."""
        return NullFlagged(self.serializer)

    def is_primitive(self, class_name: str) -> bool | None:
        """Return whether it is of a primitive type, in values of a class; ``None`` if this was not registered."""
        registered = current_registrations().primitive_fields
        for owner in (class_name, self.declaring_class):
            if owner is not None and owner in registered:
                return self.name in registered[owner]
        return None


def register_pojo_class(class_name: str, fields: Mapping[str, TypeSerializer], parent: str) -> None:
    """Describe a subclass of a POJO that snapshots omit.

    Flink adds an unregistered subclass to a snapshot only after it has serialized such a value. The heap backend serializes
    values while it takes the snapshot, after it has written the header.

    Parameters
    ----------
    class_name
        The Java class name in the values.
    fields
        Name and serializer of each field that ``parent`` lacks. A field that ``parent`` also has is refused when a state of that
        class is read or written.
    parent
        The class that the state was declared with. Columns of its values then have a field ``_class``; structs to write may omit
        ``_class`` and the fields of subclasses.

    Raises
    ------
    OptionError
        If ``parent`` was described as a subclass of ``class_name``.
    """
    register(lambda registered: registered.with_pojo_subclass(parent, class_name, fields))


def register_primitive_fields(class_name: str, fields: Iterable[str]) -> None:
    """Register the fields of a POJO that are of primitive types; snapshots do not distinguish ``int`` from ``Integer``.

    A null in such a field is refused on writing, because Flink would fail to restore it. All other numbers of the class count as
    boxed: if they are new fields of an evolved state, they are null, as in Flink, and not 0.

    Parameters
    ----------
    class_name
        The Java class: the class of the values, or the class that declares the fields.
    fields
        The names of all its primitive fields.
    """
    names = frozenset(fields)
    register(lambda registered: registered.with_primitive_fields(class_name, names))


@dataclass(frozen=True)
class PojoFieldSnapshot:
    """A field in a snapshot; it lacks a declaring class if the key's frame is missing."""

    name: str
    declaring_class: str | None
    snapshot: TypeSerializerSnapshot | None
    declared_name: str | None = None

    def is_in(self, fields: Sequence[PojoFieldSnapshot]) -> bool:
        """Check if one of several fields with a snapshot is the same field of the same class."""
        return any((f.declaring_class, f.name) == (self.declaring_class, self.name) and f.snapshot is not None for f in fields)

    def to_entry(self) -> OptionalEntry:
        """Return the entry of the optional map."""
        key = None
        if self.declaring_class is not None:
            target = DataOutput()
            target.write_utf(self.declaring_class)
            target.write_utf(self.name if self.declared_name is None else self.declared_name)
            key = target.to_bytes()
        return OptionalEntry(self.name, key, snapshot_frame(self.snapshot))


@dataclass(frozen=True)
class SubclassSnapshot:
    """A subclass in a snapshot: whether its class was present, and its serializer snapshot."""

    class_name: str
    present: bool
    snapshot: TypeSerializerSnapshot | None

    @property
    def is_absent(self) -> bool:
        """Whether Flink could not load the class or the serializer when it wrote the snapshot."""
        return not self.present or self.snapshot is None

    def to_entry(self) -> OptionalEntry:
        """Return the entry of the optional map."""
        return OptionalEntry(self.class_name, b"" if self.present else None, snapshot_frame(self.snapshot))


def field_verdicts(
    pojo_class: str, written_fields: Sequence[PojoFieldSnapshot], new_fields: Sequence[PojoFieldSnapshot]
) -> Iterator[SchemaCompatibility]:
    """Yield the verdicts on the fields of a class."""
    written = {f.name: f.snapshot for f in written_fields if f.declaring_class is not None and f.snapshot is not None}
    new = {f.name: f.snapshot for f in new_fields if f.snapshot is not None}
    if len(written) < len(written_fields) or written.keys() != new.keys():
        yield SchemaCompatibility.compatible_after_migration()
    for name, snapshot in written.items():
        if name in new:
            yield _nested_verdict(f"field {name!r} of {pojo_class}", snapshot, new[name])


def subclass_verdicts(
    registered: Sequence[SubclassSnapshot], unregistered: Sequence[SubclassSnapshot], new_registered: Sequence[SubclassSnapshot]
) -> Iterator[SchemaCompatibility]:
    """Yield the verdicts on the subclasses of a class: on their order, and on subclasses that both snapshots have registered."""
    new = {s.class_name: s.snapshot for s in new_registered}
    if [s.class_name for s in registered] != [s.class_name for s in new_registered[: len(registered)]] or unregistered:
        yield SchemaCompatibility.compatible_with_reconfigured_serializer()
    for subclass in registered:
        new_subclass = new.get(subclass.class_name)
        if new_subclass is not None and subclass.snapshot is not None:
            yield _nested_verdict(f"registered subclass {subclass.class_name}", subclass.snapshot, new_subclass)


def _nested_verdict(subject: str, written: TypeSerializerSnapshot, new: TypeSerializerSnapshot) -> SchemaCompatibility:
    verdict = written.resolve_schema_compatibility(new)
    if verdict.is_incompatible:
        names = f"{_type_name(written)} was written, {_type_name(new)} is required"
        inside = f" ({verdict.reason})" if written.class_name == new.class_name else ""
        return SchemaCompatibility.incompatible(f"{subject}: {names}{inside}")
    return verdict


def _type_name(snapshot: TypeSerializerSnapshot) -> str:
    try:
        return str(snapshot.restore_serializer())
    except StateProcessorError:
        return snapshot.class_name


def read_fields(source: DataInput) -> list[PojoFieldSnapshot]:
    """Read the fields of a snapshot."""
    fields = []
    for name, key, value in iterate_optional_map(source):
        declaring_class = declared_name = None
        if key is not None:
            declaring_class, declared_name = key.read_utf(), key.read_utf()
        fields.append(
            PojoFieldSnapshot(
                name,
                declaring_class,
                None if value is None else read_framed_snapshot(value),
                None if declared_name == name else declared_name,
            )
        )
    return fields


def read_subclasses(source: DataInput) -> list[SubclassSnapshot]:
    """Read the registered or the unregistered subclasses of a snapshot."""
    subclasses = []
    for name, key, value in iterate_optional_map(source):
        snapshot = None if value is None else read_framed_snapshot(value)
        subclasses.append(SubclassSnapshot(name, key is not None, snapshot))
    return subclasses


# Columns of POJOs with subclasses

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
                for column in _column_names(field.name, class_name):
                    if column not in self.types or (kinds[column] == kind and self.types[column] == type_):
                        break
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

    def columns_in(self, names: Collection[str]) -> GivenColumns:
        """Return the columns that are present in a struct of rows."""
        lacking: dict[str, list[str]] = {name: [] for name in self._classes}
        groups = {}
        for column, owners in self.groups.items():
            if column in names:
                groups[column] = owners
                continue
            for owner in dict.fromkeys(owners):
                lacking[owner].append(column)
        return GivenColumns(lacking, groups)

    def class_of(self, value: Mapping[str, Any]) -> str:
        """Return the class of one value, after the checks that columns get too."""
        match_fields(list(value), list(self.types), "a value", self.groups)
        return self.columns_in(value).class_of(value)


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
        has_value = pc.is_valid(pc.struct_field(array, [array.type.get_field_index(self.column)]))
        if array.type.get_field_index(CLASS_FIELD) >= 0:
            of_class = pc.struct_field(array, [array.type.get_field_index(CLASS_FIELD)])
            has_value = pc.and_not(has_value, pc.is_in(of_class, value_set=pa.array(self.classes, pa.string())))
        return np.asarray(has_value.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _column_names(field: str, class_name: str) -> Iterator[str]:
    """Yield names for a field's column, best first."""
    yield field
    simple = class_name.replace("$", ".").rsplit(".", 1)[-1]
    name = f"{field}_{simple}"
    while True:
        yield name
        name += "_"
