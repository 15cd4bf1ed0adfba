"""What users have registered in this process, as one object that can go along to another: to a Spark worker, say."""

from __future__ import annotations

from dataclasses import dataclass

from state_processor.serializers import pojo, registry
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.kryo.classes import KryoClass, set_user_class, user_classes
from state_processor.serializers.kryo.connectors import KAFKA_TOPIC_PARTITION
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
        described = tuple(c for c in user_classes() if c.name != KAFKA_TOPIC_PARTITION)
        return cls(registry.user_snapshots(), described, pojo.described_classes(), pojo.primitive_fields())

    def __bool__(self) -> bool:
        return bool(self.snapshots or self.kryo_classes or self.pojo_classes or self.primitive_fields)

    def apply(self) -> None:
        """Register all of them here."""
        for class_name, snapshot in self.snapshots.items():
            registry.register_snapshot(class_name, snapshot)
        for described in self.kryo_classes:
            set_user_class(described)
        for parent, classes in self.pojo_classes.items():
            for class_name, fields in classes.items():
                pojo.register_pojo_class(class_name, fields, parent)
        for class_name, names in self.primitive_fields.items():
            pojo.register_primitive_fields(class_name, names)
