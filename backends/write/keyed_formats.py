"""Formats of keyed state in a new savepoint: how the entries of a subtask become files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Protocol

from state_processor.backends.files.scratch import scratch_space
from state_processor.backends.formats.source import KeyedStateSource
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata import properties
from state_processor.backends.state import state_headers
from state_processor.backends.write.carried_files import BaseStore, OpenSink
from state_processor.backends.write.keyed_writer import (
    KeyedFileWriter,
    KeyedHeapFileWriter,
    KeyedStateFileWriter,
    KeyedStateWriter,
    KeyedSubtask,
)
from state_processor.backends.write.store_writer import FORST, ROCKSDB, KeyedStateStoreWriter
from state_processor.support.doors import changing, checked_choice, choice_of, spelled
from state_processor.support.errors import OptionError

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


FormatName = Literal["canonical", "native"]
BackendName = Literal["rocksdb", "forst", "hashmap"]

_FORMATS: Final = ("canonical", "native")
_BACKENDS: Final = ("rocksdb", "forst", "hashmap")
_OF_STORES: Final = {
    "share_files": "only files of RocksDB and ForSt can be shared",
    "scratch": "only new files of RocksDB and ForSt need scratch space",
}
"""Options that act only on the files of RocksDB and ForSt, with the reason."""
_FIRST_NATIVE: Final = (1, 15)
"""The first Flink that has native savepoints, and reads the handles of them."""
_FIRST_FORST: Final = (2, 0)
_FIRST_TO_DROP_TTL: Final = (2, 2)


def keyed_format(
    format: str,
    backend: str | None,
    flink_version: str | None,
    scratch: str | None,
    *,
    shares_files: bool = False,
) -> KeyedFormat:
    """Return the format with these names.

    ``format``, ``backend`` and ``shares_files``: see :meth:`~state_processor.SavepointWriter.write`. ``flink_version``: the
    oldest Flink version that has to restore the savepoint, if it is known. ``scratch``: directory for files on their way;
    ``None`` for the default one.
    """
    format = checked_choice("format", format, _FORMATS)
    backend = choice_of(backend, _BACKENDS) or backend
    if format == "canonical" or backend == "hashmap":
        _check_stores({"share_files": shares_files or None, "scratch": scratch}, format, backend)
    if format == "canonical":
        if backend is not None:
            native = spelled("format", "native")
            raise OptionError(f"{spelled('backend', backend)}: canonical savepoints have none; leave it out, or set {native}")
        return CANONICAL_FORMAT
    if backend not in _BACKENDS:
        backend_text = "" if backend is None else f", {spelled('backend', backend)}"
        naming = f"name the backend that restores it by {spelled('backend')}: {', '.join(_BACKENDS)}"
        raise OptionError(f"{spelled('format', 'native')}{backend_text}: {naming}")
    if flink_version is not None and _version(flink_version) < _FIRST_NATIVE:
        raise OptionError(f"flink_version={flink_version!r} can't restore native savepoints; the first that can is 1.15")
    if backend == "hashmap":
        return HeapFormat()
    if backend == FORST and flink_version is not None and _version(flink_version) < _FIRST_FORST:
        raise OptionError(f"flink_version={flink_version!r} has no ForSt; the first that has is 2.0")
    return StoreFormat(backend, scratch, shares_files)


def _check_stores(settings: Mapping[str, Any], format: str, backend: str | None) -> None:
    """Refuse options that act only on the files of RocksDB and ForSt."""
    for name, value in settings.items():
        if value is not None:
            raise OptionError(
                f"{spelled(name, value)} with {spelled('format', format)}, {spelled('backend', backend)}: {_OF_STORES[name]}; "
                f"set {spelled('format', 'native')} and {spelled('backend', 'rocksdb')} or forst, or leave {spelled(name)} out"
            )


def check_dropped_ttl(states: Iterable[str], flink_version: str | None, operator: str) -> None:
    """Refuse asynchronous states with time-to-live in backends where Flink leaves TTL out, unless Flink restores them.

    Flink: ``TtlAwareSerializer``, which all of its backends have since 2.2.
    """
    lasting = sorted(states)
    if lasting and flink_version is not None and _version(flink_version) < _FIRST_TO_DROP_TTL:
        raise OptionError(
            f"{operator}: asynchronous state has no time-to-live in other backends than ForSt, and Flink before 2.2 does not "
            f"restore state that has it ({', '.join(map(repr, lasting))}); flink_version={flink_version!r}. Leave the state out "
            f"with {changing('remove_state')}, write {spelled('format', 'native')} with {spelled('backend', 'forst')}, or leave "
            f"out {changing('with_async_state')}"
        )


def _version(text: str) -> tuple[int, ...]:
    """Return major and minor version; ``x`` means the first minor version."""
    return tuple(int(part) if part.isdigit() else 0 for part in re.split(r"[.-]", text)[:2])
