"""The classes of input: how each is read, and where its seeds come from."""

from __future__ import annotations

from typing import Final

from tests.fuzz.targets.base import Target
from tests.fuzz.targets.blobs import MetadataTarget, SnappyTarget, SnapshotTarget
from tests.fuzz.targets.deceptions import DeceptionTarget
from tests.fuzz.targets.states import KeyedTarget, OperatorTarget, RocksDbTarget
from tests.fuzz.targets.tables import TableTarget
from tests.fuzz.targets.values import ValueTarget

TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for target in (
        MetadataTarget(),
        SnapshotTarget("serializers", lambda name: "avro" not in name),
        SnapshotTarget("avro", lambda name: "avro" in name),
        SnappyTarget(),
        ValueTarget("values"),
        ValueTarget("kryo"),
        ValueTarget("avro-values"),
        ValueTarget("rowdata"),
        KeyedTarget("canonical"),
        KeyedTarget("heap"),
        KeyedTarget("changelog"),
        OperatorTarget(),
        RocksDbTarget(),
        TableTarget(),
        DeceptionTarget(),
    )
}
