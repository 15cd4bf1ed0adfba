"""The order of the checkpoints of one directory, from their numbers, times and files.

A job that begins again in the same directory counts from 1, so that the highest number may be of an earlier run. Times of copied
checkpoints may be in any order. So the number decides among checkpoints that share files, and among checkpoints that were
written within minutes; elsewhere the time does.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from operator import itemgetter
from typing import Final, Generic, TypeVar

_CLOSE: Final = timedelta(minutes=10).total_seconds()
"""Times of copies are this close: they do not tell which checkpoint is newer."""

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Mark(Generic[C]):
    """A checkpoint with its number, and its time in seconds. A checkpoint of unknown time counts as the newest."""

    checkpoint: C
    number: int
    time: float | None

    @property
    def by_time(self) -> tuple[float, int]:
        """The sort key by time."""
        return (math.inf if self.time is None else self.time, self.number)

    @property
    def by_number(self) -> tuple[int, float]:
        """The sort key by number."""
        return (self.number, self.by_time[0])


@dataclass(frozen=True, slots=True)
class Doubt(Generic[C]):
    """A checkpoint that has a higher number than the newest one, or a later time.

    ``is_close`` is true if their times are too close to tell which one is newer. Otherwise the job began again.
    """

    newest: C
    rival: C
    is_close: bool

    def text(self, name: Callable[[C], str]) -> str:
        """Return the doubt as text, with the names of checkpoints."""
        newest, rival = name(self.newest), name(self.rival)
        if self.is_close:
            return (
                f"{newest} counts as the newest by its number, though {rival} was written later: their times are too close "
                "to tell whether the job began again"
            )
        return f"{newest} is the newest by its time, though {rival} has a higher number: the job began again"


@dataclass(frozen=True, slots=True)
class CheckpointOrder(Generic[C]):
    """Checkpoints, oldest first; one with a higher number than the newest, and one that was written some minutes after it."""

    checkpoints: list[C]
    doubts: list[Doubt[C]]


def in_order(marks: Iterable[Mark[C]], files: Callable[[C], Collection[str]]) -> CheckpointOrder[C]:
    """Order the checkpoints of one directory.

    Parameters
    ----------
    marks
        The checkpoints.
    files
        Returns the files of a checkpoint that other checkpoints may share. It is called if numbers and times disagree.
    """
    ordered = sorted(marks, key=lambda mark: mark.by_number)
    if all(earlier.by_time <= later.by_time for earlier, later in pairwise(ordered)):
        return CheckpointOrder([mark.checkpoint for mark in ordered], [])
    runs = _runs(_lineages(ordered, files))
    in_runs = [mark.checkpoint for run in runs for lineage in run for mark in lineage]
    return CheckpointOrder(in_runs, list(_doubts(runs)))


_Lineage = list[Mark[C]]
"""Checkpoints that share files, in the order of their numbers."""


def _lineages(ordered: Iterable[Mark[C]], files_of: Callable[[C], Collection[str]]) -> list[_Lineage[C]]:
    marks = list(ordered)
    later = list(range(len(marks)))
    """By position: a later checkpoint of the lineage; the last one has its own position."""
    last_users: dict[str, int] = {}
    for position, mark in enumerate(marks):
        for file in files_of(mark.checkpoint):
            later[_last(later, last_users.get(file, position))] = position
            last_users[file] = position
    lineages: dict[int, _Lineage[C]] = defaultdict(list)
    for position, mark in enumerate(marks):
        lineages[_last(later, position)].append(mark)
    return [lineages[position] for position in sorted(lineages)]


def _last(later: list[int], position: int) -> int:
    """Return the position of the last checkpoint of a lineage, and shorten the way to it."""
    while later[position] != position:
        later[position] = position = later[later[position]]
    return position


def _runs(lineages: Iterable[_Lineage[C]]) -> list[list[_Lineage[C]]]:
    """Return the lineages of each run of the job, in the order of their numbers; the runs are in the order of their times.

    A run begins where the number goes back some minutes after the checkpoint with the highest number.
    """
    runs: list[list[_Lineage[C]]] = []
    highest: _Lineage[C] = []
    time_of_highest = -math.inf
    timed = [(_time_of(lineage), lineage) for lineage in lineages]
    for (time, _), lineage in sorted(timed, key=itemgetter(0)):
        goes_back = bool(runs) and _number_of(lineage) < _number_of(highest)
        if not runs or (goes_back and time - time_of_highest >= _CLOSE):
            runs.append([])
        if not runs[-1] or _number_of(lineage) > _number_of(highest):
            highest, time_of_highest = lineage, time
        runs[-1].append(lineage)
    return [sorted(run, key=_number_of) for run in runs]


def _time_of(lineage: _Lineage[C]) -> tuple[float, int]:
    return max(mark.by_time for mark in lineage)


def _number_of(lineage: _Lineage[C]) -> tuple[int, float]:
    return lineage[-1].by_number


def _doubts(runs: Sequence[Sequence[_Lineage[C]]]) -> Iterator[Doubt[C]]:
    """Yield the checkpoint with the highest number if an earlier run has it, and the latest one if it has a lower number."""
    newest = runs[-1][-1][-1]
    highest = max((mark for run in runs for lineage in run for mark in lineage), key=lambda mark: mark.number)
    if highest.number > newest.number:
        yield Doubt(newest.checkpoint, highest.checkpoint, is_close=False)
    latest = max(runs[-1], key=_time_of)
    if latest is not runs[-1][-1]:
        yield Doubt(newest.checkpoint, max(latest, key=lambda mark: mark.by_time).checkpoint, is_close=True)
