"""What users have registered in this process, as one object that can go along to another: to a Spark worker, say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from state_processor.serializers import registry
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core import pojo
from state_processor.serializers.kryo import classes
from state_processor.serializers.kryo.classes import KryoClass, user_classes
from state_processor.serializers.registry import SnapshotReader


@dataclass(frozen=True)
class Registrations:
    """Snapshot classes, classes Kryo wrote, subclasses and fields of POJOs: what ``register_*`` functions were called with."""

    snapshots: dict[str, SnapshotReader]
    kryo_classes: tuple[KryoClass, ...]
    pojo_classes: dict[str, dict[str, dict[str, TypeSerializer]]]
    primitive_fields: dict[str, frozenset[str]]

    @classmethod
    def current(cls) -> Registrations:
        """Those of this process; what the library describes itself is known everywhere."""
        return cls(registry.user_snapshots(), user_classes(), pojo.described_classes(), pojo.primitive_fields())

    def __bool__(self) -> bool:
        return bool(self.snapshots or self.kryo_classes or self.pojo_classes or self.primitive_fields)

    def apply(self) -> None:
        """Register those that nothing is registered for here, until :func:`withdraw_applied`."""
        tables: tuple[tuple[dict[str, Any], Mapping[str, Any]], ...] = (
            (registry._REGISTERED, self.snapshots),
            (classes._USER_CLASSES, {c.name: c for c in self.kryo_classes}),
            (pojo._PRIMITIVE_FIELDS, self.primitive_fields),
            *((pojo._DESCRIBED.setdefault(parent, {}), described) for parent, described in self.pojo_classes.items()),
        )
        for table, entries in tables:
            _apply(table, entries)


_APPLIED: Final[list[tuple[dict[str, Any], str, Any]]] = []
"""What :meth:`Registrations.apply` added: table, name and entry."""


def _apply(table: dict[str, Any], entries: Mapping[str, Any]) -> None:
    for name, entry in entries.items():
        if name not in table:
            table[name] = entry
            _APPLIED.append((table, name, entry))


def withdraw_applied() -> None:
    """Take back what came from another process: Spark's Python workers run tasks of one session after those of another."""
    while _APPLIED:
        table, name, entry = _APPLIED.pop()
        if table.get(name) is entry:
            del table[name]
