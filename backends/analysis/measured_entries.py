"""Entries of keyed state in any format with their sizes, without decoding or framing.

The size of an entry is the size of its key, namespace and value in a canonical savepoint, without lengths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.backends.analysis.entry_bytes import StateEntries
from state_processor.backends.formats import entry_layouts as layouts
from state_processor.backends.formats.entry_runs import BoundedRun, Buffer, Entries, FramedRun, UnframedRun
from state_processor.backends.formats.framing import KEY_GROUP
from state_processor.backends.formats.row_layout import size_of
from state_processor.backends.formats.serialized_entries import LOSSLESS, PassThroughCodec
from state_processor.backends.state.descriptions import LIST, MAP
from state_processor.serializers.codec import VARIABLE
from state_processor.serializers.kernel.compiler import entry_point
from state_processor.serializers.kernel.memory import load_be_i32
from state_processor.serializers.kernel.signatures import int64, read, uint8, written

_PLAIN: Final = 0
_WHOLE_LIST: Final = 1
_WHOLE_MAP: Final = 2
_FORMS: Final = {LIST: _WHOLE_LIST, MAP: _WHOLE_MAP}

Spans = npt.NDArray[np.int64]
"""A row for each entry: start and end."""


@entry_point(read(uint8), read(int64, 2), int64, written(int64), written(int64))
def _measure(data, entries, form, sizes, counts):  # type: ignore[no-untyped-def]
    """Compute the canonical sizes of entries.

    A list in the heap's format starts with its length; a canonical list has a byte between elements. A map in the heap's format
    starts with its length; a canonical file has an entry for each entry of the map.
    """
    for i in range(len(entries)):
        identity = entries[i, 1] - entries[i, 0]
        value = entries[i, 3] - entries[i, 2]
        count = 1
        if form != _PLAIN:
            length = load_be_i32(data, entries[i, 2])
            value -= 4
            if form == _WHOLE_MAP:
                count = length
            elif length > 0:
                value += length - 1
            else:
                count = 0
        sizes[i] = count * identity + value
        counts[i] = count


@dataclass(frozen=True, slots=True)
class MeasuredEntries:
    """Entries of a state, with their sizes in a canonical savepoint.

    Parameters
    ----------
    origin, run
        Source of the entries.
    buffer, entries
        The bounds of the identity of each entry, and of its value.
    sizes, counts
        Bytes and number of the canonical entries.
    """

    origin: StateEntries
    run: FramedRun | UnframedRun
    buffer: Buffer
    entries: Entries
    sizes: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    def taken(self, rows: npt.NDArray[np.int64]) -> MeasuredEntries:
        """Return some entries."""
        entries = np.ascontiguousarray(self.entries[rows])
        return replace(self, entries=entries, sizes=self.sizes[rows], counts=self.counts[rows])

    def keys(self) -> tuple[Buffer, Spans]:
        """Return the serialized keys of the entries."""
        layout = self.run.layout(self.origin.state, frozenset())
        fields = layout.parts[0].fields
        at = next(i for i, field in enumerate(fields) if field.name == layouts.KEY)
        lead, size = size_of(fields[:at]), size_of(fields[at : at + 1])
        tail = size_of(fields[at + 1 :]) if isinstance(self.run, FramedRun) or self.origin.state.is_timer else 0
        if lead == VARIABLE or VARIABLE == size == tail:
            return self._extracted_keys()
        begins = self.entries[:, 0] + lead
        ends = self.entries[:, 1] - tail if size == VARIABLE else begins + size
        return self.buffer, np.stack([begins, ends], axis=1)

    def _extracted_keys(self) -> tuple[Buffer, Spans]:
        """Return keys whose ends are found by skipping the keys."""
        state = self.origin.state
        bare = state.with_serializers(key=PassThroughCodec(state.key))
        if isinstance(self.run, FramedRun):
            run: FramedRun | BoundedRun = FramedRun(bare, self.run.where, iter([(self.buffer, None, self.entries)]))
        else:
            run = BoundedRun.of_parts(bare, self.run.where, self.run.layout, self.buffer, self.entries)
        columns = [batch.column(layouts.KEY) for batch in run.decode(bare, frozenset({layouts.KEY}), LOSSLESS)]
        keys = pa.chunked_array(columns, pa.binary()).combine_chunks()
        ends = np.frombuffer(keys.buffers()[1], dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
        return np.frombuffer(keys.buffers()[2] or b"\0", dtype=np.uint8), np.stack([ends[:-1], ends[1:]], axis=1)

    @property
    def key_groups(self) -> npt.NDArray[np.int64]:
        """The key group of each entry."""
        return self.entries[:, KEY_GROUP]


def measured(state_entries: StateEntries) -> Iterator[MeasuredEntries]:
    """Yield the entries of a state with their sizes, in parts. Each part is valid until the next part."""
    state = state_entries.state
    suffixed = state.key.length < 0 and state.namespace.length < 0 and not state.is_timer
    for run in state_entries.runs():
        if isinstance(run, FramedRun):
            for buffer, _, entries in run.blocks:
                yield _measured(state_entries, run, buffer, entries, _PLAIN)
        elif isinstance(run, UnframedRun) and not suffixed:
            for buffer, _, entries in run.bounded():
                yield _measured(state_entries, run, buffer, entries, _FORMS.get(state.kind, _PLAIN))
        else:  # canonical files also have the lengths of key and namespace
            for part in state_entries.framed([run]):
                framed = FramedRun(state, f"{state_entries.source.context}, state {state.name!r}", iter(()))
                yield _measured(state_entries, framed, part.buffer, part.entries, _PLAIN)


def _measured(
    state_entries: StateEntries, run: FramedRun | UnframedRun, buffer: Buffer, entries: Entries, form: int
) -> MeasuredEntries:
    sizes, counts = np.empty(len(entries), dtype=np.int64), np.empty(len(entries), dtype=np.int64)
    _measure(buffer, entries, form, sizes, counts)
    return MeasuredEntries(state_entries, run, buffer, entries, sizes, counts)


def has_one_entry_for_each_key(entries: StateEntries) -> bool:
    """Return whether all entries of a state have different keys."""
    state = entries.state
    return state.in_void_namespace and not state.is_timer and state.kind != MAP
