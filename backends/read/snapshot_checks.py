"""Checks of a snapshot: the structure of its state files, and its values.

The structure is checked without decoding values. Canonical files have lengths that every read checks. Checksums of all blocks of
embedded stores, counts in files of the heap backend, and offsets of operator state in `_metadata` are checked here in all files.
Of values it is checked that each can be decoded to its last byte, and that each key is in its key group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from state_processor.backends.files.location import Location
from state_processor.backends.files.ordered_threads import PART_BYTES, at_once, chosen_threads, in_order, read_all, threads_for
from state_processor.backends.formats.heap import HeapSource
from state_processor.backends.formats.opening import open_source
from state_processor.backends.formats.operator_file import operator_header
from state_processor.backends.formats.rocksdb_store import Store, open_store
from state_processor.backends.formats.row_layout import KEY, KEY_GROUP_COLUMN
from state_processor.backends.formats.sst.manifest import TableFile
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState, OperatorSubtaskState
from state_processor.backends.metadata.streams import StreamInFile, streams_in_files
from state_processor.backends.read.keyed_splits import check_key_groups, key_group_chunks
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator, leaf_keyed_handles, operator_label, subtask_label
from state_processor.backends.state.descriptions import KeyedDescription, StateDescription
from state_processor.backends.state.key_groups import key_group
from state_processor.serializers.hash_codes import hash_codes
from state_processor.support.errors import StateProcessorError, UnsupportedFormatError, foreign_errors


@dataclass
class FileCheck:
    """Outcome of a check."""

    checked: int = 0  # number of files and parts of files that the snapshot refers to
    problems: list[str] = field(default_factory=list)  # a message for each that is not there
    # number of files by the directory of a savepoint that they are in, although the snapshot refers to them as its own: Flink
    # can't restore it (FLINK-39964)
    claimed: Counter[str] = field(default_factory=Counter)
    claimed_missing: str = ""  # the problem with files of such a savepoint that are not found; empty if there are none

    @property
    def is_restorable(self) -> bool:
        """True if Flink finds every file."""
        return not self.problems and not self.claimed


def check_files(snapshot: Snapshot) -> FileCheck:
    """Look for all files of a snapshot."""
    check = FileCheck()
    seen: set[StreamInFile] = set()
    lost: list[str] = []
    for context, handle in _streams(snapshot):
        if handle in seen:
            continue
        seen.add(handle)
        check.checked += 1
        is_reused = isinstance(handle, h.RelativeFileStateHandle) and handle.path in snapshot.relocation.reused
        try:
            stream = snapshot.open(handle, context)
            stream.read(max(len(stream) - 1, 0), min(len(stream), 1))
        except StateProcessorError as problem:
            (lost if is_reused else check.problems).append(str(problem))
            continue
        directory = str(Location.parse(stream.path or "").parent)
        if is_reused and directory != snapshot.directory:
            check.claimed[directory] += 1
    if lost:  # all of one savepoint
        check.claimed_missing = lost[0] if len(lost) == 1 else f"{lost[0]}. {len(lost)} files are missing for this reason"
        check.problems.append(check.claimed_missing)
    return check


def _streams(snapshot: Snapshot) -> Iterator[tuple[str, StreamInFile]]:
    for operator in snapshot.metadata.operators:
        for stream in streams_in_files(operator.coordinator_state):
            yield operator_label(operator), stream
        for subtask in operator.subtasks:
            for stream in streams_in_files(subtask):
                yield subtask_label(operator, subtask), stream


_FILES_AT_ONCE: Final = 8
_OPTIONS: Final = ReadOptions.of(nanos="string", row_kind=True, metadata=True)


@dataclass
class SnapshotCheck(ABC):
    """Outcome of a check of all operators of a snapshot: a message for each part that is wrong, or that can't be checked."""

    problems: list[str] = field(default_factory=list, kw_only=True)
    unknown: list[str] = field(default_factory=list, kw_only=True)

    def check(self, snapshot: Snapshot, watched: Callable[[Sequence[OperatorState]], Iterable[OperatorState]] = iter) -> None:
        """Check all operators of a snapshot.

        ``watched``: yields operators one after the other, and may note how far the check is.
        """
        for operator in watched(snapshot.metadata.operators):
            self._check_operator(snapshot, operator)

    @abstractmethod
    def _check_operator(self, snapshot: Snapshot, operator: OperatorState) -> None: ...

    @contextmanager
    def _noting(self, context: str) -> Iterator[None]:
        """Keep the error of a check."""
        try:
            with foreign_errors(context):
                yield
        except UnsupportedFormatError as problem:
            self.unknown.append(str(problem))
        except StateProcessorError as problem:
            self.problems.append(str(problem))


