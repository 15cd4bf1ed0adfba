"""Rows of a state at past times, from the snapshots of a job. None of a later time is among them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby, pairwise
from operator import itemgetter
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Unpack

import pyarrow as pa

from state_processor import OperatorIdentifier, list_snapshots
from state_processor.arrow import read_state
from state_processor.errors import MissingFileError, NotFoundError, OptionError
from state_processor.options import LookupSnapshotOptions, takes_options
from state_processor.support import only_keys, redacted

if TYPE_CHECKING:
    from state_processor import SnapshotInfo

_FINDING: Final = ("path_mapping", "allow_paths", "storage_options")
_JOB_DIGITS: Final = 6
"""The digits of a job's id in the path of a savepoint."""
_TIME: Final = pa.timestamp("us", tz="UTC")
_COLUMNS: Final = ("time", "taken_at", "checkpoint_id", "snapshot")


@takes_options
def history_of(
    directory: str | PathLike[str],
    uid: str | OperatorIdentifier,
    state: str,
    keys: Sequence[Any] | pa.Table | None = None,
    *,
    at: Iterable[datetime | str],
    **options: Unpack[LookupSnapshotOptions],
) -> pa.Table:
    """Return the rows that a state had at given times, from retained checkpoints and savepoints.

    Each time has the rows of the newest complete snapshot that was finished by then. Nothing of a later time is in them. They
    may be older than the time, by as much as the job's interval of checkpoints: ``taken_at`` tells.

    Parameters
    ----------
    directory
        A directory with the checkpoints or savepoints of one job. Jobs that ran one after the other are one history.
    uid, state
        The operator, and its keyed state.
    keys
        The keys to read; ``None`` for all. A key without state at a time does not have rows for it.
    at
        The times: aware :class:`~datetime.datetime`, or texts in ISO 8601 with an offset, in any order. Equal times count once.
    **options
        See :class:`~state_processor.options.groups.LookupSnapshotOptions`. ``ttl`` without ``as_of`` hides what has expired by
        each time.

    Returns
    -------
    pyarrow.Table
        ``time``, one of ``at``; ``taken_at``, the time when the snapshot was finished, in UTC; ``checkpoint_id`` and
        ``snapshot``, its number and path; and the columns of the state. Rows are in the order of ``time``.

    Raises
    ------
    NotFoundError
        A time is before the first complete snapshot, or the operator or the state does not exist in a snapshot.
    OptionError
        A time does not have an offset; snapshots of jobs that ran at the same time are mixed; or the state changed its type
        between the snapshots.
    MissingFileError
        Flink removed a snapshot meanwhile: retain more checkpoints.
    """
    times = _instants(at)
    history = _Snapshots(directory, only_keys(options, _FINDING))
    reading: Any = options if keys is None else {**options, "keys": keys}
    expires = "ttl" in options and "as_of" not in options
    tables: list[pa.Table] = []
    for info, same in groupby(((history.at(time), time) for time in times), key=itemgetter(0)):
        moments = [time for _, time in same]
        if expires:  # each time hides other rows
            parts = [_read(info, uid, state, {**reading, "as_of": time}) for time in moments]
        else:
            parts = [_read(info, uid, state, reading)] * len(moments)
        history.check_present(info)
        tables += [_labelled(rows, time, info) for rows, time in zip(parts, moments, strict=True)]
    return _with_one_type(tables)


def _instants(at: Iterable[datetime | str]) -> list[datetime]:
    if isinstance(at, str) or not isinstance(at, Iterable):
        raise OptionError(f"at={at!r}: expected a list of times")
    times = sorted({_instant(time) for time in at})
    if not times:
        raise OptionError("at=[]: expected one time or more")
    return times


def _instant(time: datetime | str) -> datetime:
    try:
        parsed = datetime.fromisoformat(time) if isinstance(time, str) else time
    except ValueError:
        raise OptionError(f"at: {time!r} is not a time of ISO 8601, such as 2026-05-04T12:00:00+00:00") from None
    if not isinstance(parsed, datetime) or parsed.utcoffset() is None:
        raise OptionError(f"at: {time!r} does not say which point in time it is: expected a datetime with a time zone")
    try:
        return parsed.astimezone(UTC)
    except OverflowError:
        raise OptionError(f"at: {time!r} is before the year 1 or after the year 9999 in UTC") from None


