"""Raw state that operators write themselves, and data in flight, as bytes.

Flink: ``KeyedStateCheckpointOutputStream``, ``OperatorStateCheckpointOutputStream``.

In flight are the network buffers of unaligned checkpoints. Flink: ``ChannelStateSerializer``. It is not state of an operator,
and belongs to records that were not processed yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import pyarrow as pa

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.read.keyed_reader import PlannedReader
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.stored_operator import StoredOperator, own_raw_keyed, subtask_label
from state_processor.serializers.format_versions import FormatVersions
from state_processor.serializers.io import DataInput
from state_processor.support.doors import spelled
from state_processor.support.errors import CorruptSnapshotError, NotFoundError, OptionError
from state_processor.support.mappings import without_none

INPUT: Final = "input"
OUTPUT: Final = "output"
CHANNEL_STATE: Final = FormatVersions("channel state", {0: "1.11"})


@dataclass(frozen=True, slots=True)
class ChannelState:
    """The buffers of one channel of a subtask."""

    kind: str  # ``input`` (an input channel) or ``output`` (a result subpartition)
    subtask: int  # the subtask's index
    gate: int  # the input gate or result partition
    channel: int  # the input channel or subpartition
    size: int  # bytes of all buffers as Flink recorded them, lengths included
    offsets: h.Offsets  # where in the stream the pieces are
    stream: h.StreamStateHandle  # the file
    context: str  # operator and subtask, for messages

    def read(self, snapshot: Snapshot) -> Iterator[bytes]:
        """Read the bytes of each piece, in the order of sending."""
        stream = snapshot.open(self.stream, self.context)
        location = f"{self.context}, {self.kind} {self.gate}/{self.channel}, {stream.describe()}"
        CHANNEL_STATE.check(DataInput(stream.read(0, 4), location).read_int(), location, 0)
        for offset in self.offsets:
            length = DataInput(stream.read(offset, 4), f"{location} at {offset}").read_int()
            if length < 0 or offset + 4 + length > stream.size:
                raise CorruptSnapshotError(
                    f"{location}, offset {offset}: {length} bytes announced, {stream.size - offset - 4} left"
                )
            yield bytes(stream.read(offset + 4, length))


def channel_states(operator: OperatorState) -> Iterator[ChannelState]:
    """Yield the channels of an operator that have in-flight data."""
    for subtask in operator.subtasks:
        context = subtask_label(operator, subtask)
        yield from _of_subtask(subtask, context)


def wanted_channels(operator: OperatorState, direction: str | None, gate: int | None) -> list[ChannelState]:
    """Return the channels of one direction, and of one input gate or result partition; ``None`` for all."""
    if direction not in (None, INPUT, OUTPUT):
        raise OptionError(f"{spelled('direction', direction)}: expected {INPUT!r} or {OUTPUT!r}")
    channels = [c for c in channel_states(operator) if direction in (None, c.kind)]
    channels_of_gate = [c for c in channels if gate in (None, c.gate)]
    if gate is not None and not channels_of_gate:
        gates = sorted({(c.kind, c.gate) for c in channels})
        listing = ", ".join(f"{kind} {number}" for kind, number in gates) or "none"
        raise OptionError(f"{spelled('gate', gate)}: there is no data in flight; the gates with data are: {listing}")
    return channels_of_gate


def _of_subtask(subtask: OperatorSubtaskState, context: str) -> Iterator[ChannelState]:
    handles = [(INPUT, handle) for handle in subtask.input_channels]
    handles_out = [(OUTPUT, handle) for handle in subtask.result_subpartitions]
    for kind, handle in (*handles, *handles_out):
        if isinstance(handle, h.MergedChannelStateHandle):
            for gate, channel, size, offsets in _channels(handle, context):
                yield ChannelState(kind, subtask.index, gate, channel, size, offsets, handle.stream, context)
        else:
            yield ChannelState(
                kind, subtask.index, handle.group, handle.channel, handle.size, handle.offsets, handle.stream, context
            )


def _channels(handle: h.MergedChannelStateHandle, context: str) -> Iterator[tuple[int, int, int, h.Offsets]]:
    """Yield the channels of a merged handle."""
    source = DataInput(handle.serialized_offsets, f"{context}, offsets of merged channel state")
    for _ in range(source.read_count("channels", 20)):
        gate, channel, size = source.read_int(), source.read_int(), source.read_long()
        count = source.read_count("offsets", 8)
        yield gate, channel, size, h.Offsets(source.read_bytes(8 * count))
    if not source.at_end():
        raise source.corrupt(f"{source.remaining} bytes too many")


def count_records(data: bytes) -> int | None:
    """Count the whole records in the buffers of a channel; ``None`` if they do not begin with one.

    A record is a length and as many bytes, and may continue in the next buffer; the last one may be cut off.
    """
    position = count = 0
    while position + 4 <= len(data):
        length = int.from_bytes(data[position : position + 4], "big", signed=True)
        if length <= 0:
            return None
        position += 4 + length
        count += position <= len(data)
    return count if count or not data else None


_SCHEMA: Final = pa.schema(
    [
        ("operator_uid", pa.string()),
        ("operator_uid_hash", pa.string()),
        ("subtask", pa.int32()),
        ("direction", pa.string()),
        ("gate", pa.int32()),
        ("channel", pa.int32()),
        ("size_in_bytes", pa.int64()),
        ("record_count", pa.int64()),
    ]
)
_BUFFERS: Final = pa.field("buffers", pa.list_(pa.binary()))


def channel_table(snapshot: Snapshot, operators: Sequence[OperatorState], *, raw: bool = False) -> pa.Table:
    """Return one row per channel with in-flight data: whose it is, its size, and how many whole records it has.

    ``raw``: adds the bytes of each buffer.
    """
    rows = []
    for operator in operators:
        for channel in channel_states(operator):
            buffers = list(channel.read(snapshot))
            row = {
                "operator_uid": operator.uid,
                "operator_uid_hash": operator.operator_id,
                "subtask": channel.subtask,
                "direction": channel.kind,
                "gate": channel.gate,
                "channel": channel.channel,
                "size_in_bytes": channel.size,
                "record_count": count_records(b"".join(buffers)),
            }
            rows.append(row | {_BUFFERS.name: buffers} if raw else row)
    return pa.Table.from_pylist(rows, _SCHEMA.append(_BUFFERS) if raw else _SCHEMA)


RAW_KEYED: Final = "RAW_KEYED"
RAW_OPERATOR: Final = "RAW_OPERATOR"
_BATCH_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class RawPiece:
    """Bytes that an operator wrote."""

    subtask: int  # the subtask's index
    index: int  # the key group of raw keyed state, the number of the partition of raw operator state
    data: bytes


def raw_keyed_state(snapshot: Snapshot, operator: OperatorState) -> Iterator[RawPiece]:
    """Yield an operator's own raw keyed state, by key group. Flink's timers in raw keyed state are left out."""
    from state_processor.backends.formats.raw_timers import raw_blocks  # few snapshots have raw keyed state

    for subtask in operator.subtasks:
        context = subtask_label(operator, subtask)
        handle = own_raw_keyed(snapshot, operator, subtask)
        if not isinstance(handle, h.KeyGroupsStateHandle):
            continue
        stream = snapshot.open(handle.stream, context)
        for block in raw_blocks(stream, handle, context):
            yield RawPiece(subtask.index, block.key_group, bytes(stream.read(block.offset, block.end - block.offset)))


def raw_operator_state(snapshot: Snapshot, operator: OperatorState) -> Iterator[RawPiece]:
    """Yield an operator's own raw operator state, by partition."""
    for subtask in operator.subtasks:
        if subtask.raw_operator is None:
            continue
        context = subtask_label(operator, subtask)
        stream = snapshot.open(subtask.raw_operator.stream, context)
        offsets = list(chain.from_iterable(state.offsets for state in subtask.raw_operator.states))
        bounds = sorted({*offsets, stream.size})
        if bounds[0] < 0 or bounds[-1] > stream.size:
            location = f"{context}, {stream.describe()}"
            raise CorruptSnapshotError(f"{location}: a partition starts at {bounds[-1]} of {stream.size} bytes")
        ends = dict(zip(bounds, [*bounds[1:], stream.size], strict=True))
        for i, offset in enumerate(offsets):
            yield RawPiece(subtask.index, i, bytes(stream.read(offset, ends[offset] - offset)))


