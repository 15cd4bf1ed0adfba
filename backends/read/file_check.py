"""The files of a snapshot: whether each is there, with the bytes that the snapshot refers to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from state_processor.backends.files.location import Location
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.streams import StreamInFile, streams_in_files
from state_processor.backends.read.state_listing import operator_label, subtask_label
from state_processor.serializers.errors import StateProcessorError


@dataclass
class FileCheck:
    """Outcome of a check.

    Attributes
    ----------
    checked
        Number of files and parts of files that the snapshot refers to.
    problems
        A message for each that is not there.
    claimed
        Number of files by the directory of a savepoint that they are in, although the snapshot refers to them as its own: Flink
        can't restore it (FLINK-39964).
    claimed_missing
        The problem with files of such a savepoint that are not found; empty if there are none.
    """

    checked: int = 0
    problems: list[str] = field(default_factory=list)
    claimed: Counter[str] = field(default_factory=Counter)
    claimed_missing: str = ""

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
