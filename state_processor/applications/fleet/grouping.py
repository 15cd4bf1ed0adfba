"""Jobs of snapshots: checkpoints by the directory of their job, savepoints by the digits of the job's id in their names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from state_processor import SnapshotInfo
from state_processor.errors import StateProcessorError
from state_processor.options import SnapshotAccess
from state_processor.snapshots import Location, Mark, in_order, is_checkpoint_name, recorded_files

_ID_DIGITS: Final = 32
_DIGITS: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class JobSnapshots:
    """The snapshots of a job."""

    # the directory of its checkpoints; of savepoints without checkpoints, the directory above them. A savepoint whose name does
    # not tell the job has its own directory.
    directory: str
    job_id: str | None  # the id of the job, or the first digits of it; ``None`` if no path contains it
    snapshots: tuple[SnapshotInfo, ...]

    def newest_first(self, access: SnapshotAccess) -> list[SnapshotInfo]:
        """Return the snapshots whose ``_metadata`` can be read, newest first.

        Checkpoints are in the order of :func:`~state_processor.backends.metadata.checkpoint_order.in_order`. Savepoints come
        before checkpoints of an earlier time.
        """
        readable = [info for info in self.snapshots if info.is_complete is None]
        order = in_order(
            (Mark(info, info.checkpoint_id or 0, _seconds(info)) for info in readable if _is_checkpoint(info)),
            lambda info: _files(info, access),
        )
        savepoints = sorted((info for info in readable if not _is_checkpoint(info)), key=_sort_key)
        newest: list[SnapshotInfo] = []
        for checkpoint in reversed(order.checkpoints):
            while savepoints and _sort_key(savepoints[-1]) >= _sort_key(checkpoint):
                newest.append(savepoints.pop())
            newest.append(checkpoint)
        return [*newest, *reversed(savepoints)]


def jobs_of(snapshots: Iterable[SnapshotInfo]) -> list[JobSnapshots]:
    """Group snapshots by their jobs.

    A savepoint belongs to the job whose id begins with the digits in its name. If several jobs have them, it belongs to the one
    that is nearest by its path; it stands alone if several are equally near.
    """
    jobs: dict[tuple[str, str | None], list[SnapshotInfo]] = defaultdict(list)
    savepoints = []
    for info in snapshots:
        if _is_checkpoint(info):
            directory = Location.parse(info.path).parent
            jobs[str(directory), directory.name if _is_job_id(directory.name) else None].append(info)
        else:
            savepoints.append(info)
    by_digits: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    for key in list(jobs):
        if key[1] is not None:
            by_digits[key[1][:6]].append(key)
    for info in savepoints:
        candidates = by_digits.get(info.job_id[:6], []) if info.job_id else []
        jobs[_nearest(info, candidates)].append(info)
    return [JobSnapshots(directory, job_id, tuple(infos)) for (directory, job_id), infos in jobs.items()]


def _nearest(info: SnapshotInfo, candidates: Sequence[tuple[str, str | None]]) -> tuple[str, str | None]:
    """Return the job of a savepoint."""
    if info.job_id is None:
        return info.path, None
    if not candidates:
        return str(Location.parse(info.path).parent), info.job_id
    near = {job: _common_directories(info.path, job[0]) for job in candidates}
    nearest = [job for job, number in near.items() if number == max(near.values())]
    return nearest[0] if len(nearest) == 1 else (info.path, info.job_id)


def _common_directories(path: str, path_of_job: str) -> int:
    pairs = zip(path.split("/"), path_of_job.split("/"), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _is_checkpoint(info: SnapshotInfo) -> bool:
    return is_checkpoint_name(Location.parse(info.path).name)


def _is_job_id(name: str) -> bool:
    return len(name) == _ID_DIGITS and set(name) <= _DIGITS


def _seconds(info: SnapshotInfo) -> float | None:
    return None if info.time is None else info.time.timestamp()


def _sort_key(info: SnapshotInfo) -> float:
    return 0.0 if info.time is None else info.time.timestamp()


def _files(info: SnapshotInfo, access: SnapshotAccess) -> frozenset[str]:
    try:
        return recorded_files(access.open(info.path).metadata)
    except StateProcessorError:  # a running job has removed it
        return frozenset()
