"""Values of POJOs, and their fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from state_processor.serializers.codec import Codec
from state_processor.serializers.core.collections import NullFlagged
from state_processor.serializers.records import dataclass
from state_processor.serializers.user_registrations import current_registrations


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
