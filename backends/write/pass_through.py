"""Pass-through: entries of states that nobody changed, taken over as bytes. Values are delimited, not decoded.

* Entries that have lengths (canonical files, embedded stores) are framed again, one by one.
* Entries without lengths (heap files) are stepped through once; the spans of key, namespace, value, list elements and map
  entries (:mod:`~state_processor.backends.formats.serialized_entries`) are put together in the canonical format. So are the
  timers of raw keyed state, which become timers of a queue: canonical savepoints hold no other timers, and Flink restores
  them into any backend.

Entries become blobs, as new ones do (:data:`~state_processor.backends.write.entry_encoder.ORDERED_BLOBS`), which go to the
subtask that owns their key group. With another parallelism key groups change hands; with another max parallelism each key gets a
new key group, from its hash.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.files.ordered_threads import at_once
from state_processor.backends.formats.entry_framing import frame_entries
from state_processor.backends.formats.framing import KEY_GROUP
from state_processor.backends.formats.operator_file import operator_header
from state_processor.backends.formats.row_layout import KEY_GROUP_COLUMN
from state_processor.backends.formats.serialized_entries import ENTRY_COLUMNS, LOSSLESS, decode_bytes, with_serialized_values
from state_processor.backends.formats.source import BoundedRun, EntryRun, FramedRun, KeyedStateSource, UnframedRun, decode_framed
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorSubtaskState
from state_processor.backends.state.descriptions import KeyedDescription
from state_processor.backends.state.key_groups import key_group, prefix_size
from state_processor.backends.write.carried_files import COPIES, carried_stream, copy_stream
from state_processor.backends.write.entry_encoder import KEY, PASSED_THROUGH, BlobAddress, KeyedStateEncoder, KeyHash
from state_processor.backends.write.staging import Staging
from state_processor.backends.write.store_writer import native_handle
from state_processor.serializers.hash_codes import hash_codes
from state_processor.support.errors import UnsupportedFormatError


@dataclass(frozen=True)
class KeyedPassThrough:
    """Takes over keyed states into an operator.

    ``parallelism`` and ``max_parallelism``: of the operator to write.
    """

    parallelism: int
    max_parallelism: int
    old_max_parallelism: int  # of the operator that is read
    # ``hashCode`` of keys, where the max parallelism changes and the serializer does not know it; it is given keys as columns of
    # the type that they have with text for dates and times
    key_hash: KeyHash | None = None

    def blobs(self, source: KeyedStateSource, name: str, state_id: int, key_groups: h.KeyGroupRange) -> Iterator[pa.RecordBatch]:
        """Yield the entries of a state as blobs.

        ``source``: the keyed state of one handle. ``name``: the state; a state that does not exist yields nothing. ``state_id``:
        its position in the header of the files to write. ``key_groups``: which key groups of the handle to take.
        """
        for run in source.runs(name, key_groups):
            yield from self.blobs_of(run, state_id, source.context)

    def blobs_of(self, run: EntryRun, state_id: int, context: str) -> Iterator[pa.RecordBatch]:
        """Yield the entries of a run as blobs; ``context`` names the source."""
        match run:
            case FramedRun():
                return self._framed_anew(run, state_id)
            case UnframedRun() | BoundedRun():
                return self._encoded(run, run.state, with_serialized_values(run.state), state_id, context)

    @property
    def _moves(self) -> bool:
        return self.max_parallelism != self.old_max_parallelism

    def _groups_of(self, state: KeyedDescription, keys: pa.Array) -> npt.NDArray[np.int32]:
        hashes = self.key_hash(keys) if self.key_hash else hash_codes(state.key, keys)
        return key_group(hashes, self.max_parallelism)

    def _framed_anew(self, run: FramedRun, state_id: int) -> Iterator[pa.RecordBatch]:
        prefix = prefix_size(self.max_parallelism)
        layout = run.layout(run.state, frozenset({KEY}))
        for buffer, base, entries in run.blocks:
            if not len(entries):  # a changelog may have left nothing of a key group
                continue
            groups = entries[:, KEY_GROUP].astype(np.int32)
            if self._moves:
                batches = decode_framed(layout, LOSSLESS, run.context, iter([(buffer, base, entries)]))
                groups = self._groups_of(run.state, pa.chunked_array([b.column(KEY) for b in batches]).combine_chunks())
            order = np.argsort(groups.astype(np.uint16), kind="stable").astype(np.int64)  # two bytes: a radix sort
            sizes = entries[:, 1] - entries[:, 0] + entries[:, 3] - entries[:, 2]
            out = np.empty(int(sizes.sum()) + len(entries) * (8 + prefix), dtype=np.uint8)
            in_order = np.ascontiguousarray(groups[order])
            starts = frame_entries(buffer, np.ascontiguousarray(entries), order, in_order, prefix, out)
            bounds = np.append(np.flatnonzero(np.diff(in_order, prepend=-1)), len(order))
            spans = np.stack([starts[bounds[:-1]], starts[bounds[1:]], np.diff(bounds)], axis=1)
            yield from self._address(state_id).blobs(out, spans, in_order[bounds[:-1]])

    def _encoded(
        self, run: EntryRun, state: KeyedDescription, bare: KeyedDescription, state_id: int, context: str
    ) -> Iterator[pa.RecordBatch]:
        """Yield the entries of a run as blobs; ``bare`` is the state with bytes instead of values."""
        encoder: KeyedStateEncoder | None = None
        for batch in run.decode(bare, ENTRY_COLUMNS, LOSSLESS):
            encoder = encoder or KeyedStateEncoder(bare, self._address(state_id), batch.schema, context=context)
            groups = batch.column(KEY_GROUP_COLUMN).to_numpy()
            if self._moves:
                groups = self._groups_of(state, decode_bytes(state.key, batch.column(KEY), run.context))
            yield from encoder.encode_in_groups(batch, groups)

    def _address(self, state_id: int) -> BlobAddress:
        return BlobAddress(state_id, self.parallelism, self.max_parallelism, PASSED_THROUGH)


_Handle = TypeVar("_Handle", h.KeyGroupsStateHandle, h.OperatorStreamStateHandle)


@dataclass(frozen=True)
class CopyPart:
    """Subtask of an operator whose files are copied.

    Its keyed state is in a single file, as in canonical savepoints and with the heap backend, or in the files of a store.
    """

    operator_id: str
    label: str
    subtask: OperatorSubtaskState

    @property
    def size(self) -> int:
        """Bytes to copy."""
        return self.subtask.state_size


@dataclass(frozen=True)
class CopySubtasks:
    """Task that copies the files of a subtask."""

    snapshot: Snapshot  # the source savepoint, as it travels to tasks
    staging: Staging  # the write
    shares_files: bool = False  # whether the files of embedded stores stay where they are

    def __call__(self, part: CopyPart) -> OperatorSubtaskState:
        """Return the subtask with handles of the copies."""
        subtask, context = part.subtask, f"{part.label}, subtask {part.subtask.index}"
        if subtask.input_channels or subtask.result_subpartitions:
            raise UnsupportedFormatError(
                f"{context}: this unaligned checkpoint has records in flight, which would be lost; start from a savepoint instead"
            )
        if subtask.managed_operator is not None and subtask.managed_operator.states:
            with suppress(UnsupportedFormatError):  # an unknown serializer: the header can't be read
                operator_header(self.snapshot, subtask.managed_operator, context)
        return replace(
            subtask,
            managed_operator=self._copied(_plain(subtask.managed_operator), "operator", part, context),
            raw_operator=self._copied(_plain(subtask.raw_operator), "raw-operator", part, context),
            managed_keyed=self._copied_keyed(part, context),
            raw_keyed=self._copied(_single(subtask.raw_keyed, context), "raw-keyed", part, context),
        )

    def _copied(self, handle: _Handle | None, role: str, part: CopyPart, context: str) -> _Handle | None:
        if handle is None or isinstance(handle.stream, h.ByteStreamStateHandle):
            return handle
        with self.staging.new_file(part.operator_id, role, part.subtask.index) as sink:
            return replace(handle, stream=copy_stream(self.snapshot.open(handle.stream, context), sink))

    def _copied_keyed(self, part: CopyPart, context: str) -> h.KeyedStateHandle | None:
        handle = part.subtask.managed_keyed
        if not isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
            return self._copied(_single(handle, context), "keyed", part, context)

        def carried(stream: h.StreamStateHandle) -> h.StreamStateHandle:
            open_sink = partial(self.staging.new_file, part.operator_id, subtask=part.subtask.index)
            return carried_stream(self.snapshot, stream, open_sink, context, shares_files=self.shares_files)

        streams = at_once(carried, handle.streams, COPIES)
        files = tuple(h.LocalFile(file.local_name, stream) for file, stream in zip(handle.files, streams, strict=True))
        return native_handle(handle.backend_id, handle.key_groups, carried(handle.meta), files)


def _plain(handle: h.OperatorStateHandle | None) -> h.OperatorStreamStateHandle | None:
    """Return an operator state handle without file merging, which savepoints do not have."""
    if isinstance(handle, h.FileMergingOperatorStreamStateHandle):
        return None if handle.is_empty else h.OperatorStreamStateHandle(handle.states, handle.stream)
    return handle


def _single(handle: h.KeyedStateHandle | None, context: str) -> h.KeyGroupsStateHandle | None:
    if handle is None or isinstance(handle, h.KeyGroupsStateHandle):
        return handle
    raise UnsupportedFormatError(f"{context}: the files of {type(handle).__name__} can't be copied one by one")
