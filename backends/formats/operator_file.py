"""The file of a subtask's operator state: header and positions of elements, checked against the state handle.

Flink: ``OperatorStateRestoreOperation``, ``DefaultOperatorStateBackendSnapshotStrategy``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.files import snappy
from state_processor.backends.formats.source import Buffer, view
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.streams import StateStream
from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import BroadcastDescription, describe_operator_state
from state_processor.backends.state.state_headers import read_header
from state_processor.serializers.io import DataInput
from state_processor.support.errors import CorruptSnapshotError, StateProcessorError
from state_processor.support.mappings import index_by_name, names_of

_ADVICE: Final = "The snapshot is damaged: use another one, or another copy of it"

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Positions of one state's elements in ``buffer``; ``base`` is the offset of ``buffer`` in the file."""

    buffer: Buffer
    base: int
    starts: Positions
    ends: Positions


def operator_header(snapshot: Snapshot, handle: h.OperatorStateHandle, context: str) -> state_headers.OperatorHeader:
    """Read the header of a subtask's operator state.

    A state of the header may be missing in the handle. Flink restores it without elements.
    """
    stream = snapshot.open(handle.stream, context)
    location = f"{context}, {stream.describe()}"
    first = min((int(o.min()) for o in map(_offsets, handle.states) if len(o)), default=stream.size)
    if not 0 <= first <= stream.size:
        raise CorruptSnapshotError(f"{location}: an element starts at {first}; the file has {stream.size} bytes")
    header = read_header(state_headers.OperatorHeader.read, stream.read(0, first), location, snapshot.flink_major)
    _check_states(handle, header, location)
    if not header.compressed:  # Flink 1.18.0 wrote wrong offsets of compressed files (FLINK-34063): elements are counted instead
        _check_offsets(handle, header, stream, location)
    return header


def _check_states(handle: h.OperatorStateHandle, header: state_headers.OperatorHeader, context: str) -> None:
    """Compare the states of the handle with the states of the header."""
    metas = (*header.lists, *header.broadcasts)
    for names, place in ((names_of(handle.states), "`_metadata`"), (names_of(metas), "the header")):
        name, count = Counter(names).most_common(1)[0] if names else ("", 0)
        if count > 1:
            raise CorruptSnapshotError(f"{context}: {place} has state {name!r} {count} times. {_ADVICE}")
    registered = index_by_name(metas)
    for state in handle.states:
        meta = registered.get(state.name)
        if meta is None:
            raise CorruptSnapshotError(
                f"{context}: `_metadata` has {len(state.offsets)} elements of state {state.name!r}; "
                f"the header of the file does not register this state. Flink refuses to restore it, too. {_ADVICE}"
            )
        mode = meta.options.get(state_headers.DISTRIBUTION_MODE, h.MODE_NAMES[state.mode])
        if mode != h.MODE_NAMES[state.mode] or (state.mode == h.BROADCAST) != (meta in header.broadcasts):
            raise CorruptSnapshotError(
                f"{context}: state {state.name!r} is {h.MODE_NAMES[state.mode]} in `_metadata`, "
                f"{mode} of type {meta.backend_type} in the header of the file. {_ADVICE}"
            )
        if state.mode == h.BROADCAST and len(state.offsets) != 1:
            raise CorruptSnapshotError(
                f"{context}: `_metadata` has {len(state.offsets)} offsets of broadcast state {state.name!r}, not one. {_ADVICE}"
            )


def _check_offsets(
    handle: h.OperatorStateHandle, header: state_headers.OperatorHeader, stream: StateStream, context: str
) -> None:
    """Check that the first element follows the header, and that the offsets of each state ascend."""
    first = stream.size
    for state in handle.states:
        offsets = _offsets(state)
        if not len(offsets):
            continue
        falling = np.flatnonzero(offsets[1:] < offsets[:-1])
        if len(falling) or offsets[-1] > stream.size:
            at = int(falling[0]) + 1 if len(falling) else len(offsets) - 1
            raise CorruptSnapshotError(
                f"{context}: element {at} of state {state.name!r} starts at {offsets[at]}; "
                f"{offsets[at - 1] if len(falling) else header.size} to {stream.size} is valid. {_ADVICE}"
            )
        first = min(first, int(offsets[0]))
    if first != header.size:
        raise CorruptSnapshotError(
            f"{context}: the header ends at {header.size}, the first element starts at {first}; "
            f"the bytes between them do not belong to a state. {_ADVICE}"
        )


