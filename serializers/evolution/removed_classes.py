"""Snapshot classes of Flink 1.x that Flink 2.x no longer has, with their successors if they have one."""

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
"""The current names of renamed classes; their values did not change."""

_REMOVED: Final = {
    SCALA: (
        "Flink 2.0 has removed the Scala API and its serializers",
        "read the state and write it with a type that the new job declares, by with_keyed_state or evolve_state, or remove it "
        "with remove_state",
    ),
    f"{NFA}NFA$MigratedNFASerializerSnapshot": (
        "it contains state of pattern matching from before Flink 1.5, and Flink 2.0 can no longer migrate it",
        "restore the job with Flink 1.5 to 1.20 and take another savepoint",
    ),
}
_REMOVED[f"{NFA}SharedBuffer$SharedBufferSerializerSnapshot"] = _REMOVED[f"{NFA}NFA$MigratedNFASerializerSnapshot"]
_REMOVED[OldSharedBufferNodeSerializer.snapshot_class] = (
    "it contains the buffer of pattern matching from before Flink 1.15, and Flink 2.0 can no longer migrate it",
    "restore the job with Flink 1.15 to 1.20 and take another savepoint",
)

LOST_KRYO_SERIALIZERS: Final = (
    "org.apache.flink.api.java.typeutils.runtime.kryo.Serializers$SpecificInstanceCollectionSerializer",
    "org.apache.flink.api.java.typeutils.runtime.kryo.PriorityQueueSerializer",
)
"""Prefixes of the names of Kryo serializers that Flink 1.x contains."""


def removed(class_name: str) -> tuple[str, str] | None:
    """Return why Flink 2.x can't restore a snapshot of a class, and advice; ``None`` if it can."""
    return next((found for prefix, found in _REMOVED.items() if class_name.startswith(prefix)), None)
