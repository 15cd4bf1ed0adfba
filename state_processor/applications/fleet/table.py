"""One table for all jobs below directories: :func:`fleet`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from os import PathLike, fspath
from typing import Any, Final, Unpack

import pyarrow as pa

from state_processor import SnapshotInfo
from state_processor.applications.fleet.measures import Measurement, Row
from state_processor.applications.retention.file_uses import OrderedPaths, directory_of_job, find_file_uses, real_path
from state_processor.applications.retention.removal import Age, check_all_readable, possibly_claimed, removal_of_orphans
from state_processor.command_line import progress
from state_processor.errors import OptionError, StateProcessorError
from state_processor.options import COUNT, DirectoryOptions, SnapshotAccess, checked_choice, duration_ms, spelled, takes_options
from state_processor.snapshots import DEPTH, Location, Mark, find_snapshots, in_order, is_checkpoint_name, recorded_files
from state_processor.support import presentable

# Jobs: checkpoints by the directory of their job, savepoints by the digits of the job's id in their names

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


# The table

TRANSACTION_TIMEOUT: Final = "15min"
"""What brokers of Kafka permit at most by default (``transaction.max.timeout.ms``)."""

_GUARD: Final = timedelta(days=1)
"""Younger files are not orphans: running jobs may still need them."""
FLEET_SCHEMA: Final = pa.schema(
    [
        ("directory", pa.string()),
        ("job_id", pa.string()),
        ("path", pa.string()),
        ("kind", pa.string()),
        ("checkpoint_id", pa.int64()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("age_seconds", pa.float64()),
        ("is_complete", pa.bool_()),
        ("size_in_bytes", pa.int64()),
        ("bytes_per_day", pa.float64()),
        ("snapshots", pa.int64()),
        ("incomplete", pa.int64()),
        ("operators", pa.int64()),
        ("largest_operators", pa.list_(pa.struct([("operator", pa.string()), ("size_in_bytes", pa.int64())]))),
        ("oldest_flink", pa.string()),
        ("restorable_by", pa.string()),
        ("orphans", pa.int64()),
        ("findings", pa.list_(pa.struct([("kind", pa.string()), ("text", pa.string())]))),
        ("unchecked", pa.list_(pa.string())),
        ("error", pa.string()),
    ]
)
_LARGEST_FIRST: Final[Mapping[str, Any]] = {
    "age": lambda row: row.get("age_seconds"),
    "size": lambda row: row.get("size_in_bytes"),
    "growth": lambda row: row.get("bytes_per_day"),
    "orphans": lambda row: row.get("orphans"),
    "findings": lambda row: len(row.get("findings") or ()),
}
SORTS: Final = ("job", *_LARGEST_FIRST)
"""Orders of the table; all but ``job`` have the largest value first."""

Directories = str | PathLike[str] | Iterable[str | PathLike[str]]


@takes_options
def fleet(
    directories: Directories,
    *,
    sort: str = "job",
    headers: bool = False,
    check: bool = False,
    orphans: bool = False,
    transaction_timeout: str | timedelta = TRANSACTION_TIMEOUT,
    depth: int = DEPTH,
    **options: Unpack[DirectoryOptions],
) -> pa.Table:
    """Return a row for each job below directories: its newest complete snapshot, growth, restorability and findings.

    Only ``_metadata`` files are read by default. A snapshot or a directory that can't be read is an ``error`` of its row.

    Parameters
    ----------
    directories
        Directories with jobs: paths or URLs, also of a whole bucket. Savepoints belong to the job with the digits in their names,
        also if they are below another of the directories.
    sort
        ``job``, or the largest ``age``, ``size``, ``growth``, number of ``orphans`` or ``findings`` first. Rows without the value
        come last.
    headers
        Read the headers of the state files of each newest snapshot, for ``restorable_by`` and values that Kryo wrote. Without
        them, headers inside of ``_metadata`` are read, and ``unchecked`` names the others.
    check
        Look for every file of each newest snapshot: a snapshot without all of its files is not complete.
    orphans
        List all files. Count the files of Flink that are older than a day and that no snapshot below the directories uses; see
        :func:`state_processor.orphans`. Nothing is removed. Files that a job elsewhere may have claimed are not counted.
    transaction_timeout
        The age of a snapshot after which brokers have aborted the transactions that it commits.
    depth
        Number of levels below the directories to search.
    **options
        See :class:`~state_processor.options.groups.DirectoryOptions`.

    Returns
    -------
    pyarrow.Table
        ``directory`` and ``job_id`` name the job. ``path``, ``kind``, ``checkpoint_id``, ``time``, ``age_seconds``,
        ``is_complete`` (null if it was not checked) and ``size_in_bytes`` are about its newest complete snapshot.
        ``bytes_per_day`` is the growth since its oldest snapshot of the same kind. ``snapshots`` and ``incomplete`` count
        snapshots. ``operators`` and ``largest_operators``; ``oldest_flink`` reads ``_metadata``; ``restorable_by`` are the
        releases that restore all states, and null if not all headers were read. ``orphans`` is null if they were not counted.
        ``findings`` have a ``kind`` and a ``text``; ``unchecked`` names checks that were left out.
        ``error`` is the first error.

    Raises
    ------
    OptionError
        If an option has an unexpected value.
    """
    sort = checked_choice("sort", sort, SORTS)
    access = SnapshotAccess.of(**options)
    depth = COUNT.of_argument("depth", depth)
    timeout = _timeout(transaction_timeout)
    roots = roots_of(directories)
    measurement = Measurement(access, datetime.now(UTC), check, headers, timeout)
    rows = measured(roots, depth, measurement)
    if orphans:
        _count_orphans(rows, roots, access, measurement.now)
    return pa.Table.from_pylist(list(map(_presentable, _sorted(rows, sort))), FLEET_SCHEMA)


def _timeout(value: str | timedelta) -> timedelta:
    try:
        return timedelta(milliseconds=duration_ms(value))
    except OptionError:
        raise OptionError(f"{spelled('transaction_timeout', value)}: expected a duration such as 15min or PT1H") from None


def measured(roots: Sequence[str], depth: int, measurement: Measurement) -> list[Row]:
    """Return a row for each job below directories, and for each directory that can't be searched."""
    snapshots, rows = _search(roots, depth, measurement.access)
    return rows + list(map(measurement.row, progress(jobs_of(snapshots), "measuring")))


