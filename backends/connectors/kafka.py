"""Sources and sinks of Kafka: splits, transactions, and the state of the ``FlinkKafkaConsumer`` that was there before.

Flink: ``KafkaPartitionSplitSerializer``, ``KafkaSourceEnumStateSerializer``, ``FlinkKafkaConsumerBase``,
``KafkaWriterStateSerializer``, ``KafkaCommittableSerializer``, ``TransactionOwnership``; flink-connector-kafka 3.1:
``DynamicKafkaSource``. The layouts follow the connector's source code: no tested savepoint is of a job with Kafka.

Offsets below zero are marks that the broker resolves: :data:`EARLIEST`, :data:`LATEST`, :data:`COMMITTED`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.connectors.choices import Enumerated, SplitList, Versions, of_version
from state_processor.backends.connectors.codecs import (
    BOOL,
    BYTES,
    INT,
    LONG,
    UTF,
    Codec,
    Content,
    Framed,
    Integer,
    ListOf,
    Mapped,
    Optional,
    Struct,
    to_bytes,
)
from state_processor.backends.connectors.connector import (
    ASSIGNED,
    SPLIT_ID,
    Connector,
    Consumer,
    EnumeratedSplit,
    EnumeratorState,
    Format,
    Formats,
    SinkConnector,
    Values,
    Versioned,
)
from state_processor.backends.connectors.content_rows import ContentSource, part
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.support.errors import InvalidRowError
from state_processor.support.mappings import map_values, only_keys, without_keys

# Layouts of the bytes

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
_PARTITION_BYTES: Final = Struct.of(("topic", UTF), ("partition", INT))
SPLIT: Final[Versions] = {0: _PARTITION_BYTES + Struct.of(("startingOffset", OFFSET), ("stoppingOffset", OFFSET))}

_STATUS_BYTES: Final = Struct.of((None, Enumerated("assignmentStatus", {0: "ASSIGNED", 1: "UNASSIGNED", 2: "TOMBSTONED"})))
_DISCOVERED_BYTES: Final = Struct.of(("initialDiscoveryFinished", BOOL))


def _splits(name: str, element: Callable[[Codec], Codec]) -> Struct:
    return Struct.of((None, SplitList(SPLIT, SPLITS, name, element)))


STATE: Final[Versions] = {
    0: _splits("readers", lambda split: Struct.of(("subtask", INT), ("splits", ListOf(split)))),
    1: Struct.of(("assignedPartitions", ListOf(_PARTITION_BYTES))),
    2: Struct.of(("partitions", ListOf(_PARTITION_BYTES + _STATUS_BYTES))) + _DISCOVERED_BYTES,
    3: _splits("splits", lambda split: Struct.of(("split", split)) + _STATUS_BYTES) + _DISCOVERED_BYTES,
}


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
_RETAINED_BYTES: Final = Struct.of(("retainedClusters", _clusters(("retainedUntilMs", LONG))))

_PREFIX_BYTES: Final = Struct.of(("transactionalIdPrefix", UTF))
_OWNERSHIP_BYTES: Final = Enumerated("transactionOwnership", {0: "IMPLICIT_BY_SUBTASK_ID", 1: "EXPLICIT_BY_WRITER_STATE"})
_TRANSACTION_BYTES: Final = Struct.of(("transactionalId", UTF), ("checkpointId", LONG))

LAYOUTS: Final[Mapping[str, Versions]] = {
    SPLITS: SPLIT,
    ENUMERATOR: STATE,
    DYNAMIC_SPLITS: {1: _dynamic_split(), 2: _dynamic_split(("retainedUntilMs", Optional(LONG)))},
    DYNAMIC_ENUMERATOR: {
        1: _dynamic_state(),
        2: _dynamic_state(*_INITIALIZERS),
        3: _dynamic_state(*_INITIALIZERS) + _RETAINED_BYTES,
    },
    WRITER: {
        1: _PREFIX_BYTES,
        2: _PREFIX_BYTES
        + Struct.of(("ownedSubtaskId", INT), ("totalNumberOfOwnedSubtasks", INT), (None, _OWNERSHIP_BYTES))
        + Struct.of(("precommittedTransactionalIds", ListOf(_TRANSACTION_BYTES))),
    },
    COMMITTABLE: {1: Struct.of(("epoch", Integer(2)), ("producerId", LONG), ("transactionalId", UTF))},
}


# KafkaSource

EARLIEST: Final = -2
LATEST: Final = -1
COMMITTED: Final = -3

TOPIC: Final = "topic"
PARTITION: Final = "partition"
STARTING: Final = "starting_offset"
STOPPING: Final = "stopping_offset"
DISCOVERED: Final = "initial_discovery_finished"

_SPLIT_VERSION: Final = 0
_OFFSETS: Final = {STARTING: "startingOffset", STOPPING: "stoppingOffset"}


def _partition(topic: str, partition: int) -> Values:
    return {SPLIT_ID: f"{topic}-{partition}", TOPIC: topic, PARTITION: partition, STARTING: None, STOPPING: None}


def _row(content: Content, source: DataInput, start: int) -> Values:
    """Return the row of a split, or of a partition without offsets."""
    row = _partition(content["topic"], content["partition"])
    if row[PARTITION] < 0:
        raise source.corrupt(f"partition {row[PARTITION]} of a topic", start)
    row |= map_values(content.get, _OFFSETS)
    if any(row[name] is not None and row[name] < COMMITTED for name in _OFFSETS):
        raise source.corrupt(f"offsets {row[STARTING]} and {row[STOPPING]}", start)
    return row


def _content(row: Values) -> Content:
    return {"topic": row[TOPIC], "partition": row[PARTITION]} | _fields(row, _OFFSETS)


def _read_split(source: DataInput) -> Values:
    start = source.position
    return _row(SPLIT[_SPLIT_VERSION].read(source), source, start)


def _write_split(row: Values, target: DataOutput) -> None:
    SPLIT[_SPLIT_VERSION].write(_content(row), target)


def _enumerated(state: Content) -> Iterator[tuple[Content, str, int | None]]:
    """Yield the splits in the state of an enumerator: their content, assignment and reader. Each version has one of the lists."""
    for reader in state.get("readers", ()):
        for split in reader["splits"]:
            yield split, ASSIGNED, reader["subtask"]
    for partition in state.get("assignedPartitions", ()):
        yield partition, ASSIGNED, None
    for partition in state.get("partitions", ()):
        yield partition, partition["assignmentStatus"], None
    for entry in state.get("splits", ()):
        yield entry["split"], entry["assignmentStatus"], None


def _state(state: EnumeratorState) -> Content:
    """Return the content of the state of an enumerator in all versions: each codec writes the fields of its version."""
    readers: dict[int, list[Content]] = {}
    assigned: list[Content] = []
    partitions: list[Content] = []
    splits: list[Content] = []
    for split in state.splits:
        content = _content(split.values)
        if split.subtask is not None:
            readers.setdefault(split.subtask, []).append(content)
        if split.assignment == ASSIGNED:
            assigned.append(content)
        partitions.append(content | {"assignmentStatus": split.assignment})
        splits.append({"split": content, "assignmentStatus": split.assignment})
    return {
        "splitSerializerVersion": _SPLIT_VERSION,
        "readers": [{"subtask": subtask, "splits": of_reader} for subtask, of_reader in readers.items()],
        "assignedPartitions": assigned,
        "partitions": partitions,
        "splits": splits,
        "initialDiscoveryFinished": state.details.get(DISCOVERED, True),
    }


def _enumerator_format(codec: Codec) -> Format[EnumeratorState]:
    def read(source: DataInput) -> EnumeratorState:
        start = source.position
        state = codec.read(source)
        version = state.get("splitSerializerVersion")
        splits = []
        for content, assignment, subtask in _enumerated(state):
            row = _row(content, source, start)
            split = None if version is None else Versioned(version, to_bytes(SPLIT[version], content))
            splits.append(EnumeratedSplit(row, assignment, subtask, split))
        discovered = state.get("initialDiscoveryFinished")
        return EnumeratorState(tuple(splits), {} if discovered is None else {DISCOVERED: discovered})

    return Format(read, lambda state, target: codec.write(_state(state), target))


_SOURCE: Final = Connector(
    name="kafka",
    fields=(
        pa.field(TOPIC, pa.string()),
        pa.field(PARTITION, pa.int32()),
        pa.field(STARTING, pa.int64()),
        pa.field(STOPPING, pa.int64()),
    ),
    splits=Formats("splits of Kafka", {_SPLIT_VERSION: (Format(_read_split, _write_split),)}),
    enumerator=Formats.of_codecs("enumerator of Kafka", STATE, _enumerator_format, usual=2),
    required=(TOPIC, PARTITION),
    required_of_readers=(STARTING,),
    keeps_assigned=True,
    layouts=only_keys(LAYOUTS, (SPLITS, ENUMERATOR)),
    complete=lambda values: _partition(values[TOPIC], values[PARTITION]) | without_keys(values, (SPLIT_ID,)),
    about=(
        "``starting_offset`` is the next offset to read: -1 is latest, -2 earliest, -3 committed. ``stopping_offset`` "
        "is the first offset that is not read; null for a read without an end. The enumerator knows partitions, from "
        "version 3 on with the offsets they start at, and which of them are assigned; an offset that it "
        "does not know is null."
    ),
)


# FlinkKafkaConsumer

CONSUMER_STATE: Final = "topic-partition-offset-states"
"""The union state of ``FlinkKafkaConsumer``."""

# KafkaTopicPartitionStateSentinel: offsets that mark partitions without a record that was read.
_CONSUMER_MARKS: Final = {
    -915623761776: None,
    -915623761775: EARLIEST,
    -915623761774: LATEST,
    -915623761773: COMMITTED,
}


def consumer_values(element: Mapping[str, Any]) -> Values:
    """Return a partition of ``FlinkKafkaConsumer`` as one of ``KafkaSource``.

    The consumer kept the last offset it had read; ``starting_offset`` is the one after it.
    """
    topic, partition = element["f0"]["topic"], element["f0"]["partition"]
    last = element["f1"]
    return _partition(topic, partition) | {STARTING: _CONSUMER_MARKS[last] if last in _CONSUMER_MARKS else last + 1}


KAFKA: Final = replace(_SOURCE, consumer=Consumer("FlinkKafkaConsumer", CONSUMER_STATE, consumer_values))


# DynamicKafkaSource: partitions of topics in several clusters

CLUSTER: Final = "cluster_id"
RETAINED: Final = "retained_until"


def _dynamic_id(content: Content) -> str:
    split = content["split"]
    return f"{content['clusterId']}-{split['topic']}-{split['partition']}"


DYNAMIC_KAFKA: Final = ContentSource(
    name="dynamic-kafka",
    what="DynamicKafkaSource",
    layouts=LAYOUTS,
    splits=DYNAMIC_SPLITS,
    enumerator=DYNAMIC_ENUMERATOR,
    parts=(
        part(CLUSTER, pa.string(), "clusterId"),
        part(TOPIC, pa.string(), "split", "topic"),
        part(PARTITION, pa.int32(), "split", "partition"),
        part(STARTING, pa.int64(), "split", "startingOffset"),
        part(STOPPING, pa.int64(), "split", "stoppingOffset"),
        part(RETAINED, pa.int64(), "retainedUntilMs"),
    ),
    split_id=_dynamic_id,
    new_state=lambda rows: {"streams": [], "stateVersion": 2, "clusters": []},
    usual=1,
    about=(
        "``retained_until`` is in milliseconds. The state of the enumerator contains the streams and the "
        "partitions of each cluster."
    ),
).connector()


# KafkaSink

PREFIX: Final = "transactional_id_prefix"
OWNED: Final = "owned_subtask"
TOTAL: Final = "total_owned_subtasks"
OWNERSHIP: Final = "ownership"
TRANSACTIONS: Final = "transactions"
TRANSACTION: Final = "transactional_id"
PRODUCER: Final = "producer_id"
EPOCH: Final = "epoch"

_CHECKPOINT: Final = "checkpoint_id"
_OF_WRITER: Final = {
    PREFIX: "transactionalIdPrefix",
    OWNED: "ownedSubtaskId",
    TOTAL: "totalNumberOfOwnedSubtasks",
    OWNERSHIP: "transactionOwnership",
}
_OF_TRANSACTION: Final = {TRANSACTION: "transactionalId", _CHECKPOINT: "checkpointId"}
_OF_COMMITTABLE: Final = {TRANSACTION: "transactionalId", PRODUCER: "producerId", EPOCH: "epoch"}
_PRECOMMITTED: Final = "precommittedTransactionalIds"


def _columns(content: Mapping[str, Any], names: Mapping[str, str]) -> Values:
    """Return columns of content: null for fields that a version does not have."""
    return map_values(content.get, names)


def _fields(row: Mapping[str, Any], names: Mapping[str, str]) -> Content:
    return {key: row[name] for name, key in names.items()}


def _writer_format(codec: Codec) -> Format[list[Values]]:
    def read(source: DataInput) -> list[Values]:
        content = codec.read(source)
        transactions = (
            [_columns(transaction, _OF_TRANSACTION) for transaction in content[_PRECOMMITTED]]
            if _PRECOMMITTED in content
            else None
        )
        return [_NOTHING | _columns(content, _OF_WRITER) | {TRANSACTIONS: transactions}]

    def write(rows: list[Values], target: DataOutput) -> None:
        (row,) = rows
        transactions = [_fields(transaction, _OF_TRANSACTION) for transaction in row[TRANSACTIONS] or ()]
        try:
            codec.write(_fields(row, _OF_WRITER) | {_PRECOMMITTED: transactions}, target)
        except InvalidRowError as error:
            raise ValueError(str(error)) from None  # it names a field of the content: the caller adds the row with its columns

    return Format(read, write)


def _committable_format(codec: Codec) -> Format[Values]:
    return Format(
        lambda source: _NOTHING | _columns(codec.read(source), _OF_COMMITTABLE),
        lambda row, target: codec.write(_fields(row, _OF_COMMITTABLE), target),
    )


_NOTHING: Final = dict.fromkeys((*_OF_WRITER, TRANSACTIONS, *_OF_COMMITTABLE))


def _without_transactions(row: Values, dropped: Collection[Values]) -> Values:
    """Return a writer's row without the transactions that are not to be committed: the sink aborts those it does not know."""
    if row[TRANSACTIONS] is None:
        return row
    ids = {committable[TRANSACTION] for committable in dropped}
    return row | {TRANSACTIONS: [t for t in row[TRANSACTIONS] if t[TRANSACTION] not in ids]}


KAFKA_SINK: Final = SinkConnector(
    name="kafka",
    fields=(
        pa.field(PREFIX, pa.string()),
        pa.field(OWNED, pa.int32()),
        pa.field(TOTAL, pa.int32()),
        pa.field(OWNERSHIP, pa.string()),
        pa.field(TRANSACTIONS, pa.list_(pa.struct([(TRANSACTION, pa.string()), (_CHECKPOINT, pa.int64())]))),
        pa.field(TRANSACTION, pa.string()),
        pa.field(PRODUCER, pa.int64()),
        pa.field(EPOCH, pa.int16()),
    ),
    writer=Formats.of_codecs("writer state of KafkaSink", LAYOUTS[WRITER], _writer_format),
    committables=Formats.of_codecs("committables of KafkaSink", LAYOUTS[COMMITTABLE], _committable_format),
    layouts=only_keys(LAYOUTS, (WRITER, COMMITTABLE)),
    required=(PREFIX,),
    forget=_without_transactions,
    about=(
        "A writer has a row with the prefix of its transactional ids and, since version 4.0 of the connector, the "
        "subtask whose ids it owns, out of how many, and the ``transactions`` that are not to be aborted. A transaction "
        "to be committed is a row of its own."
    ),
)
