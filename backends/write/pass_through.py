"""Pass-through: entries of states that nobody changed, taken over as bytes. Values are delimited, not decoded.

* Entries that have lengths (canonical files, embedded stores) are framed anew, one by one.
* Entries without lengths (heap files) are stepped through once; the spans of key, namespace, value, list elements and map
  entries (:class:`PassThroughSerializer`) are put together in the canonical format. So are the timers of raw keyed state,
  which become those of a queue: canonical savepoints hold no other timers, and Flink restores them into any backend.
* A stream that does not change is copied (:func:`copy_stream`).

Entries become blobs, as new ones do (:data:`~state_processor.backends.write.entry_encoder.BLOB_SCHEMA`), which go to the subtask
that owns their key group. With another parallelism key groups change hands; with another max parallelism each key gets a new
key group, from its hash.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.formats import entry_layouts as layouts
from state_processor.backends.formats.changelog import ChangelogSource
from state_processor.backends.formats.entry_framing import frame_entries
from state_processor.backends.formats.framing import KEY_GROUP
from state_processor.backends.formats.keyed_files import (
    Block,
    EntryLocator,
    HeapSource,
    KeyedStateSource,
    decode_framed,
    prefix_size,
)
from state_processor.backends.formats.raw_keyed import RawTimersSource
from state_processor.backends.formats.row_layout import KEY_GROUP_COLUMN, Field, Part, RowLayout
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.state_stream import StateStream
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.state.key_groups import key_group
from state_processor.backends.write.entry_encoder import KEY, KeyedStateEncoder, KeyHash, to_blobs
from state_processor.backends.write.staging import FileSink
from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import UnsupportedFormatError
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kernel.columns import DISCARD
from state_processor.serializers.kernel.decode import ops
from state_processor.serializers.kernel.encode import ops as encode_ops
from state_processor.serializers.keys.hash_codes import hash_codes
from state_processor.serializers.runtime.timers import TimerSerializer

if TYPE_CHECKING:
    from state_processor.serializers.kernel.columns import Column
    from state_processor.serializers.kernel.decode.program import DecodeBuilder
    from state_processor.serializers.kernel.encode.program import EncodeBuilder

_LOSSLESS: Final = DecodeOptions(nanos="string", row_kind=True)
_COPIED_AT_ONCE: Final = 8 << 20


class FramedSource(KeyedStateSource, Protocol):
    """A source whose entries have lengths."""

    def blocks(self, name: str, key_groups: h.KeyGroupRange) -> Iterator[Block]:
        """A state's entries: their bytes, the offset of those in the file, and lines as the kernels of framing give them."""


class PassThroughSerializer(TypeSerializer):
    """The bytes of another serializer's values.

    Parameters
    ----------
    inner
        The serializer that knows where a value ends.
    """

    def __init__(self, inner: TypeSerializer) -> None:
        self.inner = inner
        self.length = inner.length
        self.smallest = inner.smallest

    def __str__(self) -> str:
        return str(self.inner)

    def read(self, source: DataInput) -> bytes:
        start = source.position
        self.inner.skip(source)
        return bytes(source.data[start : source.position])

    @property
    def writes_null(self) -> bool:
        return self.inner.writes_null

    def write(self, value: bytes | None, target: DataOutput) -> None:
        if value is None:  # the heap keeps no bytes of it
            self.inner.write(None, target)
        else:
            target.write_bytes(value)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def emit(self, builder: DecodeBuilder, column: Column) -> None:
        start = builder.register()
        builder.op(ops.MARK, DISCARD, start)
        self.inner.emit(builder, DISCARD)
        builder.op(ops.CAPTURE, column, start)

    def emit_encode(self, builder: EncodeBuilder, column: Column) -> None:
        if self.writes_null:
            null = self.inner.serialize(None)
            builder.op(encode_ops.RAW, column, builder.constant(null), len(null))
        else:
            builder.op(encode_ops.RAW, column, -1)

    def snapshot(self) -> TypeSerializerSnapshot:
        return self.inner.snapshot()


def captured(state: StateDescription) -> StateDescription:
    """The state with bytes in the place of all values."""

    def capture(serializer: TypeSerializer | None) -> TypeSerializer | None:
        return None if serializer is None else PassThroughSerializer(serializer)

    value = capture(state.value)
    if isinstance(state.value, TimerSerializer):
        value = TimerSerializer(PassThroughSerializer(state.value.key), PassThroughSerializer(state.value.namespace))
    return replace(
        state, key=capture(state.key), namespace=capture(state.namespace), map_key=capture(state.map_key), value=value
    )


