"""Snapshot classes of Flink 1.x that Flink 2.x has not got any more: those that have a successor, and those that have none."""

from __future__ import annotations

from typing import Final

from state_processor.serializers.core import arrays, either
from state_processor.serializers.runtime import two_phase_commit
from state_processor.serializers.runtime.cep import NFA, OldSharedBufferNodeSerializer
from state_processor.serializers.runtime.scala import SCALA

RENAMED: Final = {
    two_phase_commit.OLD_TWO_PHASE_COMMIT_SNAPSHOT: two_phase_commit.TWO_PHASE_COMMIT_SNAPSHOT,
    either.LEGACY_EITHER_SNAPSHOT: either.EITHER_SNAPSHOT,
    arrays.GENERIC_ARRAY_CONFIG_SNAPSHOT: arrays.GENERIC_ARRAY_SNAPSHOT,
}
"""The present names of classes whose values are what they were."""

_REMOVED: Final = {
    SCALA: (
        "Flink 2.0 has no Scala API and none of its serializers",
        "read the state and write it in a type that the new job declares, by with_keyed_state or evolve_state, or leave it out "
        "with remove_state",
    ),
    f"{NFA}NFA$MigratedNFASerializerSnapshot": (
        "it describes pattern matching as before Flink 1.5, which Flink 2.0 does not migrate any more",
        "restore the job with a Flink between 1.5 and 1.20 and take another savepoint",
    ),
}
_REMOVED[f"{NFA}SharedBuffer$SharedBufferSerializerSnapshot"] = _REMOVED[f"{NFA}NFA$MigratedNFASerializerSnapshot"]
_REMOVED[OldSharedBufferNodeSerializer.snapshot_class] = (
    "it is the buffer of pattern matching as before Flink 1.15, which Flink 2.0 does not migrate any more",
    "restore the job with a Flink between 1.15 and 1.20 and take another savepoint",
)

LOST_KRYO_SERIALIZERS: Final = (
    "org.apache.flink.api.java.typeutils.runtime.kryo.Serializers$SpecificInstanceCollectionSerializer",
    "org.apache.flink.api.java.typeutils.runtime.kryo.PriorityQueueSerializer",
)
"""Serializers for Kryo that Flink 1.x brought along: how the names of such classes begin."""


def removed(class_name: str) -> tuple[str, str] | None:
    """Return why Flink 2.x can't restore a snapshot of a class, and what to do about it; ``None`` if it can."""
    return next((found for prefix, found in _REMOVED.items() if class_name.startswith(prefix)), None)
