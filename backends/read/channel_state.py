"""In-flight data of unaligned checkpoints: network buffers that waited at inputs and outputs.

Flink: ``ChannelStateSerializer``. It is not state of an operator, and belongs to records that were not processed yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.read.state_listing import subtask_label
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import CorruptSnapshotError, OptionError
from state_processor.serializers.format_versions import FormatVersions
from state_processor.serializers.io import DataInput

INPUT: Final = "input"
OUTPUT: Final = "output"
CHANNEL_STATE: Final = FormatVersions("channel state", {0: "1.11"})


@dataclass(frozen=True, slots=True)
class ChannelState:
    """The buffers of one channel of a subtask.

    Parameters
    ----------
    kind
        ``input`` (an input channel) or ``output`` (a result subpartition).
    subtask
        The subtask's index.
    gate
        The input gate or result partition.
    channel
        The input channel or subpartition.
    size
        Bytes of all buffers as Flink recorded them, lengths included.
    offsets
        Where in the stream the pieces are.
    stream
        The file.
    context
        Operator and subtask, for messages.
    """

    kind: str
    subtask: int
    gate: int
    channel: int
    size: int
    offsets: h.Offsets
    stream: h.StreamStateHandle
    context: str

    def read(self, snapshot: Snapshot) -> Iterator[bytes]:
        """Read the bytes of each piece, in the order of sending.

        Raises
        ------
        CorruptSnapshotError
            If the file is not one of channel state.
        """
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
    """Return the channels of one direction, and of one input gate or result partition; ``None`` for all.

    Raises
    ------
    OptionError
        There is no such direction, or the gate does not have data.
    """
    if direction not in (None, INPUT, OUTPUT):
        raise OptionError(f"{spelled('direction', direction)}: expected {INPUT!r} or {OUTPUT!r}")
    channels = [c for c in channel_states(operator) if direction in (None, c.kind)]
    channels_of_gate = [c for c in channels if gate in (None, c.gate)]
    if gate is not None and not channels_of_gate:
        there = sorted({(c.kind, c.gate) for c in channels})
        listing = ", ".join(f"{kind} {number}" for kind, number in there) or "none"
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

    Parameters
    ----------
    snapshot, operators
        Where the channels are.
    raw
        Adds the bytes of each buffer.
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
