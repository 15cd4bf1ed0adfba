"""User registrations for POJOs: facts that snapshots do not contain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.user_registrations import register


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