@dataclass(frozen=True, slots=True)
class RawSplit:
    """The raw state of one subtask: what one task reads. It can be pickled."""

    subtask: OperatorSubtaskState
    size: int


class RawStateReader(PlannedReader):
    """Reads raw state, as rows of ``subtask``, ``key_group`` or ``partition``, and ``value`` (the bytes).

    ``stored``: the operator that has the state. ``kind``: ``RAW_KEYED`` or ``RAW_OPERATOR``. ``options``: the read: raw
    state has columns, and its values are bytes.
    """

    def __init__(self, stored: StoredOperator, kind: str, options: ReadOptions) -> None:
        super().__init__(stored, options)
        self._kind = kind
        if not self.splits():
            raise NotFoundError(f"{stored.label} has no {kind} state")

    def _whole_schema(self) -> pa.Schema:
        return pa.schema([("subtask", pa.int32()), (_INDEX[self._kind], pa.int32()), ("value", pa.binary())])

    def splits(self, split_bytes: int = 0) -> list[RawSplit]:
        """Plan a split per subtask."""
        splits = map(self._split, self._stored.operator.subtasks)
        return without_none(splits)

    def _split(self, subtask: OperatorSubtaskState) -> RawSplit | None:
        if self._kind == RAW_KEYED:
            keyed = own_raw_keyed(self._stored.snapshot, self._stored.operator, subtask)
            part = OperatorSubtaskState(subtask.index, raw_keyed=keyed)
        else:
            part = OperatorSubtaskState(subtask.index, raw_operator=subtask.raw_operator)
        return RawSplit(part, part.state_size) if part.has_state else None

    def _rows(self, split: RawSplit) -> Iterator[pa.RecordBatch]:
        pieces: list[RawPiece] = []
        size = 0
        for piece in _READ[self._kind](self._stored.snapshot, replace(self._stored.operator, subtasks=(split.subtask,))):
            pieces.append(piece)
            size += len(piece.data)
            if size >= _BATCH_BYTES:
                yield self._batch(pieces)
                pieces, size = [], 0
        if pieces:
            yield self._batch(pieces)

    def _batch(self, pieces: list[RawPiece]) -> pa.RecordBatch:
        index = _INDEX[self._kind]
        rows = [{"subtask": piece.subtask, index: piece.index, "value": piece.data} for piece in pieces]
        return pa.RecordBatch.from_pylist(rows, schema=self.schema)


_INDEX: Final = {RAW_KEYED: "key_group", RAW_OPERATOR: "partition"}
_READ: Final[dict[str, Callable[[Snapshot, OperatorState], Iterator[RawPiece]]]] = {
    RAW_KEYED: raw_keyed_state,
    RAW_OPERATOR: raw_operator_state,
}
