"""Records in flight: what network buffers hold, as rows, where the type of the records is given.

Flink: ``SpanningRecordSerializationDelegate``, ``SpillingAdaptiveSpanningRecordDeserializer``, ``StreamElementSerializer``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats.framing import ENTRY_FIELDS
from state_processor.backends.formats.row_layout import Field, RowLayout, RowPart
from state_processor.backends.formats.source import decode_framed
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.raw_state import INPUT, ChannelState
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput
from state_processor.serializers.runtime.stream_records import STREAM_ELEMENTS, StreamElementSerializer
from state_processor.support.errors import CorruptSnapshotError, StateProcessorError, third_party_errors
from state_processor.support.late import pc

CONTINUED: Final = "continued"
"""The kind of a row for the rest of a record that began in a buffer before: it was sent when the checkpoint was made."""
INCOMPLETE: Final = "incomplete"
"""The kind of a row for a record whose rest is in a buffer behind."""
_LENGTH: Final = struct.Struct(">i")
_ELEMENT: Final = "element"
_RECORD: Final = "record"
_STATUSES: Final = {-1: "idle", 0: "active"}
_SMALLEST: Final = {tag: 1 + kind.before + 8 * kind.has_timestamp + kind.after for tag, kind in STREAM_ELEMENTS.items()}
"""The size of an element without its record, by tag."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Whole elements in the bytes of a channel, and the bytes before and after them."""

    first: int  # where the first element begins
    bounds: npt.NDArray[np.int64]  # start and end of each element, without its length
    end: int  # the end of the last whole element


def _is_element(tag: int, length: int) -> bool:
    kind = STREAM_ELEMENTS.get(tag)
    return kind is not None and (length >= _SMALLEST[tag] if kind.has_record else length == _SMALLEST[tag])


def _chain(data: bytes, start: int) -> Frames | None:
    """Return the elements from a position on; ``None`` if there can't be elements."""
    bounds, position, size = [], start, len(data)
    while position + _LENGTH.size < size:
        (length,) = _LENGTH.unpack_from(data, position)
        if not _is_element(data[position + _LENGTH.size], length):
            return None
        end = position + _LENGTH.size + length
        if end > size:
            break
        bounds.append((position + _LENGTH.size, end))
        position = end
    return Frames(start, np.array(bounds, dtype=np.int64).reshape(-1, 2), position)


def frames_of(data: bytes, kind: str, serializer: StreamElementSerializer) -> Frames:
    """Find the elements in the bytes of a channel.

    The buffers of an input begin with an element: Flink keeps the begin of one whose rest has not arrived. The buffers of an
    output can begin with the rest of one. The elements then begin where the first can be read.
    """
    at_start = _chain(data, 0)
    if at_start is not None and (kind == INPUT or len(at_start.bounds)):
        return at_start
    for start in range(1, len(data)):
        chain = _chain(data, start)
        if chain is not None and len(chain.bounds) and _can_be_read(data[slice(*chain.bounds[0])], serializer):
            return chain
    return at_start or Frames(len(data), np.empty((0, 2), dtype=np.int64), len(data))


def _can_be_read(data: bytes, serializer: StreamElementSerializer) -> bool:
    source = DataInput(data)
    try:
        serializer.read(source)
    except (StateProcessorError, ValueError, LookupError, TypeError, ArithmeticError):
        return False
    return source.at_end()


def _detail(data: bytes) -> str | None:
    """Return what an element has besides its time, in words; ``None`` for a record or a watermark."""
    kind, rest = STREAM_ELEMENTS[data[0]].name, data[1:]
    if kind == "watermark_status":
        (status,) = _LENGTH.unpack(rest)
        return _STATUSES.get(status, str(status))
    if kind == "latency_marker":
        lower, upper, subtask = struct.unpack_from(">8s8si", rest, 8)
        return f"from operator {lower.hex()}{upper.hex()}, subtask {subtask}"
    if kind == "record_attributes":
        return "backlog" if rest[0] else "no backlog"
    if kind == "internal_watermark":
        return f"of subpartition {_LENGTH.unpack_from(rest)[0]}"
    return None


