"""Splits of ``KafkaSource``, and the state of the ``FlinkKafkaConsumer`` that was there before it.

Flink: ``KafkaPartitionSplitSerializer``, ``KafkaSourceEnumStateSerializer``, ``FlinkKafkaConsumerBase``. The layouts follow the
connector's source code: no tested savepoint is of a job with Kafka.

Offsets below zero are marks that the broker resolves: :data:`EARLIEST`, :data:`LATEST`, :data:`COMMITTED`.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from state_processor.backends.connectors.connector import (
    ASSIGNED,
    SPLIT_ID,
    UNASSIGNED,
    Connector,
    EnumeratedSplit,
    EnumeratorState,
    Format,
    Formats,
    Values,
    Versioned,
)
from state_processor.serializers.io import DataInput, DataOutput

EARLIEST: Final = -2
LATEST: Final = -1
COMMITTED: Final = -3

TOPIC: Final = "topic"
PARTITION: Final = "partition"
STARTING: Final = "starting_offset"
STOPPING: Final = "stopping_offset"
DISCOVERED: Final = "initial_discovery_finished"

_UNKNOWN_OFFSET: Final = -(1 << 63)
_SMALLEST_NAME: Final = 6
_STATUS: Final = {0: ASSIGNED, 1: UNASSIGNED, 2: "TOMBSTONED"}
_STATUS_CODES: Final = {status: code for code, status in _STATUS.items()}
_SPLIT_VERSION: Final = 0


def _offset(value: int) -> int | None:
    return None if value == _UNKNOWN_OFFSET else value


def _stored(offset: int | None) -> int:
    return _UNKNOWN_OFFSET if offset is None else offset


def _partition(topic: str, partition: int) -> Values:
    return {SPLIT_ID: f"{topic}-{partition}", TOPIC: topic, PARTITION: partition, STARTING: None, STOPPING: None}


def _read_partition(source: DataInput) -> Values:
    start = source.position
    values = _partition(source.read_utf(), source.read_int())
    if values[PARTITION] < 0:
        raise source.corrupt(f"partition {values[PARTITION]} of a topic", start)
    return values


def _write_partition(values: Values, target: DataOutput) -> None:
    target.write_utf(values[TOPIC])
    target.write_int(values[PARTITION])


def _read_split(source: DataInput) -> Values:
    values = _read_partition(source)
    start = source.position
    values[STARTING], values[STOPPING] = _offset(source.read_long()), _offset(source.read_long())
    if any(offset is not None and offset < COMMITTED for offset in (values[STARTING], values[STOPPING])):
        raise source.corrupt(f"offsets {values[STARTING]} and {values[STOPPING]}", start)
    return values


def _write_split(values: Values, target: DataOutput) -> None:
    _write_partition(values, target)
    target.write_long(_stored(values[STARTING]))
    target.write_long(_stored(values[STOPPING]))


_SPLITS: Final = Formats("splits of Kafka", {_SPLIT_VERSION: (Format(_read_split, _write_split),)})


def _read_sized_split(source: DataInput, version: int) -> tuple[Values, Versioned]:
    split = Versioned(version, source.read_bytes(source.read_count("bytes"), "split"))
    return _SPLITS.read(split, source.source), split


def _write_sized_split(values: Values, target: DataOutput) -> None:
    data = _SPLITS.write(values, _SPLIT_VERSION).data
    target.write_int(len(data))
    target.write_bytes(data)


def _read_assignment(source: DataInput) -> str:
    code = source.read_int()
    if code not in _STATUS:
        raise source.corrupt(f"assignment status {code}", source.position - 4)
    return _STATUS[code]


def _read_v0(source: DataInput) -> EnumeratorState:
    """Read the splits of each reader (Flink: ``SerdeUtils.serializeSplitAssignments``)."""
    readers = source.read_count("readers", 8)
    version = source.read_int()
    splits = []
    for _ in range(readers):
        subtask = source.read_int()
        for _ in range(source.read_count("splits", 4)):
            values, split = _read_sized_split(source, version)
            splits.append(EnumeratedSplit(values, ASSIGNED, subtask, split))
    return EnumeratorState(tuple(splits))


def _write_v0(state: EnumeratorState, target: DataOutput) -> None:
    by_subtask: dict[int, list[EnumeratedSplit]] = {}
    for split in state.splits:
        if split.subtask is not None:
            by_subtask.setdefault(split.subtask, []).append(split)
    target.write_int(len(by_subtask))
    target.write_int(_SPLIT_VERSION)
    for subtask, splits in by_subtask.items():
        target.write_int(subtask)
        target.write_int(len(splits))
        for split in splits:
            _write_sized_split(split.values, target)


def _read_v1(source: DataInput) -> EnumeratorState:
    count = source.read_count("partitions", _SMALLEST_NAME)
    return EnumeratorState(tuple(EnumeratedSplit(_read_partition(source), ASSIGNED) for _ in range(count)))


def _write_v1(state: EnumeratorState, target: DataOutput) -> None:
    assigned = [s for s in state.splits if s.assignment == ASSIGNED]
    target.write_int(len(assigned))
    for split in assigned:
        _write_partition(split.values, target)


def _read_v2(source: DataInput) -> EnumeratorState:
    count = source.read_count("partitions", _SMALLEST_NAME + 4)
    splits = tuple(EnumeratedSplit(_read_partition(source), _read_assignment(source)) for _ in range(count))
    return EnumeratorState(splits, {DISCOVERED: source.read_boolean()})


def _write_v2(state: EnumeratorState, target: DataOutput) -> None:
    target.write_int(len(state.splits))
    for split in state.splits:
        _write_partition(split.values, target)
        target.write_int(_STATUS_CODES[split.assignment])
    target.write_boolean(state.details.get(DISCOVERED, True))


def _read_v3(source: DataInput) -> EnumeratorState:
    count = source.read_count("splits", 8)
    version = source.read_int()
    splits = []
    for _ in range(count):
        values, split = _read_sized_split(source, version)
        splits.append(EnumeratedSplit(values, _read_assignment(source), split=split))
    return EnumeratorState(tuple(splits), {DISCOVERED: source.read_boolean()})


def _write_v3(state: EnumeratorState, target: DataOutput) -> None:
    target.write_int(len(state.splits))
    target.write_int(_SPLIT_VERSION)
    for split in state.splits:
        _write_sized_split(split.values, target)
        target.write_int(_STATUS_CODES[split.assignment])
    target.write_boolean(state.details.get(DISCOVERED, True))


KAFKA: Final = Connector(
    name="kafka",
    fields=(
        pa.field(TOPIC, pa.string()),
        pa.field(PARTITION, pa.int32()),
        pa.field(STARTING, pa.int64()),
        pa.field(STOPPING, pa.int64()),
    ),
    splits=_SPLITS,
    enumerator=Formats(
        "enumerator of Kafka",
        {
            0: (Format(_read_v0, _write_v0),),
            1: (Format(_read_v1, _write_v1),),
            2: (Format(_read_v2, _write_v2),),
            3: (Format(_read_v3, _write_v3),),
        },
        usual=2,
    ),
    required=(TOPIC, PARTITION),
    required_of_readers=(STARTING,),
    keeps_assigned=True,
    complete=lambda values: _partition(values[TOPIC], values[PARTITION]) | {n: v for n, v in values.items() if n != SPLIT_ID},
)
"""``starting_offset`` is the next offset to read, ``stopping_offset`` the first one not to read; null for a
read without an end.

The enumerator knows partitions, from version 3 on with the offsets they start at, and which of them are assigned; null stands
for an offset that it does not know.
"""

CONSUMER_STATE: Final = "topic-partition-offset-states"
"""The union state of ``FlinkKafkaConsumer``."""

# KafkaTopicPartitionStateSentinel: offsets that mark partitions without a record that was read.
_CONSUMER_MARKS: Final = {
    -915623761776: None,
    -915623761775: EARLIEST,
    -915623761774: LATEST,
    -915623761773: COMMITTED,
}


def consumer_values(element: dict[str, Any]) -> Values:
    """Return a partition of ``FlinkKafkaConsumer`` as one of ``KafkaSource``.

    The consumer kept the last offset it had read; ``starting_offset`` is the one after it.
    """
    topic, partition = element["f0"]["topic"], element["f0"]["partition"]
    last = element["f1"]
    return _partition(topic, partition) | {STARTING: _CONSUMER_MARKS[last] if last in _CONSUMER_MARKS else last + 1}
