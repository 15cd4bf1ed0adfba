"""The interface of keyed state sources. Each backend format implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import pyarrow as pa

from state_processor.backends.formats.entry_runs import EntryRun
from state_processor.backends.formats.field_selection import FieldSelection
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.state import state_headers
from state_processor.backends.state.column_types import AS_WRITTEN, ColumnTypes, evolved
from state_processor.backends.state.descriptions import KeyedDescription, describe_keyed
from state_processor.backends.state.header_cache import DESCRIBED, Same, read_header
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.io import DataInput


class KeyRange(NamedTuple):
    """Keys of a store from ``lower`` to before ``upper``, with their key groups in front, and the bytes of their entries."""

    lower: bytes
    upper: bytes
    size: int


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """A request to read one state of one handle."""

    name: str
    columns: FieldSelection  # the columns to decode; a mapping of names to fields decodes these fields only
    options: DecodeOptions  # representation of values
    key_groups: h.KeyGroupRange
    keys: SerializedKeys | None = None  # the keys to read; ``None`` reads all
    types: ColumnTypes = AS_WRITTEN  # types of columns that differ from the written types
    # whether a large list may be split into several rows with a part of its elements each; see
    # :data:`~state_processor.backends.formats.row_shapes.FIRST_INDEX`
    in_pieces: bool = False
    between: KeyRange | None = None  # a part of the key groups, of a store; ``None`` reads all of them. It excludes ``keys``.


@lru_cache(maxsize=DESCRIBED)
def _described(header: Same, state_id: int) -> KeyedDescription:
    """Describe a state of a header; headers with the same bytes are the same object."""
    (keyed_header,) = header.objects
    return describe_keyed(keyed_header, keyed_header.states[state_id])


class KeyedStateSource(ABC):
    """Keyed state of one handle, in any format.

    A new format implements :attr:`backend` and :meth:`_runs`; its opener is registered in
    :mod:`~state_processor.backends.formats.opening`.

    ``context``: operator and subtask, for messages.
    """

    stays_open: ClassVar[bool] = False
    """Whether one open source serves look-ups of several threads; other sources keep what the last read has found."""

    def __init__(self, header: state_headers.KeyedHeader, context: str) -> None:
        self.header = header
        self.context = context

    @property
    @abstractmethod
    def backend(self) -> str:
        """Name of the backend or format in tables about a snapshot."""

    @abstractmethod
    def _runs(self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[EntryRun]:
        """Yield the entries of a state; with ``keys``, only the entries of these keys."""

    def key_ranges(self, name: str, most_bytes: int) -> list[KeyRange]:
        """Return ranges of the keys of a state, each with at most about ``most_bytes``; none if the format can't seek to keys."""
        return []

    def describe(self, name: str) -> KeyedDescription | None:
        """Return the description of a state from the header; ``None`` if the header does not have it."""
        state_id = self.header.state_id(name)
        return None if state_id < 0 else _described(Same(self.header), state_id)

    def runs(self, name: str, key_groups: h.KeyGroupRange, keys: SerializedKeys | None = None) -> Iterator[EntryRun]:
        """Yield the entries of a state in these key groups as runs with one layout each; nothing for an unknown state."""
        state = self.describe(name)
        if state is not None:
            yield from self._runs(state, key_groups, keys)

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """Yield the entries of a state as columns."""
        for run in self.runs(request.name, request.key_groups, request.keys):
            yield from run.decode(evolved(run.state, request.types), request.columns, request.options)

    def count(self, name: str, key_groups: h.KeyGroupRange, between: KeyRange | None = None) -> int:
        """Count the entries of a state, of all keys or of those ``between``, without reading values if possible."""
        return sum(run.count() for run in self.runs(name, key_groups))


def read_keyed_header(snapshot: Snapshot, data: bytes | memoryview, context: str) -> state_headers.KeyedHeader:
    """Read the header of keyed state from all of ``data``."""
    return read_header(_read_whole, data, context, snapshot.flink_major)


def _read_whole(source: DataInput) -> state_headers.KeyedHeader:
    header = state_headers.KeyedHeader.read(source)
    if not source.at_end():
        raise source.corrupt(f"the header of {len(header.states)} states ends here, but {source.remaining} bytes are left")
    return header
