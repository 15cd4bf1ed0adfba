"""Values of POJOs, their fields, and what users register about them, because snapshots do not contain it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.codec import Codec
from state_processor.serializers.core.collections import NullFlagged
from state_processor.serializers.user_registrations import current_registrations, register


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
        known = (registered.get(owner) for owner in (class_name, self.declaring_class) if owner is not None)
        return next((self.name in fields for fields in known if fields is not None), None)


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
