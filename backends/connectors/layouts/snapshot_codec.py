"""Serializer snapshots of list states of connectors, as layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from state_processor.backends.connectors.layouts.codecs import Content
from state_processor.serializers.base import TypeSerializerSnapshot, read_versioned_snapshot, write_versioned_snapshot
from state_processor.serializers.io import DataInput, DataOutput


@dataclass(frozen=True, slots=True)
class SnapshotCodec:
    """A serializer snapshot with its class and version (Flink: ``TypeSerializerSnapshot.writeVersionedSnapshot``).

    ``to_content`` describes a snapshot of the class ``kind``; ``build`` returns the one that can be written.
    """

    to_content: Callable[[Any], Content]
    build: Callable[[], TypeSerializerSnapshot]
    kind: type[TypeSerializerSnapshot]
    min_size: int = 6

    def read(self, source: DataInput) -> Content:
        start = source.position
        snapshot = read_versioned_snapshot(source)
        if not isinstance(snapshot, self.kind):
            raise source.corrupt(f"expected a {self.kind.__name__}, found {snapshot.class_name}", start)
        return self.to_content(snapshot)

    def write(self, content: Content, target: DataOutput) -> None:
        data = DataOutput()
        write_versioned_snapshot(self.build(), data)
        usual = self.read(DataInput(data.to_bytes()))
        if usual != {name: value for name, value in content.items() if name in usual}:
            raise ValueError(f"only the snapshot {usual!r} can be written")
        target.write_bytes(data.to_bytes())
