"""Search in all bytes of the files of a snapshot. Compressed bytes are also searched after decompression.

Files contain more than a read returns: replaced and deleted entries of RocksDB, the deletions, and changes of a changelog.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from state_processor.backends.analysis.byte_search import positions
from state_processor.backends.files.location import Location
from state_processor.backends.files.snappy import decompress
from state_processor.backends.formats.rocksdb_store import open_store
from state_processor.backends.formats.sst.family_scan import plain_content
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import METADATA_FILE, OperatorState
from state_processor.backends.metadata.streams import streams_in_files, streams_of
from state_processor.backends.read.stored_operator import leaf_keyed_handles, operator_label, subtask_label
from state_processor.support.errors import StateProcessorError

Bytes = npt.NDArray[np.uint8]

_SNAPPY: Final = bytes.fromhex("ff060000734e61507059")
"""The identifier at the beginning of each stream in snappy's framing format."""
_CHUNKS: Final = frozenset({0x00, 0x01, 0xFE, 0xFF})
_HEAD: Final = 4


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes of a snapshot."""

    # the operator of the bytes; ``None`` for ``_metadata``: this file contains inline state of all operators
    operator: OperatorState | None
    file: str  # description of the file, or of the part of the file
    parts: Callable[[], Iterable[Bytes]]  # returns the stored bytes, and the decompressed bytes, in parts


def contents(
    snapshot: Snapshot, operators: Sequence[OperatorState] | None = None, skipped: Collection[h.StreamStateHandle] = ()
) -> Iterator[Content]:
    """Yield the contents of ``_metadata`` and of all files of a snapshot.

    A file that several handles share is read once. Tables of RocksDB and ForSt are yielded twice: stored, and decompressed.

    ``operators``: limits the contents to the files and the inline state of these operators, without ``_metadata``. ``skipped``:
    files that are left out.
    """
    if operators is None:
        path = str(Location.parse(snapshot.directory).joined(METADATA_FILE))
        yield Content(None, path, lambda: _plain(_whole(snapshot, path)))
    seen: set[object] = set(skipped)
    for operator in snapshot.metadata.operators if operators is None else operators:
        label = operator_label(operator)
        owners = [(label, operator.coordinator_state), *((subtask_label(operator, s), s) for s in operator.subtasks)]
        for context, owner in owners:
            for handle in streams_in_files(owner):
                if handle not in seen:
                    seen.add(handle)
                    stream = snapshot.open(handle, context)
                    yield Content(operator, stream.describe(), lambda stream=stream: _plain(_bytes(stream.read())))  # type: ignore[misc]
        if operators is not None:
            inline = streams_of([owner for _, owner in owners], h.ByteStreamStateHandle)
            parts = [np.frombuffer(bytes(stream.data), dtype=np.uint8) for stream in inline]
            yield Content(operator, f"inline state of {label}", lambda parts=parts: chain.from_iterable(map(_plain, parts)))  # type: ignore[misc]
        for subtask in operator.subtasks:
            for keyed in leaf_keyed_handles(subtask.managed_keyed):
                if isinstance(keyed, h.IncrementalRemoteKeyedStateHandle) and keyed not in seen:
                    seen.add(keyed)
                    yield from _tables(snapshot, operator, keyed, subtask_label(operator, subtask), skipped)


def _tables(
    snapshot: Snapshot,
    operator: OperatorState,
    handle: h.IncrementalRemoteKeyedStateHandle,
    context: str,
    skipped: Collection[h.StreamStateHandle],
) -> Iterator[Content]:
    names = {file.local_name for file in handle.files if file.stream in skipped}
    for table in open_store(snapshot, handle, context).tables(skipped=names):
        yield Content(operator, f"{table.stream.describe()}, decompressed", lambda table=table: plain_content(table))  # type: ignore[misc]


def _whole(snapshot: Snapshot, path: str) -> Bytes:
    file = snapshot.storage.open(path)
    return _bytes(file.read(0, file.size))


def _bytes(data: memoryview) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)


def _plain(data: Bytes) -> Iterator[Bytes]:
    """Yield the stored bytes, then the content of each snappy stream in these bytes."""
    yield data
    end = 0
    for begin in positions(data, _SNAPPY).tolist():
        if begin < end:
            continue  # in the chunks of the previous stream
        end = _end_of_chunks(data, begin)
        try:
            yield decompress(data[begin:end].data, "")
        except StateProcessorError:  # the beginning of a stream within other bytes
            end = begin + 1


def _end_of_chunks(data: Bytes, at: int) -> int:
    while at + _HEAD <= len(data) and int(data[at]) in _CHUNKS:
        size = int(data[at + 1]) | int(data[at + 2]) << 8 | int(data[at + 3]) << 16
        if at + _HEAD + size > len(data):
            break
        at += _HEAD + size
    return at


def all_parts(contents: Iterable[Content]) -> Iterator[Bytes]:
    """Yield the bytes of contents."""
    return chain.from_iterable(content.parts() for content in contents)
