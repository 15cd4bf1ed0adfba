"""Formats of keyed state in a new savepoint: how the entries of a subtask become files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from state_processor.backends.files.scratch import scratch_space
from state_processor.backends.formats.source import KeyedStateSource
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata import properties
from state_processor.backends.state import state_headers
from state_processor.backends.write.carried_files import BaseStore, OpenSink
from state_processor.backends.write.key_group_writers import KeyedHeapFileWriter, KeyedStateFileWriter
from state_processor.backends.write.keyed_writer import KeyedFileWriter, KeyedStateWriter, KeyedSubtask
from state_processor.backends.write.store_writer import FORST, ROCKSDB, KeyedStateStoreWriter
from state_processor.serializers.doors import changing
from state_processor.serializers.errors import OptionError

_DEFAULT_FAMILY: Final = "default"
_HEAP: Final = "heap"
"""The name of the layout of the heap backend; see ``KeyedStateSource.backend``."""


class KeyedFormat(Protocol):
    """Format of keyed state; it can be pickled."""

    @property
    def savepoint_format(self) -> str:
        """The name of the format in the properties of the savepoint."""

    @property
    def keeps_families(self) -> bool:
        """True if unchanged states can stay in their files while other states change."""

    @property
    def shares_files(self) -> bool:
        """True if files of states that nobody changes are not copied, but referred to where they are."""

    @property
    def keeps_raw_timers(self) -> bool:
        """True if timers in raw keyed state have to stay there: the backend may look for them nowhere else."""

    @property
    def registers_asynchronous(self) -> bool:
        """True if the backend registers states of the asynchronous API separately."""

    def check_states(self, states: Iterable[state_headers.StateMetaInfo], operator: str) -> None:
        """Refuse states that the format can't store."""

    def has(self, handle: h.KeyedStateHandle, open_source: Callable[[], KeyedStateSource]) -> bool:
        """Return whether files of the source savepoint can be kept; ``open_source`` reads their header."""

    def open_writer(
        self, open_sink: OpenSink, subtask: KeyedSubtask, base: BaseStore | None = None
    ) -> AbstractContextManager[KeyedStateWriter]:
        """Return the writer of one subtask; see :class:`~state_processor.backends.write.keyed_writer.KeyedStateWriter`.

        States of a ``base`` that are kept are not written; only formats with ``keeps_families`` are given one.
        """


class _FileFormat:
    """A format with one file for the keyed state of a subtask."""

    _writer: ClassVar[type[KeyedFileWriter]]
    keeps_families = False
    shares_files = False
    keeps_raw_timers = False
    registers_asynchronous = False

    def check_states(self, states: Iterable[state_headers.StateMetaInfo], operator: str) -> None:
        """See :class:`KeyedFormat`."""

    @contextmanager
    def open_writer(
        self, open_sink: OpenSink, subtask: KeyedSubtask, base: BaseStore | None = None
    ) -> Iterator[KeyedStateWriter]:
        """See :class:`KeyedFormat`."""
        with open_sink("keyed") as sink:
            yield self._writer(sink, subtask)


@dataclass(frozen=True)
class CanonicalFormat(_FileFormat):
    """The canonical format, which each backend but ForSt restores entry by entry."""

    savepoint_format: str = properties.CANONICAL
    _writer = KeyedStateFileWriter

    def has(self, handle: h.KeyedStateHandle, open_source: Callable[[], KeyedStateSource]) -> bool:
        """See :class:`KeyedFormat`."""
        return isinstance(handle, h.KeyGroupsStateHandle) and handle.is_savepoint


@dataclass(frozen=True)
class StoreFormat:
    """The files of RocksDB. The backends RocksDB and ForSt restore them by copying."""

    backend: str = ROCKSDB
    scratch: str | None = None  # directory of new stores; ``None`` for the default directory
    shares_files: bool = False  # see :class:`KeyedFormat`
    savepoint_format: str = properties.NATIVE
    keeps_families: bool = True
    keeps_raw_timers: bool = True

    @property
    def registers_asynchronous(self) -> bool:
        """See :class:`KeyedFormat`."""
        return self.backend == FORST

    def check_states(self, states: Iterable[state_headers.StateMetaInfo], operator: str) -> None:
        """See :class:`KeyedFormat`. Flink: ``RocksDBOperationUtils.createColumnFamilyDescriptor``."""
        if any(state.name == _DEFAULT_FAMILY for state in states):
            raise OptionError(
                f"{operator}: RocksDB has no place for a state named {_DEFAULT_FAMILY!r}, its own column family; "
                f"leave the state out with {changing('remove_state')}, or write a canonical savepoint"
            )

    def has(self, handle: h.KeyedStateHandle, open_source: Callable[[], KeyedStateSource]) -> bool:
        """See :class:`KeyedFormat`. Each of RocksDB and ForSt restores the files of the other."""
        return isinstance(handle, h.IncrementalRemoteKeyedStateHandle)

    @contextmanager
    def open_writer(
        self, open_sink: OpenSink, subtask: KeyedSubtask, base: BaseStore | None = None
    ) -> Iterator[KeyedStateWriter]:
        """See :class:`KeyedFormat`."""
        directory = scratch_space(self.scratch).directory()
        try:
            yield KeyedStateStoreWriter(directory, open_sink, self.backend, subtask, base)
        finally:
            shutil.rmtree(directory, ignore_errors=True)


@dataclass(frozen=True)
class HeapFormat(_FileFormat):
    """The format of the heap backend (``hashmap``)."""

    savepoint_format: str = properties.NATIVE
    _writer = KeyedHeapFileWriter

    def has(self, handle: h.KeyedStateHandle, open_source: Callable[[], KeyedStateSource]) -> bool:
        """See :class:`KeyedFormat`. Full checkpoints of RocksDB have handles of the same class, and other blocks."""
        return isinstance(handle, h.KeyGroupsStateHandle) and not handle.is_savepoint and open_source().backend == _HEAP


CANONICAL_FORMAT = CanonicalFormat()