class _Snapshots:
    """The snapshots of a job by time. Only those that are read are looked at for all their files."""

    def __init__(self, directory: str | PathLike[str], finding: Mapping[str, Any]) -> None:
        self._directory = directory
        self._finding = finding
        storage = only_keys(finding, ("storage_options",))
        listed = list_snapshots(directory, check=False, **storage)
        dated = [(info.time, info) for info in listed if info.time is not None and info.is_complete is not False]
        dated.sort(key=lambda pair: (pair[0], pair[1].checkpoint_id or -1))
        self._snapshots = [info for _, info in dated]
        self._times = [time for time, _ in dated]
        jobs = [info.job_id[:_JOB_DIGITS] for info in self._snapshots if info.job_id is not None]
        if sum(before != after for before, after in pairwise(jobs)) >= len(set(jobs)) > 1:
            raise OptionError(
                f"{directory} has snapshots of {len(set(jobs))} jobs that ran at the same time: name the directory of one"
            )
        self._complete: dict[str, bool] = {}

    def at(self, time: datetime) -> SnapshotInfo:
        """Return the newest complete snapshot that was finished by a time.

        Raises
        ------
        NotFoundError
            The directory does not have one.
        """
        for info in reversed(self._snapshots[: bisect_right(self._times, time)]):
            if self._is_complete(info):
                return info
        first = f"the first one is of {self._times[0].isoformat()}" if self._times else "it does not have any"
        raise NotFoundError(f"{self._directory} does not have a complete snapshot of {time.isoformat()} or before: {first}")

    def check_present(self, info: SnapshotInfo) -> None:
        """Refuse rows of a snapshot that was replaced since it was listed: they may be of a later time.

        Raises
        ------
        MissingFileError
            The directory does not have the snapshot any more.
        """
        if not self._is_at_its_path(info):
            raise MissingFileError(f"{info.path} was replaced or removed while it was read: retain more checkpoints")

    def _is_complete(self, info: SnapshotInfo) -> bool:
        if info.path not in self._complete:
            self._complete[info.path] = self._is_at_its_path(info)
        return self._complete[info.path]

    def _is_at_its_path(self, info: SnapshotInfo) -> bool:
        """Return whether a path has the snapshot that was listed, with all its files."""
        identity = (info.path, info.time, info.checkpoint_id)
        at_path = list_snapshots(info.path, **self._finding)
        return any(entry.is_complete for entry in at_path if (entry.path, entry.time, entry.checkpoint_id) == identity)


def _read(info: SnapshotInfo, uid: str | OperatorIdentifier, state: str, options: Any) -> pa.Table:
    try:
        return read_state(info.path, uid, state, **options).read_all()
    except MissingFileError as problem:
        raise MissingFileError(f"{problem}\nFlink may have removed the checkpoint: retain more, or read savepoints") from None
    except NotFoundError as problem:
        raise NotFoundError(f"{info.path}: {problem}") from None


def _labelled(rows: pa.Table, time: datetime, info: SnapshotInfo) -> pa.Table:
    if clashes := [name for name in _COLUMNS if name in rows.column_names]:
        raise OptionError(f"the rows of the state have the column {clashes[0]!r} of the result: read the snapshots one by one")
    times = (pa.scalar(time, _TIME), pa.scalar(info.time, _TIME))
    values = (*times, pa.scalar(info.checkpoint_id, pa.int64()), pa.scalar(redacted(info.path)))
    labels = [pa.repeat(value, rows.num_rows) for value in values]
    return pa.table([*labels, *rows.columns], [*_COLUMNS, *rows.column_names])


def _with_one_type(tables: Sequence[pa.Table]) -> pa.Table:
    for before, after in pairwise(tables):
        if not before.schema.equals(after.schema):
            raise OptionError(
                f"the state changed its type between {before['snapshot'][0]} and {after['snapshot'][0]}: "
                "ask for the times before and after it one by one"
            )
    return pa.concat_tables(tables)
