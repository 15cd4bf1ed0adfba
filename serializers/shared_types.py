"""Types that several processes share: a type as bytes, and one snapshot for the values that several subtasks wrote.

A POJO's snapshot describes unregistered subclasses from the first value of each on, so the subtasks of a state describe different
ones (Flink: ``PojoSerializer.getSubclassSerializer``). Values name their class. A snapshot with the subclasses of all subtasks
therefore describes the values of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot, read_versioned_snapshot
from state_processor.serializers.core.pojo import PojoSerializerSnapshot
from state_processor.serializers.core.pojo_fields import SubclassSnapshot
from state_processor.serializers.io import DataInput
from state_processor.serializers.traversal import zip_types

if TYPE_CHECKING:
    from state_processor.serializers.table.row_names import RowNames


@dataclass(frozen=True, slots=True)
class PortableType:
    """A type as bytes that can be pickled: its serializer snapshot, and the names of row fields that the snapshot omits."""

    snapshot: bytes  # the snapshot as Flink frames it
    rows: RowNames = ()  # the field names of all rows in the type, outermost first; ``None`` for rows without names

    @classmethod
    def of(cls, serializer: TypeSerializer) -> PortableType:
        """Return the bytes of a serializer's type."""
        from state_processor.serializers.table.row_names import row_names  # most reads have the written types

        return cls(serializer.snapshot().to_bytes(), row_names(serializer))

    def restore(self) -> TypeSerializer:
        """Return the serializer."""
        source = DataInput(self.snapshot, "type")
        serializer = read_versioned_snapshot(source).restore_serializer()
        if not source.at_end():
            raise source.corrupt(f"{source.remaining} bytes are left over after a type")
        if not self.rows:
            return serializer
        from state_processor.serializers.table.row_names import with_row_names

        return with_row_names(serializer, self.rows)


class _DifferError(Exception):
    """Two snapshots differ in more than subclasses of POJOs."""


def merged(first: TypeSerializerSnapshot, second: TypeSerializerSnapshot) -> TypeSerializerSnapshot | None:
    """Return the snapshot that describes the values of two; ``None`` if they differ in more than subclasses of POJOs."""
    if first.to_bytes() == second.to_bytes():
        return first
    try:
        return zip_types(first, second, _merged_pair)
    except _DifferError:
        return None


def _merged_pair(first: TypeSerializerSnapshot, second: TypeSerializerSnapshot) -> TypeSerializerSnapshot | None:
    """Return the merged snapshot of a pair; ``None`` if it follows from the pairs inside."""
    if first.to_bytes() == second.to_bytes():
        return first
    if isinstance(first, PojoSerializerSnapshot) and isinstance(second, PojoSerializerSnapshot):
        return _merged_pojos(first, second)
    of_one, of_other = first.named_children, second.named_children
    if len(of_one) != len(of_other) or first.with_children([s for _, s in of_other]).to_bytes() != second.to_bytes():
        raise _DifferError
    return None


def _without_types(pojo: PojoSerializerSnapshot) -> tuple[object, ...]:
    fields = [replace(field, snapshot=None) for field in pojo.fields]
    registered = [subclass.class_name for subclass in pojo.registered]
    return pojo.class_name, pojo.version, pojo.pojo_class, fields, registered


def _merged_pojos(first: PojoSerializerSnapshot, second: PojoSerializerSnapshot) -> PojoSerializerSnapshot:
    if _without_types(first) != _without_types(second):
        raise _DifferError
    return PojoSerializerSnapshot(
        first.class_name,
        first.pojo_class,
        [replace(a, snapshot=_merged_optional(a.snapshot, b.snapshot)) for a, b in zip(first.fields, second.fields, strict=True)],
        _merged_subclasses(first.registered, second.registered),
        _merged_subclasses(first.unregistered, second.unregistered),
        first.version,
    )


def _merged_optional(
    first: TypeSerializerSnapshot | None, second: TypeSerializerSnapshot | None
) -> TypeSerializerSnapshot | None:
    if first is None or second is None:
        if first is not second:
            raise _DifferError
        return None
    return zip_types(first, second, _merged_pair)


def _merged_subclasses(first: Sequence[SubclassSnapshot], second: Sequence[SubclassSnapshot]) -> list[SubclassSnapshot]:
    """Return the entries of both, the first's in front."""
    by_class = {s.class_name: s for s in first}
    for subclass in second:
        subclass_of_first = by_class.get(subclass.class_name)
        if subclass_of_first is None or subclass_of_first.is_absent:
            by_class[subclass.class_name] = subclass
        elif not subclass.is_absent:
            by_class[subclass.class_name] = replace(
                subclass_of_first, snapshot=_merged_optional(subclass_of_first.snapshot, subclass.snapshot)
            )
    return list(by_class.values())