def locate(
    snapshot: Snapshot, handle: h.OperatorStateHandle, header: state_headers.OperatorHeader, name: str, context: str
) -> StateBytes:
    """Find one subtask's elements of a state; see :func:`operator_header` for the header."""
    offsets = _of_name(handle, name)
    if not len(offsets):
        return StateBytes(np.zeros(0, dtype=np.uint8), 0, offsets, offsets)
    stream = snapshot.open(handle.stream, context)
    if header.compressed:
        # The snappy stream begins after the header; the first element follows the stream identifier.
        data = stream.read(header.size, stream.size - header.size)
        return _locate_compressed(data, handle, header, name, context)
    ends = _ends(handle, name, np.concatenate(list(map(_offsets, handle.states))), stream.size)
    first, last = int(offsets.min()), int(ends.max())
    return StateBytes(view(stream.read(first, last - first)), first, offsets - first, ends - first)


def _locate_compressed(
    data: memoryview, handle: h.OperatorStateHandle, header: state_headers.OperatorHeader, name: str, context: str
) -> StateBytes:
    """Count elements by decoding them; use the offsets if an element can't be decoded.

    Flink 1.18.0 and 1.18.1 wrote wrong offsets (FLINK-34063): the offsets of the last flushed chunk. They may look correct.
    """
    plain = snappy.decompress(data, context)
    try:
        return _count_through(plain, header, handle, name, context)
    except StateProcessorError:
        chunks = snappy.chunk_positions(data, context)
        all_offsets = np.concatenate(list(map(_offsets, handle.states))) - header.size
        if not all(o in chunks for o in all_offsets.tolist()):
            raise
    starts = np.array([chunks[o] for o in all_offsets.tolist()], dtype=np.int64)
    offsets = np.array([chunks[o - header.size] for o in _of_name(handle, name).tolist()], dtype=np.int64)
    return StateBytes(plain, header.size, offsets, _ends(handle, name, starts, len(plain)))


def _count_through(
    plain: Buffer, header: state_headers.OperatorHeader, handle: h.OperatorStateHandle, name: str, context: str
) -> StateBytes:
    counts = {s.name: len(s.offsets) for s in handle.states}
    source = DataInput(plain.data, context)
    starts, ends = [], []
    for meta in (*header.lists, *header.broadcasts):
        state = describe_operator_state(meta)
        for _ in range(counts.get(meta.name, 0)):
            start = source.position
            if isinstance(state, BroadcastDescription):
                for _ in range(source.read_count("broadcast entries", 1)):
                    state.key.skip(source)
                    state.value.skip(source)
            else:
                state.value.skip(source)
            if meta.name == name:
                starts.append(start)
                ends.append(source.position)
    if not source.at_end():
        raise source.corrupt(f"{source.remaining} bytes are left over after the last element")
    return StateBytes(plain, header.size, np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64))


def _ends(handle: h.OperatorStateHandle, name: str, starts: Positions, size: int) -> Positions:
    """Return the ends of the elements of a state: the starts of the next elements in the file, of any state.

    ``starts`` has the elements of all states in the order of the handle.
    """
    order = np.argsort(starts, kind="stable")
    ends = np.empty_like(starts)
    ends[order] = np.append(starts[order][1:], size)
    ends_of_state: Positions = ends[np.repeat([s.name == name for s in handle.states], [len(s.offsets) for s in handle.states])]
    return ends_of_state


def _of_name(handle: h.OperatorStateHandle, name: str) -> Positions:
    return next((_offsets(s) for s in handle.states if s.name == name), np.zeros(0, dtype=np.int64))


def _offsets(state: h.OperatorStateMeta) -> Positions:
    return state.offsets.to_numpy()
