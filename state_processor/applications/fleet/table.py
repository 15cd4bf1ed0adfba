"""One table for all jobs below directories: :func:`fleet`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from os import PathLike, fspath
from typing import Any, Final, Unpack

import pyarrow as pa

from state_processor import SnapshotInfo
from state_processor.applications.fleet.measures import Measurement, Row, jobs_of
from state_processor.applications.retention.file_uses import OrderedPaths, directory_of_job, find_file_uses, real_path
from state_processor.applications.retention.removal import Age, check_all_readable, possibly_claimed, removal_of_orphans
from state_processor.command_line import progress
from state_processor.errors import OptionError, StateProcessorError
from state_processor.options import (
    WHOLE_NUMBER,
    DirectoryOptions,
    SnapshotAccess,
    checked_choice,
    duration_ms,
    spelled,
    takes_options,
)
from state_processor.snapshots import DEPTH, Location, find_snapshots
from state_processor.support import by_each_key, presentable

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
    depth = WHOLE_NUMBER.of_argument("depth", depth)
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
        innermost = by_each_key((counted.below(root), root) for root in real_roots)
        counts.update(directory_of_job(Location.parse(path)) or root for path, root in innermost.items())
    except StateProcessorError as problem:
        for row in rows:
            row["unchecked"] = [*row.get("unchecked", ()), f"orphans: {problem}"]
        return
    for row in rows:
        row["orphans"] = counts.pop(real_path(row["directory"]), 0)
    for place, number in counts.items():
        rows.append({"directory": place, "snapshots": 0, "orphans": number})
    for place, paths in claimed.items():
        unchecked = [f"{len(paths)} files of no snapshot here, which a job may have claimed"]
        rows.append({"directory": place, "snapshots": 0, "unchecked": unchecked})


def _presentable(row: Row) -> Row:
    return {name: presentable(value) if isinstance(value, str) else value for name, value in row.items()}


def _sorted(rows: Iterable[Row], sort: str) -> list[Row]:
    def by_name(row: Row) -> tuple[str, str]:
        return row["directory"], row.get("job_id") or ""

    ordered = sorted(rows, key=by_name)
    value = _LARGEST_FIRST.get(sort)
    return ordered if value is None else sorted(ordered, key=lambda row: -value(row) if value(row) is not None else float("inf"))
