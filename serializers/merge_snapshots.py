"""Merge of the serializer snapshots of values that were written with several serializers.

A POJO's snapshot describes unregistered subclasses from the first value of each on, so the subtasks of a state describe different
ones (Flink: ``PojoSerializer.getSubclassSerializer``). Values name their class. A snapshot with the subclasses of all subtasks
therefore describes the values of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from state_processor.serializers.base import TypeSerializerSnapshot
from state_processor.serializers.core.pojo import PojoSerializerSnapshot
from state_processor.serializers.core.pojo_entries import SubclassSnapshot
from state_processor.serializers.traversal import zip_types


class _DifferError(Exception):
    """Two snapshots differ in more than subclasses of POJOs."""


def merged(one: TypeSerializerSnapshot, other: TypeSerializerSnapshot) -> TypeSerializerSnapshot | None:
    """Return the snapshot that describes the values of two; ``None`` if they differ in more than subclasses of POJOs."""
    try:
        return zip_types(one, other, _merged_pair)
    except _DifferError:
        return None


def _merged_pair(one: TypeSerializerSnapshot, other: TypeSerializerSnapshot) -> TypeSerializerSnapshot | None:
    """Return the merged snapshot of a pair; ``None`` if it follows from the pairs inside."""
    if one.to_bytes() == other.to_bytes():
        return one
    if isinstance(one, PojoSerializerSnapshot) and isinstance(other, PojoSerializerSnapshot):
        return _merged_pojos(one, other)
    of_one, of_other = one.named_children, other.named_children
    if len(of_one) != len(of_other) or one.with_children([s for _, s in of_other]).to_bytes() != other.to_bytes():
        raise _DifferError
    return None


def _merged_pojos(one: PojoSerializerSnapshot, other: PojoSerializerSnapshot) -> PojoSerializerSnapshot:
    fields = [[replace(f, snapshot=None) for f in of.fields] for of in (one, other)]
    registered = [[s.class_name for s in of.registered] for of in (one, other)]
    same_class = (one.class_name, one.version, one.pojo_class) == (other.class_name, other.version, other.pojo_class)
    if not same_class or fields[0] != fields[1] or registered[0] != registered[1]:
        raise _DifferError
    return PojoSerializerSnapshot(
        one.class_name,
        one.pojo_class,
        [replace(a, snapshot=_merged_optional(a.snapshot, b.snapshot)) for a, b in zip(one.fields, other.fields, strict=True)],
        _merged_subclasses(one.registered, other.registered),
        _merged_subclasses(one.unregistered, other.unregistered),
        one.version,
    )


def _merged_optional(one: TypeSerializerSnapshot | None, other: TypeSerializerSnapshot | None) -> TypeSerializerSnapshot | None:
    if one is None or other is None:
        if one is not other:
            raise _DifferError
        return None
    return zip_types(one, other, _merged_pair)


def _merged_subclasses(one: Sequence[SubclassSnapshot], other: Sequence[SubclassSnapshot]) -> list[SubclassSnapshot]:
    """Return the entries of both, the first's in front."""
    found = {s.class_name: s for s in one}
    for subclass in other:
        known = found.get(subclass.class_name)
        if known is None or known.is_absent:
            found[subclass.class_name] = subclass
        elif not subclass.is_absent:
            found[subclass.class_name] = replace(known, snapshot=_merged_optional(known.snapshot, subclass.snapshot))
    return list(found.values())
