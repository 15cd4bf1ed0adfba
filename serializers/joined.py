"""Merge of the serializer snapshots of values that were written with several serializers.

A POJO's snapshot describes unregistered subclasses from the first value of each on, so the subtasks of a state describe different
ones (Flink: ``PojoSerializer.getSubclassSerializer``). Values name their class. A snapshot with the subclasses of all subtasks
therefore describes the values of each.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

from state_processor.serializers.base import CompositeTypeSerializerSnapshot, TypeSerializerSnapshot
from state_processor.serializers.core.pojo import PojoSerializerSnapshot
from state_processor.serializers.core.pojo_entries import SubclassSnapshot

Joined = TypeSerializerSnapshot | None


def joined(one: TypeSerializerSnapshot, other: TypeSerializerSnapshot) -> Joined:
    """Return the snapshot that describes the values of two; ``None`` if they differ in more than subclasses of POJOs."""
    if one.to_bytes() == other.to_bytes():
        return one
    if isinstance(one, PojoSerializerSnapshot) and isinstance(other, PojoSerializerSnapshot):
        return _joined_pojos(one, other)
    if isinstance(one, CompositeTypeSerializerSnapshot) and isinstance(other, CompositeTypeSerializerSnapshot):
        return _joined_composites(one, other)
    return None


def _joined_composites(one: CompositeTypeSerializerSnapshot, other: CompositeTypeSerializerSnapshot) -> Joined:
    if len(one.nested) != len(other.nested):
        return None
    nested = [joined(a, b) for a, b in zip(one.nested, other.nested, strict=True)]
    if any(snapshot is None for snapshot in nested):
        return None
    results = []
    for snapshot in (one, other):
        result = copy.copy(snapshot)
        result.nested = tuple(n for n in nested if n is not None)
        results.append(result)
    return results[0] if results[0].to_bytes() == results[1].to_bytes() else None


def _joined_pojos(one: PojoSerializerSnapshot, other: PojoSerializerSnapshot) -> Joined:
    names = [(f.name, f.declaring_class, f.declared_name) for f in one.fields]
    same = (one.class_name, one.version, one.pojo_class, names) == (
        *(other.class_name, other.version, other.pojo_class),
        [(f.name, f.declaring_class, f.declared_name) for f in other.fields],
    )
    if not same or [s.class_name for s in one.registered] != [s.class_name for s in other.registered]:
        return None
    fields = [_joined_optional(a.snapshot, b.snapshot) for a, b in zip(one.fields, other.fields, strict=True)]
    registered = _joined_subclasses(one.registered, other.registered)
    unregistered = _joined_subclasses(one.unregistered, other.unregistered)
    if registered is None or unregistered is None or any(found is None for found, _ in fields):
        return None
    return PojoSerializerSnapshot(
        one.class_name,
        one.pojo_class,
        [replace(f, snapshot=snapshot) for f, (_, snapshot) in zip(one.fields, fields, strict=True)],
        registered,
        unregistered,
        one.version,
    )


def _joined_optional(one: Joined, other: Joined) -> tuple[bool | None, Joined]:
    """Return True and the joined snapshot of two, each optional; ``None`` first if they can't be joined."""
    if one is None or other is None:
        return (True if one is other else None), None
    found = joined(one, other)
    return (None if found is None else True), found


def _joined_subclasses(one: Sequence[SubclassSnapshot], other: Sequence[SubclassSnapshot]) -> list[SubclassSnapshot] | None:
    """Return the entries of both, the first's in front; ``None`` if two descriptions of a class can't be joined."""
    found = {s.class_name: s for s in one}
    for subclass in other:
        known = found.get(subclass.class_name)
        if known is None or known.is_absent:
            found[subclass.class_name] = subclass
        elif not subclass.is_absent:
            can_be, snapshot = _joined_optional(known.snapshot, subclass.snapshot)
            if can_be is None:
                return None
            found[subclass.class_name] = replace(known, snapshot=snapshot)
    return list(found.values())