def roots_of(directories: Directories) -> list[str]:
    """Return the directories of an argument, each once."""
    paths = [directories] if isinstance(directories, (str, PathLike)) else directories
    roots = list(dict.fromkeys(str(Location.given(fspath(directory))) for directory in paths))
    if not roots:
        raise OptionError(f"{spelled('directories')}: expected at least one directory")
    return roots


def _search(roots: Sequence[str], depth: int, access: SnapshotAccess) -> tuple[list[SnapshotInfo], list[Row]]:
    """Return the snapshots below directories, and a row for each directory that can't be searched.

    Directories may overlap, and links lead to a snapshot by several paths: it counts once, by its path without links if that is
    below a directory.
    """
    snapshots: dict[str, SnapshotInfo] = {}
    failures: dict[str, str] = {}
    for root in roots:
        try:
            discovery = find_snapshots(root, access.storage(), depth, failures=failures)
        except StateProcessorError as problem:
            failures[root] = str(problem)
            continue
        for info in discovery.snapshots:
            place = real_path(info.path)
            snapshots[place] = info if place == info.path else snapshots.get(place, info)
        deep = f"it is more than {depth} levels down; {spelled('depth', depth + 1)} searches it"
        failures |= dict.fromkeys(discovery.unsearched, deep)
    return [*snapshots.values()], [{"directory": place, "error": reason} for place, reason in failures.items()]


def _count_orphans(rows: list[Row], roots: Sequence[str], access: SnapshotAccess, now: datetime) -> None:
    """Add the number of files that no snapshot uses. It is unknown if some ``_metadata`` below the directories can't be read.

    Files of jobs without a snapshot get a row for their job, and other files a row for the directory.
    """
    counts: Counter[str] = Counter()
    try:
        uses = find_file_uses(roots, access.storage(), access.allow_paths, access.path_mapping)
        check_all_readable(uses)
        real_roots = sorted(set(map(real_path, roots)))
        files = removal_of_orphans(uses, real_roots, Age(_GUARD, now)).files
        claimed = possibly_claimed(uses, files)
        places = set[str]().union(*claimed.values())
        counted = OrderedPaths(file.path for file in files if file.path not in places)
        innermost = {path: root for root in real_roots for path in counted.below(root)}
        counts.update(directory_of_job(Location.parse(path)) or root for path, root in innermost.items())
    except StateProcessorError as problem:
        for row in rows:
            row["unchecked"] = [*row.get("unchecked", ()), f"orphans: {problem}"]
        return
    for row in rows:
        row["orphans"] = counts.pop(real_path(row["directory"]), 0)
    rows += [{"directory": place, "snapshots": 0, "orphans": number} for place, number in counts.items()]
    rows += [
        {
            "directory": place,
            "snapshots": 0,
            "unchecked": [f"{len(paths)} files of no snapshot here, which a job may have claimed"],
        }
        for place, paths in claimed.items()
    ]


def _presentable(row: Row) -> Row:
    return {name: presentable(value) if isinstance(value, str) else value for name, value in row.items()}


def _sorted(rows: Iterable[Row], sort: str) -> list[Row]:
    def by_name(row: Row) -> tuple[str, str]:
        return row["directory"], row.get("job_id") or ""

    ordered = sorted(rows, key=by_name)
    value = _LARGEST_FIRST.get(sort)
    return ordered if value is None else sorted(ordered, key=lambda row: -value(row) if value(row) is not None else float("inf"))
