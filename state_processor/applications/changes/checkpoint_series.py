"""The whole checkpoints of a job in their order, while the job runs: it adds checkpoints, and removes old ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from logging import getLogger
from os import PathLike
from typing import Any, Final

from state_processor import SnapshotInfo
from state_processor.errors import MissingFileError, NotFoundError, StateProcessorError, UnsupportedFormatError
from state_processor.options import SnapshotAccess
from state_processor.snapshots import (
    DEPTH,
    JOB_DIGITS,
    Doubt,
    Location,
    Mark,
    Snapshot,
    check_files,
    find_snapshots,
    in_order,
    recorded_files,
    stored_digest,
)

_LOG: Final = getLogger("state_processor")
_ATTEMPTS: Final = 5
"""Looks at a directory whose checkpoints Flink removes before they are opened."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint or savepoint.

    ``time`` is when its ``_metadata`` was written, in milliseconds. ``digest`` identifies the content of ``_metadata``: a job
    that starts again may write another checkpoint to the same path.
    """

    path: str
    checkpoint_id: int
    time: int
    digest: str

    def __str__(self) -> str:
        return f"checkpoint {self.checkpoint_id} in {self.path}"

    def as_json(self) -> dict[str, Any]:
        """Return the checkpoint as a JSON object."""
        return asdict(self)

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Checkpoint:
        """Return the checkpoint of a JSON object."""
        return cls(str(content["path"]), int(content["checkpoint_id"]), int(content["time"]), str(content["digest"]))

    @property
    def moment(self) -> datetime:
        """The time as a point in time."""
        return datetime.fromtimestamp(self.time / 1000, UTC)

    def is_after(self, earlier: Checkpoint) -> bool:
        """Return whether it comes after a checkpoint that does not exist any more."""
        same_job = Location.parse(self.path).parent == Location.parse(earlier.path).parent
        if not same_job:
            return self.time > earlier.time
        return self != earlier and in_order([self.mark, earlier.mark], lambda _: ()).checkpoints[-1] == self

    @property
    def mark(self) -> Mark[Checkpoint]:
        """What orders it among the checkpoints of its directory."""
        return Mark(self, self.checkpoint_id, self.time / 1000)

    def open(self, access: SnapshotAccess) -> Snapshot | None:
        """Open the snapshot; ``None`` if it is not there any more, or lacks files."""
        try:
            snapshot = access.open(self.path)
            return snapshot if snapshot.digest == self.digest and not check_files(snapshot).problems else None
        except StateProcessorError:
            return None

    def is_stored(self, access: SnapshotAccess) -> bool:
        """Return whether its ``_metadata`` is there with the same content; files that it refers to may be missing."""
        return stored_digest(self.path, access.storage()) == self.digest


@dataclass
class CheckpointSeries:
    """The checkpoints below a directory.

    Within a job, checkpoints are in the order of their ids. If the job began again in its directory and counts from 1, their
    times decide; see :func:`~state_processor.backends.metadata.checkpoint_order.in_order`. A job that is restored continues in a
    new directory, and its ids continue; its checkpoints follow the checkpoints of the job before it. Savepoints below the
    directory are checkpoints too.

    A checkpoint is identified by its path and the digest of its ``_metadata``. Paths and times only save reading ``_metadata``
    again; the digest of the newest checkpoint, and of the checkpoint of a position, is computed in each look.
    """

    # the checkpoint directory of a job, or the directory above it, which also has the checkpoints of restored jobs
    directory: str | PathLike[str]
    access: SnapshotAccess  # how snapshots are opened
    _found: list[SnapshotInfo] = field(default_factory=list)
    _known: dict[tuple[str, datetime | None], Checkpoint] = field(default_factory=dict)
    _files: dict[str, frozenset[str]] = field(default_factory=dict)
    _said: set[tuple[str, str]] = field(default_factory=set)

    def whole(self) -> list[Checkpoint]:
        """Return the whole checkpoints in their order. A checkpoint is whole if all of its files are there."""
        for _ in range(_ATTEMPTS):
            checkpoints = self._look()
            if checkpoints and not checkpoints[-1].is_stored(self.access):
                self._forget()
            elif checkpoints or not any(info.is_complete is None for info in self._found):
                return checkpoints
        return []  # each one was removed before it was opened, or lacks files

    def _forget(self) -> None:
        """Read each ``_metadata`` again in the next look: one was replaced."""
        self._found, self._known = [], {}

    def _look(self) -> list[Checkpoint]:
        self._found = snapshots = find_snapshots(self.directory, self.access.storage(), DEPTH, self._found).snapshots
        by_job: dict[str, list[Checkpoint]] = {}
        seen: dict[tuple[str, datetime | None], Checkpoint] = {}
        for info in snapshots:
            checkpoint = self._checkpoint(info)
            if checkpoint is not None:
                seen[info.path, info.time] = checkpoint
                by_job.setdefault(_job(info), []).append(checkpoint)
        self._known = seen
        orders = [in_order((c.mark for c in job), self._files_of) for job in by_job.values()]
        self._warn(doubt for order in orders for doubt in order.doubts)
        return _jobs_in_order([order.checkpoints for order in orders])

    def _files_of(self, checkpoint: Checkpoint) -> frozenset[str]:
        """Return the files of a checkpoint by their recorded paths; a file beside ``_metadata`` belongs to it alone."""
        if checkpoint.digest not in self._files:
            snapshot = checkpoint.open(self.access)
            if snapshot is None:  # the next look may find it whole
                return frozenset()
            self._files[checkpoint.digest] = recorded_files(snapshot.metadata)
        return self._files[checkpoint.digest]

    def _warn(self, doubts: Iterable[Doubt[Checkpoint]]) -> None:
        """Warn once of each checkpoint that may be newer than the newest one, or that seems so by its id."""
        for doubt in doubts:
            if (doubt.newest.path, doubt.rival.path) not in self._said:
                self._said.add((doubt.newest.path, doubt.rival.path))
                _LOG.warning("%s", doubt.text(str))

    def _checkpoint(self, info: SnapshotInfo) -> Checkpoint | None:
        """Return a checkpoint if it is whole. Only the files of new ones are looked for."""
        if info.is_complete is False or info.checkpoint_id is None or info.time is None:
            return None
        checkpoint = self._known.get((info.path, info.time))
        if checkpoint is not None:
            return checkpoint
        try:
            snapshot = self.access.open(info.path)
            if check_files(snapshot).problems:
                return None
        except StateProcessorError:  # it was removed meanwhile
            return None
        return Checkpoint(info.path, info.checkpoint_id, round(info.time.timestamp() * 1000), snapshot.digest)

    def newest(self) -> Checkpoint:
        """Return the newest whole checkpoint."""
        checkpoints = self.whole()
        if not checkpoints:
            raise self.nothing_whole()
        return checkpoints[-1]

    def open_newest(self) -> tuple[Checkpoint, Snapshot]:
        """Open the newest whole checkpoint."""
        for _ in range(_ATTEMPTS):
            newest = self.newest()
            snapshot = newest.open(self.access)
            if snapshot is not None:
                return newest, snapshot
        raise MissingFileError(
            f"{newest} was removed while it was opened. Let the job retain more checkpoints (state.checkpoints.num-retained)"
        )

    def nothing_whole(self) -> NotFoundError:
        """Return the error about a directory without a whole checkpoint."""
        return NotFoundError(f"{self.directory} does not have a whole checkpoint: start after the first one is complete")

    def of_id(self, checkpoint_id: int, checkpoints: Sequence[Checkpoint]) -> Checkpoint:
        """Return the last of some checkpoints with an id."""
        matching = [c for c in checkpoints if c.checkpoint_id == checkpoint_id]
        if not matching:
            ids = ", ".join(str(c.checkpoint_id) for c in checkpoints) or "none"
            raise NotFoundError(f"checkpoint {checkpoint_id} is not whole in {self.directory}; whole checkpoints: {ids}")
        return matching[-1]

    def after(self, position: Checkpoint | None) -> list[Checkpoint]:
        """Return the checkpoints after a position, in their order. Without a position, return all checkpoints.

        If the checkpoint of the position is gone, the list has the newest one alone: changes between two checkpoints need both.
        The newest one may be older than the position, in a directory that was restored from a backup. The same applies if the
        checkpoint of the position is in another directory. If it is in this one and lacks files, only a later checkpoint follows.
        """
        checkpoints = self.whole()
        if position is None:
            return checkpoints
        is_stored = position.is_stored(self.access)
        places = [i for i, c in enumerate(checkpoints) if (c.path, c.digest) == (position.path, position.digest)]
        if places and is_stored:
            return checkpoints[places[-1] + 1 :]
        if places:
            self._forget()
            checkpoints = self.whole()
        is_here = is_stored and any(info.path == position.path for info in self._found)
        return [c for c in checkpoints[-1:] if not is_here or c.is_after(position)]


def _job(info: SnapshotInfo) -> str:
    return info.job_id[:JOB_DIGITS] if info.job_id else str(Location.parse(info.path).parent)


def _jobs_in_order(jobs: list[list[Checkpoint]]) -> list[Checkpoint]:
    jobs.sort(key=lambda job: (min(c.time for c in job), job[0].checkpoint_id))
    for earlier, later in pairwise(jobs):
        if max(c.time for c in earlier) > min(c.time for c in later):
            raise UnsupportedFormatError(
                f"two jobs take checkpoints at the same time: {earlier[-1]}, and {later[0]}. Pass the checkpoint directory of one"
            )
    return [checkpoint for job in jobs for checkpoint in job]
