"""What users register about POJOs, which snapshots do not contain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.user_registrations import register


def register_pojo_class(class_name: str, fields: Mapping[str, TypeSerializer], parent: str) -> None:
    """Describe a subclass of a POJO that snapshots leave out.

    Flink adds a subclass that is not registered to a snapshot only once it has serialized such a value, and the heap backend
    serializes when it takes the snapshot: after the header was written.

    Parameters
    ----------
    class_name
        The Java class, as values name it.
    fields
        The fields that it has beyond those of ``parent``: name and serializer. One that ``parent`` has as well is refused where a
        state of that class is read or written.
    parent
        The class that the state was declared with. Columns of its values have a field ``_class`` from then on; structs to write
        may lack it, and the fields of subclasses.

    Raises
    ------
    OptionError
        If ``parent`` was described as a subclass of ``class_name``.
    """
    register(lambda registered: registered.with_pojo_subclass(parent, class_name, fields))


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
