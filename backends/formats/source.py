"""The interface of keyed state sources: what each backend's format implements, and all else builds on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa

from state_processor.backends.formats.entry_runs import EntryRun
from state_processor.backends.formats.field_selection import Columns
from state_processor.backends.formats.key_index import SerializedKeys
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.state import meta_info as mi
from state_processor.backends.state.column_types import AS_WRITTEN, ColumnTypes, evolved
from state_processor.backends.state.descriptions import KeyedDescription, describe_keyed
from state_processor.serializers.core.unread import UnreadSnapshot
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import StateProcessorError
from state_processor.serializers.io import DataInput
from state_processor.serializers.user_registrations import Registrations, current_registrations

_KEPT_HEADERS: Final = 16


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """A request to read one state of one handle.

    Parameters
    ----------
    name
        The state.
    columns
        The columns to decode; a mapping of names to fields decodes these fields only.
    options
        How values are represented.
    key_groups
        The key groups to read.
    keys
        The keys to read; ``None`` reads all.
    types
        The types to restore columns in, where not in those that were written.
    """

    name: str
    columns: Columns
    options: DecodeOptions
    key_groups: h.KeyGroupRange
    keys: SerializedKeys | None = None
    types: ColumnTypes = AS_WRITTEN


class KeyedStateSource(ABC):
    """Keyed state of one handle, whatever its format.

    A new format implements :attr:`backend` and :meth:`_runs`; its opener is registered in
    :mod:`~state_processor.backends.formats.opening`.

    Parameters
    ----------
    header
        The states.
    context
        Operator and subtask, for messages.
    """

    def __init__(self, header: mi.KeyedHeader, context: str) -> None:
        self.header = header
        self.context = context

    @property
    @abstractmethod
    def backend(self) -> str:
        """Name of the backend or format in tables about a snapshot."""

    @abstractmethod
    def _runs(self, state: KeyedDescription, key_groups: h.KeyGroupRange, keys: SerializedKeys | None) -> Iterator[EntryRun]:
        """Yield the entries of a state; those of other keys are left out where ``keys`` are given."""

    def describe(self, name: str) -> KeyedDescription | None:
        """Describe a state as the header registers it; ``None`` where it does not."""
        state_id = self.header.state_id(name)
        return None if state_id < 0 else describe_keyed(self.header, self.header.states[state_id])

    def runs(self, name: str, key_groups: h.KeyGroupRange, keys: SerializedKeys | None = None) -> Iterator[EntryRun]:
        """Yield the entries of a state in these key groups, as runs that lie in one way; none of an unknown state."""
        state = self.describe(name)
        if state is not None:
            yield from self._runs(state, key_groups, keys)

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        """Yield the entries of a state as columns."""
        for run in self.runs(request.name, request.key_groups, request.keys):
            yield from run.decode(evolved(run.state, request.types), request.columns, request.options)

    def count(self, name: str, key_groups: h.KeyGroupRange) -> int:
        """Count the entries of a state; no value is read where other states do not come before."""
        return sum(run.count() for run in self.runs(name, key_groups))


def read_keyed_header(snapshot: Snapshot, data: bytes | memoryview, where: str) -> mi.KeyedHeader:
    """Read the header of keyed state, which fills ``data``.

    Raises
    ------
    CorruptSnapshotError
        If bytes are left over.
    """
    header = _header_of(bytes(data), snapshot.flink_major, current_registrations())
    return header or _read_header(DataInput(data, where, flink_major=snapshot.flink_major))


@lru_cache(maxsize=_KEPT_HEADERS)
def _header_of(data: bytes, flink_major: int, known: Registrations) -> mi.KeyedHeader | None:
    """Return a header that nothing has to be said about; ``None`` where a message will say which file it is in.

    Most subtasks of an operator have the same header, and each of its states is read by tasks of its own. What is ``known`` of
    users' classes determines what can be read.
    """
    try:
        header = _read_header(DataInput(data, "", flink_major=flink_major))
    except StateProcessorError:
        return None
    snapshots = [header.key, *(s for state in header.states for s in state.serializers.values())]
    return None if any(isinstance(s, UnreadSnapshot) for s in snapshots) else header


def _read_header(source: DataInput) -> mi.KeyedHeader:
    header = mi.KeyedHeader.read(source)
    if not source.at_end():
        raise source.corrupt(f"the header of {len(header.states)} states ends here, {source.remaining} bytes early")
    return header
