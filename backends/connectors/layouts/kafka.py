"""Layouts of Kafka: splits and enumerators of ``KafkaSource`` and ``DynamicKafkaSource``, states of ``KafkaSink``.

They are for single values: tables of splits and of sinks have formats of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from state_processor.backends.connectors.layouts.choices import Enumerated, SplitList, Versions, of_version
from state_processor.backends.connectors.layouts.codecs import (
    BOOL,
    BYTES,
    INT,
    LONG,
    UTF,
    Codec,
    Framed,
    Integer,
    ListOf,
    Mapped,
    Optional,
    Struct,
)

_PACKAGE: Final = "org.apache.flink.connector.kafka"
SPLITS: Final = f"{_PACKAGE}.source.split.KafkaPartitionSplitSerializer"
ENUMERATOR: Final = f"{_PACKAGE}.source.enumerator.KafkaSourceEnumStateSerializer"
DYNAMIC_SPLITS: Final = f"{_PACKAGE}.dynamic.source.split.DynamicKafkaSourceSplitSerializer"
DYNAMIC_ENUMERATOR: Final = f"{_PACKAGE}.dynamic.source.enumerator.DynamicKafkaSourceEnumStateSerializer"
WRITER: Final = f"{_PACKAGE}.sink.KafkaWriterStateSerializer"
COMMITTABLE: Final = f"{_PACKAGE}.sink.KafkaCommittableSerializer"

_UNKNOWN: Final = -(1 << 63)
OFFSET: Final = Mapped(
    LONG,
    lambda offset: None if offset == _UNKNOWN else offset,
    lambda offset: _UNKNOWN if offset is None else offset,
)
_PARTITION: Final = Struct.of(("topic", UTF), ("partition", INT))
SPLIT: Final[Versions] = {0: _PARTITION + Struct.of(("startingOffset", OFFSET), ("stoppingOffset", OFFSET))}

# Enumerators

_STATUS: Final = Struct.of((None, Enumerated("assignmentStatus", {0: "ASSIGNED", 1: "UNASSIGNED", 2: "TOMBSTONED"})))
_DISCOVERED: Final = Struct.of(("initialDiscoveryFinished", BOOL))


def _splits(name: str, element: Callable[[Codec], Codec]) -> Struct:
    return Struct.of((None, SplitList(SPLIT, SPLITS, name, element)))


STATE: Final[Versions] = {
    0: _splits("readers", lambda split: Struct.of(("subtask", INT), ("splits", ListOf(split)))),
    1: Struct.of(("assignedPartitions", ListOf(_PARTITION))),
    2: Struct.of(("partitions", ListOf(_PARTITION + _STATUS))) + _DISCOVERED,
    3: _splits("splits", lambda split: Struct.of(("split", split)) + _STATUS) + _DISCOVERED,
}


# Sources of several clusters


def _split_of(content: Mapping[str, Any]) -> Codec:
    return of_version(SPLIT, content["splitVersion"], SPLITS)


def _dynamic_split(*added: tuple[str, Codec]) -> Struct:
    return Struct.of(("clusterId", UTF), *added, ("splitVersion", INT), ("split", _split_of))


def _clusters(*added: tuple[str, Codec]) -> Callable[[Mapping[str, Any]], Codec]:
    def clusters(content: Mapping[str, Any]) -> Codec:
        state = Framed(of_version(STATE, content["stateVersion"], ENUMERATOR))
        return ListOf(Struct.of(("clusterId", UTF), *added, ("state", state)))

    return clusters


def _dynamic_state(*initializers: tuple[str, Codec]) -> Struct:
    cluster = Struct.of(("clusterId", UTF), ("topics", ListOf(UTF)), ("bootstrapServers", UTF), *initializers)
    stream = Struct.of(("streamId", UTF), ("clusters", ListOf(cluster)))
    return Struct.of(("streams", ListOf(stream)), ("stateVersion", INT), ("clusters", _clusters()))


_INITIALIZERS: Final = (("startingOffsetsInitializer", Optional(BYTES)), ("stoppingOffsetsInitializer", Optional(BYTES)))
_RETAINED: Final = Struct.of(("retainedClusters", _clusters(("retainedUntilMs", LONG))))

# The sink

_PREFIX: Final = Struct.of(("transactionalIdPrefix", UTF))
_OWNERSHIP: Final = Enumerated("transactionOwnership", {0: "IMPLICIT_BY_SUBTASK_ID", 1: "EXPLICIT_BY_WRITER_STATE"})
_TRANSACTION: Final = Struct.of(("transactionalId", UTF), ("checkpointId", LONG))

LAYOUTS: Final[Mapping[str, Versions]] = {
    SPLITS: SPLIT,
    ENUMERATOR: STATE,
    DYNAMIC_SPLITS: {1: _dynamic_split(), 2: _dynamic_split(("retainedUntilMs", Optional(LONG)))},
    DYNAMIC_ENUMERATOR: {
        1: _dynamic_state(),
        2: _dynamic_state(*_INITIALIZERS),
        3: _dynamic_state(*_INITIALIZERS) + _RETAINED,
    },
    WRITER: {
        1: _PREFIX,
        2: _PREFIX
        + Struct.of(("ownedSubtaskId", INT), ("totalNumberOfOwnedSubtasks", INT), (None, _OWNERSHIP))
        + Struct.of(("precommittedTransactionalIds", ListOf(_TRANSACTION))),
    },
    COMMITTABLE: {1: Struct.of(("epoch", Integer(2)), ("producerId", LONG), ("transactionalId", UTF))},
}