@dataclass
class StructureCheck(SnapshotCheck):
    """Outcome of a check of structure.

    ``problems``: a message for each file that is damaged. ``unknown``: a message for each file that can't be checked, for
    instance since a serializer is not known.
    """

    headers: int = 0  # number of headers of operator state that fit their state handles
    counted: int = 0  # number of files of the heap backend whose entries were counted to the end
    blocks: int = 0  # number of blocks of embedded stores whose checksums are right
    without_checksums: list[str] = field(default_factory=list)  # the files of embedded stores that do not have checksums
    _verified: set[Hashable] = field(default_factory=set, init=False)

    def _check_operator(self, snapshot: Snapshot, operator: OperatorState) -> None:
        with self._noting(operator_label(operator)):
            check_key_groups(operator)
        self.headers += sum(at_once(partial(self._check_header, snapshot, operator), operator.subtasks))
        for subtask in operator.subtasks:
            context = subtask_label(operator, subtask)
            for handle in leaf_keyed_handles(subtask.managed_keyed):
                with self._noting(context):
                    if isinstance(handle, h.KeyGroupsStateHandle):
                        self._count(snapshot, handle, context, operator.max_parallelism)
                    elif isinstance(handle, h.IncrementalRemoteKeyedStateHandle):
                        self._verify(open_store(snapshot, handle, context), snapshot.threads)

    def _check_header(self, snapshot: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState) -> bool:
        """Return whether a subtask has operator state that fits its header."""
        handle, context = subtask.managed_operator, subtask_label(operator, subtask)
        if handle is None or not handle.states:
            return False
        with self._noting(context):
            operator_header(snapshot, handle, context)
            return True
        return False

    def _count(self, snapshot: Snapshot, handle: h.KeyGroupsStateHandle, context: str, max_parallelism: int) -> None:
        if not isinstance(open_source(snapshot, handle, context, max_parallelism), HeapSource):
            return

        def count(key_groups: h.KeyGroupRange) -> Iterator[str]:
            source = open_source(snapshot, handle, context, max_parallelism)
            assert isinstance(source, HeapSource)
            yield source.count_through(key_groups)

        chunks = list(key_group_chunks(handle.key_groups, handle.state_size, PART_BYTES))
        for unknown in in_order(count, chunks, threads_for(chunks, snapshot.threads)):
            if unknown:
                self.unknown.append(unknown)
                return
        self.counted += 1

    def _verify(self, store: Store, threads: int | None) -> None:
        """Verify the checksums of the tables of a store, except tables that were verified in another store."""
        by_identity = {store.identity(file): file for file in store.manifest.files}
        files = [file for identity, file in by_identity.items() if identity not in self._verified]
        self._verified.update(by_identity)
        self.blocks += sum(at_once(partial(self._verify_table, store), files, chosen_threads(threads) or _FILES_AT_ONCE))

    def _verify_table(self, store: Store, file: TableFile) -> int:
        """Return the number of blocks of a table."""
        with self._noting(store.label):
            table = store.open_table(file)
            blocks = table.verify()
            if not blocks:
                self.without_checksums.append(table.context)
            return blocks
        return 0


@dataclass
class ValueCheck(SnapshotCheck):
    """Outcome of a check of values.

    ``problems``: a message for each state that can't be decoded, or is in wrong key groups. ``unknown``: a message for each state
    whose format is not known.
    """

    rows: int = 0  # number of decoded rows
    # states whose keys have a ``hashCode`` of the job's classes, so that their key groups can't be checked
    unhashed: list[str] = field(default_factory=list)

    def _check_operator(self, snapshot: Snapshot, operator: OperatorState) -> None:
        stored = StoredOperator(snapshot, operator)
        with self._noting(stored.label):
            states, unread = stored.surveyed
            for state in unread:
                with self._noting(stored.label):
                    raise state.error
            for variants in states.values():
                with self._noting(stored.label):
                    self._check_state(stored, variants[0])

    def _check_state(self, stored: StoredOperator, state: StateDescription) -> None:
        reader = open_state(stored, state.name, options=_OPTIONS)
        label = f"{stored.label}, state {state.name!r}"
        hashed = isinstance(state, KeyedDescription)

        def check(split: Any) -> Iterator[tuple[int, str | None]]:
            nonlocal hashed
            for batch in reader.read(split):
                problem = None
                if hashed and isinstance(state, KeyedDescription):
                    try:
                        problem = _misplaced_keys(batch, state, stored.operator.max_parallelism)
                    except UnsupportedFormatError:
                        hashed = False
                yield batch.num_rows, problem

        for rows, problem in read_all(reader.splits, check, stored.snapshot.threads):
            self.rows += rows
            self.problems += [f"{label}: {problem}"] if problem else []
        if not hashed and isinstance(state, KeyedDescription):
            self.unhashed.append(label)


def _misplaced_keys(batch: pa.RecordBatch, state: KeyedDescription, max_parallelism: int) -> str | None:
    """Return a message if keys are in another key group than Flink looks for them in."""
    keys = batch.column(batch.schema.get_field_index(KEY))
    expected = key_group(hash_codes(state.key, keys), max_parallelism)
    stored = batch.column(batch.schema.get_field_index(KEY_GROUP_COLUMN)).to_numpy()
    wrong = np.flatnonzero(expected != stored)
    if not len(wrong):
        return None
    row = int(wrong[0])
    return (
        f"{len(wrong)} entries are in the wrong key group, such as key {keys[row].as_py()!r} in {stored[row]}: "
        f"its hash belongs to {expected[row]}, where Flink looks for it"
    )