@dataclass(frozen=True)
class KeyedPassThrough:
    """Takes over keyed states into an operator.

    Parameters
    ----------
    parallelism, max_parallelism
        Of the operator to write.
    old_max_parallelism
        Of the operator that is read.
    key_hash
        ``hashCode`` of keys, where the max parallelism changes and the serializer does not know it; it is given keys as
        columns of the type that they have with text for dates and times.
    """

    parallelism: int
    max_parallelism: int
    old_max_parallelism: int
    key_hash: KeyHash | None = None

    def blobs(self, source: KeyedStateSource, name: str, state_id: int, key_groups: h.KeyGroupRange) -> Iterator[pa.RecordBatch]:
        """The entries of a state as blobs.

        Parameters
        ----------
        source
            The keyed state of one handle.
        name
            The state; none of that name has no entries.
        state_id
            Its position in the header of the files to write.
        key_groups
            Which key groups of the handle to take.

        Raises
        ------
        UnsupportedFormatError
            If the source is of a kind whose entries can't be told from one another without decoding them.
        """
        state = source.describe(name)
        if state is None:
            return
        if isinstance(source, HeapSource | RawTimersSource):
            yield from self._from_sections(source, state, state_id, key_groups)
        elif isinstance(source, ChangelogSource):
            for part, unchanged in source.untouched(name, key_groups):
                yield from self.blobs(part, name, state_id, unchanged)
            yield from self._from_blocks(source.changed(state, key_groups), state, state_id)
        elif hasattr(source, "blocks"):
            yield from self._from_blocks(cast(FramedSource, source).blocks(name, key_groups), state, state_id)
        else:
            raise UnsupportedFormatError(f"state {name!r}: entries of {type(source).__name__} can't be taken over as bytes")

    @property
    def _moves(self) -> bool:
        return self.max_parallelism != self.old_max_parallelism

    def _groups_of(self, state: StateDescription, keys: pa.Array) -> npt.NDArray[np.int32]:
        assert state.key is not None
        hashes = self.key_hash(keys) if self.key_hash else hash_codes(state.key, keys)
        return key_group(hashes, self.max_parallelism)

    def _from_blocks(self, blocks: Iterator[Block], state: StateDescription, state_id: int) -> Iterator[pa.RecordBatch]:
        prefix = prefix_size(self.max_parallelism)
        layout = layouts.framed_layout(state, frozenset({KEY}))
        for buffer, base, entries in blocks:
            if not len(entries):  # a changelog may have left nothing of a key group
                continue
            groups = entries[:, KEY_GROUP].astype(np.int32)
            if self._moves:
                batches = decode_framed(layout, _LOSSLESS, f"state {state.name!r}", iter([(buffer, base, entries)]))
                groups = self._groups_of(state, pa.chunked_array([b.column(KEY) for b in batches]).combine_chunks())
            order = np.argsort(groups.astype(np.uint16), kind="stable").astype(np.int64)  # two bytes: a radix sort
            sizes = entries[:, 1] - entries[:, 0] + entries[:, 3] - entries[:, 2]
            out = np.empty(int(sizes.sum()) + len(entries) * (8 + prefix), dtype=np.uint8)
            in_order = np.ascontiguousarray(groups[order])
            starts = frame_entries(buffer, np.ascontiguousarray(entries), order, in_order, prefix, out)
            bounds = np.append(np.flatnonzero(np.diff(in_order, prepend=-1)), len(order))
            spans = np.stack([starts[bounds[:-1]], starts[bounds[1:]], np.diff(bounds)], axis=1)
            yield from to_blobs(out, spans, in_order[bounds[:-1]], state_id, self.parallelism, self.max_parallelism)

    def _from_sections(
        self, source: HeapSource | RawTimersSource, state: StateDescription, state_id: int, key_groups: h.KeyGroupRange
    ) -> Iterator[pa.RecordBatch]:
        bare = captured(state)
        columns = frozenset({layouts.KEY, layouts.NAMESPACE, layouts.VALUE, layouts.TIMESTAMP, KEY_GROUP_COLUMN})
        layout = source.layout(bare, columns)
        context = f"{source.context}, state {state.name!r}"
        encoder = KeyedStateEncoder(
            bare,
            state_id,
            layout.schema(_LOSSLESS),
            max_parallelism=self.max_parallelism,
            parallelism=self.parallelism,
            context=source.context,
        )
        decoder = layout.decoder(_LOSSLESS)

        def written(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            groups = batch.column(KEY_GROUP_COLUMN).to_numpy()
            if self._moves:
                assert state.key is not None
                groups = self._groups_of(state, decode_bytes(state.key, batch.column(KEY), context))
            yield from encoder.encode_in_groups(batch, groups)

        for section in source.sections(state.name, key_groups):
            site = EntryLocator(context, layout, section.buffer, section.base)
            for batch in decoder.rows(section.buffer, section.position, section.count, site, section.key_group):
                yield from written(batch)
        for batch in decoder.finish():
            yield from written(batch)


def decode_bytes(serializer: TypeSerializer, values: pa.Array, context: str) -> pa.Array:
    """A column of serialized values as the values, dates and times as text."""
    layout = RowLayout((Part(0, (Field(KEY, serializer),)),), frozenset({KEY}))
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    buffer = np.frombuffer(values.buffers()[2], dtype=np.uint8)
    buffer.flags.writeable = False
    entries = np.zeros((len(values), KEY_GROUP + 1), dtype=np.int64)
    entries[:, 0], entries[:, 1] = offsets[:-1], offsets[1:]
    batches: list[Any] = list(decode_framed(layout, _LOSSLESS, context, iter([(buffer, 0, entries)])))
    return pa.chunked_array([b.column(0) for b in batches], serializer.arrow_type(_LOSSLESS)).combine_chunks()


def copy_stream(stream: StateStream, sink: FileSink) -> h.RelativeFileStateHandle:
    """Copy a stream, whatever is in it, into a new file; offsets in it stay the same."""
    for offset in range(0, stream.size, _COPIED_AT_ONCE):
        sink.write(stream.read(offset, min(_COPIED_AT_ONCE, stream.size - offset)))
    sink.close()
    return h.RelativeFileStateHandle(sink.name, sink.size)