class ChannelRecords:
    """The elements of channels as rows, in the order in which they were sent.

    ``type_``: the type of the records, which snapshots do not contain. ``options``: the representation of values.
    """

    def __init__(
        self, snapshot: Snapshot, channels: Sequence[ChannelState], type_: TypeSerializer, options: DecodeOptions
    ) -> None:
        self._snapshot = snapshot
        self._channels = channels
        self._type = type_
        self._options = options
        self._serializer = StreamElementSerializer(type_)
        self._layout = RowLayout((RowPart(0, (Field(_ELEMENT, self._serializer),)),), frozenset({_ELEMENT}))
        self.schema = pa.schema(
            [
                ("subtask", pa.int32()),
                ("direction", pa.string()),
                ("gate", pa.int32()),
                ("channel", pa.int32()),
                ("index", pa.int64()),
                ("kind", pa.string()),
                ("timestamp", pa.int64()),
                (_RECORD, self._layout.schema(options).field(_ELEMENT).type.field(_RECORD).type),
                ("detail", pa.string()),
            ]
        )

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all channels; at least one batch, which may be empty."""
        self._snapshot.check_plan()
        yield pa.RecordBatch.from_pylist([], self.schema)
        for channel in self._channels:
            yield from self._rows(channel)

    def _rows(self, channel: ChannelState) -> Iterator[pa.RecordBatch]:
        data = b"".join(channel.read(self._snapshot))
        frames = frames_of(data, channel.kind, self._serializer)
        index = 0
        if frames.first:
            yield self._part(channel, index, CONTINUED, f"{frames.first} bytes of a record that began before")
            index += 1
        for batch in self._decoded(channel, data, frames):
            element = batch.column(_ELEMENT)
            kinds = element.field("kind")
            behind = index - (frames.first > 0)
            details = []
            for i, kind in enumerate(kinds.to_pylist(), behind):
                details.append(None if kind == _RECORD else _detail(data[slice(*frames.bounds[i])]))
            yield self._batch(
                channel, index, kinds, element.field("timestamp"), element.field(_RECORD), pa.array(details, pa.string())
            )
            index += batch.num_rows
        if frames.end < len(data):
            yield self._part(channel, index, INCOMPLETE, _of_rest(data[frames.end :]))

    def _decoded(self, channel: ChannelState, data: bytes, frames: Frames) -> Iterator[pa.RecordBatch]:
        context = f"{channel.context}, {channel.kind} {channel.gate}/{channel.channel}"
        entries = np.zeros((len(frames.bounds), ENTRY_FIELDS), dtype=np.int64)
        entries[:, :2] = frames.bounds
        buffer = np.frombuffer(data, dtype=np.uint8)
        try:
            with third_party_errors(context, parts=(self._type,)):
                yield from decode_framed(self._layout, self._options, context, iter([(buffer, None, entries)]))
        except CorruptSnapshotError as error:
            raise CorruptSnapshotError(
                f"{error}; the records may be of another type than {self._type}: give the type of what "
                f"{channel.kind} {channel.gate} transports, and read one gate at a time (gate={channel.gate})"
            ) from error

    def _part(self, channel: ChannelState, index: int, kind: str, detail: str) -> pa.RecordBatch:
        record = pa.nulls(1, self.schema.field(_RECORD).type)
        return self._batch(channel, index, pa.array([kind]), pa.nulls(1, pa.int64()), record, pa.array([detail]))

    def _batch(
        self,
        channel: ChannelState,
        index: int,
        kinds: pa.Array,
        timestamps: pa.Array,
        records: pa.Array,
        details: pa.Array,
    ) -> pa.RecordBatch:
        rows = len(kinds)
        place = {
            "subtask": channel.subtask,
            "direction": channel.kind,
            "gate": channel.gate,
            "channel": channel.channel,
        }
        arrays = [pa.repeat(pa.scalar(value, self.schema.field(name).type), rows) for name, value in place.items()]
        numbers = pc.add(pa.array(np.arange(rows, dtype=np.int64)), index)
        return pa.RecordBatch.from_arrays([*arrays, numbers, kinds, timestamps, records, details], schema=self.schema)


def _of_rest(rest: bytes) -> str:
    if len(rest) < _LENGTH.size:
        return f"{len(rest)} of the {_LENGTH.size} bytes of a length"
    return f"{len(rest) - _LENGTH.size} of {_LENGTH.unpack_from(rest)[0]} bytes of a record"
