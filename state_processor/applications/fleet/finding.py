"""A search in the newest complete snapshot of each job below directories: :func:`find_in_fleet`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Unpack

import pyarrow as pa

from state_processor.applications.finding.finding import Findings, check_sought, search, sought, sought_keys
from state_processor.applications.finding.state_search import Needle
from state_processor.applications.fleet.measures import Measurement
from state_processor.applications.fleet.table import Directories, measured, roots_of
from state_processor.command_line import Answer, render_records
from state_processor.errors import NotASnapshotError
from state_processor.options import WHOLE_NUMBER, SnapshotAccess, SnapshotOptions, takes_options
from state_processor.snapshots import DEPTH
from state_processor.support import pc, presentable

JOBS_SCHEMA: Final = pa.schema(
    [
        ("job", pa.string()),
        ("directory", pa.string()),
        ("snapshot", pa.string()),
        ("places", pa.int64()),
        ("count", pa.int64()),
        ("undecoded", pa.int64()),
        ("answer", pa.string()),
        ("error", pa.string()),
    ]
)
JOB_COLUMNS: Final = ("job", "snapshot", "places", "count", "undecoded", "answer")
WHOLE: Final = frozenset({"job", "snapshot", "target", "answer"})
"""Columns of jobs that are never shortened."""


@dataclass(frozen=True, slots=True, repr=False)
class FleetFindings(Findings):
    """The outcome of a search in many jobs; true if anything was found.

    Attributes
    ----------
    table, undecoded
        As in :class:`~state_processor.Findings`, with the column ``job`` in front.
    jobs
        A row for each job, and for each directory that can't be searched: ``job`` (its id, or its directory), ``directory``,
        ``snapshot`` (the newest complete one, or null), ``places``, ``count`` (values), ``undecoded`` (states that
        were searched as bytes), ``answer`` and ``error`` (what could not be read).
    """

    jobs: pa.Table

    @property
    def answer(self) -> Answer:
        """Whether anything was found. Not everything could be checked if this is the answer of a job."""
        answers = set(self.jobs["answer"].to_pylist())
        return next(answer for answer in (Answer.UNCHECKED, Answer.YES, Answer.NO) if answer in answers)

    def __str__(self) -> str:
        rows = self.jobs.to_pylist()
        return "\n\n".join([Findings.__str__(self), render_records(JOB_COLUMNS, rows, whole=WHOLE), *error_lines(rows)])


@takes_options
def find_in_fleet(
    directories: Directories,
    *,
    text: str | Sequence[str] | None = None,
    number: float | Sequence[float] | None = None,
    key: Any = None,
    depth: int = DEPTH,
    **options: Unpack[SnapshotOptions],
) -> FleetFindings:
    """Search in the newest complete snapshot of each job below directories.

    A job that can't be read is a row of ``jobs`` with an error, and the search goes on with the next job. A newer snapshot that
    is damaged or lacks files is an error too; checkpoints without ``_metadata``, which jobs are writing, are not.

    Parameters
    ----------
    directories
        Directories with jobs, as for :func:`state_processor.fleet`. A job below several of them is searched once.
    text, number, key
        As for :func:`state_processor.find`.
    depth
        Number of levels below the directories to search.
    **options
        See :class:`~state_processor.options.groups.SnapshotOptions`.

    Returns
    -------
    FleetFindings
        The places and the jobs, as tables of Arrow.

    Raises
    ------
    OptionError
        Nothing is sought, or no operator of any job has keys of the type of ``key``.
    NotASnapshotError
        No job is below the directories.
    """
    return search_fleet(directories, sought(text, number), sought_keys(key), depth, SnapshotAccess.of(**options))


def search_fleet(
    directories: Directories, needles: Sequence[Needle], keys: Sequence[Any], depth: int, access: SnapshotAccess
) -> FleetFindings:
    """Search in the snapshots of a fleet; see :func:`find_in_fleet`."""
    check_sought(needles, keys)
    roots = roots_of(directories)
    unnamed = replace(access, plan=None, uids=None)
    newest = Measurement(unnamed, datetime.now(UTC), check=True, headers=False, timeout=timedelta.max)
    rows = measured(roots, WHOLE_NUMBER.of_argument("depth", depth), newest)
    if not rows:
        raise NotASnapshotError(f"no job is below {', '.join(roots)}; state-processor list shows snapshots")
    paths = [row["path"] for row in rows if row.get("path")]
    failures = {row["directory"]: row["error"] for row in rows if row.get("error")}
    findings = search(paths, needles, keys, access.values(), failures)
    ordered = sorted(rows, key=lambda row: (row["directory"], row.get("job_id") or ""))
    jobs = pa.Table.from_pylist([_job(row, findings, failures) for row in ordered], JOBS_SCHEMA)
    return FleetFindings(_with_job(findings.table, jobs), _with_job(findings.undecoded, jobs), jobs)


def error_lines(jobs: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each job with an error: reports do not shorten errors."""
    return (f"{job['job']}: {job['error']}" for job in jobs if job["error"])


def _counts(table: pa.Table, path: str) -> pa.ChunkedArray:
    return table["count"].filter(pc.equal(table["snapshot"], path))


def _job(row: Mapping[str, Any], findings: Findings, failures: Mapping[str, str]) -> dict[str, Any]:
    """Return the row of a job. Nothing is known of what could not be read, whatever was found elsewhere."""
    path = row.get("path")
    counts, undecoded = _counts(findings.table, path or ""), _counts(findings.undecoded, path or "")
    errors = dict.fromkeys(filter(None, (row.get("error"), failures.get(path or ""))))
    is_absent = not len(counts)
    return {
        "job": presentable(row.get("job_id") or row["directory"]),
        "directory": presentable(row["directory"]),
        "snapshot": path,
        "places": len(counts),
        "count": pc.sum(counts).as_py() or 0,
        "undecoded": len(undecoded),
        "answer": Answer.of(wrong=is_absent and not len(undecoded) and not errors, unchecked=is_absent or bool(errors)),
        "error": presentable("; ".join(errors)) or None,
    }


def _with_job(table: pa.Table, jobs: pa.Table) -> pa.Table:
    return table.add_column(0, "job", jobs["job"].take(pc.index_in(table["snapshot"], jobs["snapshot"])))
