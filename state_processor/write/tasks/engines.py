"""Engines, which run the tasks of a write: the interface.

An engine gets rows, and tasks: callables over Arrow batches that can be pickled. It returns the results of the tasks. Pass 1
encodes rows, and parts of the source savepoint, to blobs. Pass 2 writes a file for each subtask from its blobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol

from state_processor.backends.write.staging import Staging
from state_processor.write.tasks.passes import (
    EncodeTables,
    PartEncoder,
    RowEncoder,
    SourcePart,
    SubtaskWriter,
    TableEncoding,
    WrittenFile,
)

if TYPE_CHECKING:
    from state_processor.backends.metadata.snapshot import Snapshot
    from state_processor.options.access import SnapshotAccess
    from state_processor.read.scans import StateRequest
    from state_processor.write.rows.row_protocol import Rows

Written = dict[int, WrittenFile]
"""The files by subtask: of a task that ran more than once, one attempt."""


@dataclass(frozen=True)
class RowsPass:
    """Pass 1 over some columns of rows: :class:`~state_processor.write.rows.row_protocol.Rows` of the engine's kind."""

    rows: Any
    columns: Sequence[str]
    encode: RowEncoder

    @property
    def task(self) -> EncodeTables:
        """The source of blobs for an engine that encodes these rows alone."""
        return EncodeTables((TableEncoding(tuple(self.columns), ((0, self.encode),)),))


@dataclass(frozen=True)
class PartsPass:
    """Pass 1 over parts of the source savepoint."""

    parts: Sequence[SourcePart]
    encode: PartEncoder


@dataclass(frozen=True)
class StateFiles:
    """The files of one operator's keyed or operator state, one for each subtask, and the passes that write them.

    ``copied`` is the size of the files of the source savepoint that are copied or read; ``None`` if they contain all entries.
    """

    rows: Sequence[RowsPass]
    parts: Sequence[PartsPass]
    parallelism: int
    write: SubtaskWriter
    copied: int | None = None


class Engine(Protocol):
    """Runs tasks. Each engine encodes its own kind of rows."""

    def run_parts(self, parts: Sequence[SourcePart], task: Callable[[Any], Any]) -> list[Any]:
        """Return the results of ``task`` for each part."""

    def copy_files(self, parts: Sequence[SourcePart], task: Callable[[Any], Any]) -> list[Any]:
        """Return the results of ``task``, which copies files, for each part."""

    def write_files(self, files: Sequence[StateFiles], staging: Staging) -> list[Written]:
        """Run both passes over all files of a write, in as few jobs as possible."""

    def cancel(self) -> None:
        """Stop the running tasks, for a process that ends."""


class WriterEngine(Engine, Protocol):
    """Engine of a writer: what writers with Spark and without it do differently."""

    def rows(self, source: Any, *columns: str) -> Rows:
        """Return rows that a user gives, as the engine encodes them.

        ``columns``: columns that they may have. Sessions of Spark that ignore case accept other spellings of these.
        """

    def read(self, snapshot: Snapshot, access: SnapshotAccess, request: StateRequest) -> Rows:
        """Return the rows of a keyed state of a snapshot."""

    def access_to(self, path: str | PathLike[str], access: SnapshotAccess) -> SnapshotAccess:
        """Return the options of access to a path, which may be in other storage than the source savepoint."""

    def errors(self) -> AbstractContextManager[None]:
        """Return a context that raises errors of the engine as errors of this library."""
