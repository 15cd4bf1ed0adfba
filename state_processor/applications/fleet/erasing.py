"""Erasure in the newest complete snapshot of each job below directories: :func:`erase_in_fleet`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Final, TypeAlias, Unpack

from state_processor.applications.erasing.erased_rows import checked_actions
from state_processor.applications.erasing.erasure import Erasure, check_keys, sought_texts
from state_processor.applications.erasing.erasure_report import ErasureReport, Placeholders
from state_processor.applications.finding.finding import sought, sought_keys
from state_processor.applications.fleet.finding import WHOLE, error_lines, search_fleet
from state_processor.applications.fleet.table import Directories
from state_processor.command_line import Answer, json_value, render_records
from state_processor.errors import WriteError
from state_processor.options import BackendName, ChangedSavepointOptions, FormatName, SnapshotAccess, takes_options
from state_processor.snapshots import DEPTH, METADATA_FILE, Location, Storage, noted_errors
from state_processor.support import attributes

Row: TypeAlias = dict[str, Any]
_COLUMNS: Final = ("job", "snapshot", "target", "removed", "left", "undecoded", "answer")


@dataclass(frozen=True)
class JobErasure:
    """The erasure in a job of a fleet.

    Attributes
    ----------
    job, directory, snapshot
        The job, as in :class:`~state_processor.FleetFindings`; the snapshot is the newest complete one, or ``None``.
    places
        The number of places where something was found in the snapshot.
    undecoded
        State of the snapshot, or of the new savepoint, that can't be decoded. Its bytes were searched.
    report
        The report about the new savepoint; ``None`` if nothing was found, or the erasure was refused or failed.
    error
        What could not be read, or why the erasure was refused.
    """

    job: str
    directory: str
    snapshot: str | None
    places: int
    undecoded: list[Row]
    report: ErasureReport | None
    error: str | None

    @property
    def answer(self) -> Answer:
        """Whether nothing is left in the new savepoint, or nothing was found in the snapshot of the job."""
        has_rest = bool(self.places) if self.report is None else not self.report.is_clean
        return Answer.of(wrong=has_rest, unchecked=bool(self.error or self.undecoded))

    def as_row(self) -> Row:
        """Return the row of the job in the text of the report."""
        report = self.report
        return {
            **attributes(self, ("job", "snapshot", "answer", "error")),
            "target": report and report.target,
            "removed": sum(row["count"] for row in report.removed) if report else 0,
            "left": sum(row["count"] for row in (*report.remaining, *report.remaining_files)) if report else self.places,
            "undecoded": len(self.undecoded),
        }


@dataclass(frozen=True)
class FleetErasure:
    """The outcome of an erasure in a fleet, for an audit. It is true if nothing is left and everything could be checked.

    Attributes
    ----------
    sought
        The texts and keys, under ``text`` and ``key``.
    jobs
        The jobs, and the directories that can't be searched: see :class:`~state_processor.JobErasure`.
    """

    sought: dict[str, list[str]]
    jobs: list[JobErasure]

    @property
    def answer(self) -> Answer:
        """The worst answer of the jobs."""
        answers = [job.answer for job in self.jobs]
        return Answer.of(wrong=Answer.NO in answers, unchecked=Answer.UNCHECKED in answers)

    def __bool__(self) -> bool:
        return self.answer == Answer.YES

    def to_json(self, *, reveal: bool = False) -> str:
        """Return the report as JSON; see :meth:`ErasureReport.to_json`."""
        sought, jobs = self._content(reveal)
        rows = [{"answer": job.answer, **json_value(job)} for job in jobs]
        return json.dumps({"answer": self.answer, "sought": sought, "jobs": rows}, ensure_ascii=False, indent=2)

    def to_text(self, *, reveal: bool = False) -> str:
        """Return the report as text: a table of jobs, and the reports about new savepoints; see :meth:`ErasureReport.to_json`."""
        sought, jobs = self._content(reveal)
        reports = [f"Job {job.job}: {job.report.to_text(reveal=reveal)}" for job in jobs if job.report is not None]
        names = "; ".join(", ".join(values) for values in sought.values())
        rows = [job.as_row() for job in jobs]
        title = f"Erasure of {names} in {len(jobs)} jobs: {self.answer}"
        return "\n\n".join([title, render_records(_COLUMNS, rows, whole=WHOLE), *error_lines(rows), *reports])

    def _content(self, reveal: bool) -> tuple[dict[str, list[str]], list[JobErasure]]:
        """Return the texts and keys, and the jobs, with placeholders unless they are revealed."""
        if reveal:
            return self.sought, self.jobs
        hidden = Placeholders(self.sought)
        jobs = []
        for job in self.jobs:
            report = job.report and job.report.without_content()
            jobs.append(replace(job, undecoded=hidden.rows(job.undecoded), report=report, error=hidden.text(job.error)))
        return hidden.sought(), jobs

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return self.to_text()


@takes_options
def erase_in_fleet(
    directories: Directories,
    target: str | PathLike[str],
    *,
    remove: str | Sequence[str],
    text: str | Sequence[str] | None = None,
    key: Any = None,
    format: FormatName = "canonical",
    backend: BackendName | None = None,
    depth: int = DEPTH,
    **options: Unpack[ChangedSavepointOptions],
) -> FleetErasure:
    """Write a savepoint without some texts or keys for each job whose state contains them, with a proof.

    The newest complete snapshot of each job is searched as by :func:`state_processor.find_in_fleet`. Nothing is written for other
    jobs. A job whose state can't be read or erased is a job of the report, and the next job follows.

    Parameters
    ----------
    directories
        Directories with jobs, as for :func:`state_processor.fleet`.
    target
        The directory of the new savepoints. Each has the id of its job as its name, or the name of the directory of the job, and
        a number if several jobs have this name. Savepoints are never replaced.
    remove, text, key
        As for :func:`state_processor.erase`.
    format, backend
        As for :meth:`state_processor.SavepointWriter.write`.
    depth
        Number of levels below the directories to search.
    **options
        See :class:`~state_processor.options.groups.ChangedSavepointOptions`.

    Returns
    -------
    FleetErasure
        The report for an audit, as text or by :meth:`FleetErasure.to_json`.

    Raises
    ------
    OptionError
        Nothing to erase was given, or no operator of any job has keys of the type of ``key``.
    NotASnapshotError
        No job is below the directories.
    """
    actions, needles, keys = checked_actions(remove), sought(text, None), sought_keys(key)
    check_keys(keys, actions)
    access = SnapshotAccess.among(options)
    hits = search_fleet(directories, needles, keys, depth, access)
    rows, undecoded = hits.jobs.to_pylist(), hits.undecoded.to_pylist()

    def erasure(snapshot: str) -> Erasure:
        return Erasure(snapshot, actions, needles, keys, None, None, None, format, backend, options)

    jobs = []
    for row, name in zip(rows, _names(rows), strict=True):
        savepoint = Location.given(target).joined(name)
        jobs.append(_erased(row, undecoded, erasure, savepoint, access.storage()))
    return FleetErasure(sought_texts(needles, keys, None), jobs)


def _erased(row: Row, undecoded: list[Row], erasure: Callable[[str], Erasure], target: Location, storage: Storage) -> JobErasure:
    """Erase from the snapshot of a job if something was found in it."""
    report: ErasureReport | None = None
    failures: dict[str, str] = {}
    if row["places"]:
        is_new = not storage.exists(str(target))
        with noted_errors(row["snapshot"], failures):
            if not is_new:
                raise WriteError(f"{target} exists, and is not replaced: name another directory")
            erasing = erasure(row["snapshot"])
            erasing.prepare()
            report = erasing.write(str(target), overwrite=False)
        if failures and is_new and storage.exists(str(target.joined(METADATA_FILE))):
            failures[str(target)] = f"{target} was written, and not checked"
    return JobErasure(
        row["job"],
        row["directory"],
        row["snapshot"],
        row["places"],
        report.undecoded if report else [place for place in undecoded if place["snapshot"] == row["snapshot"]],
        report,
        "; ".join(filter(None, (row["error"], *failures.values()))) or None,
    )


def _names(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a name for the new savepoint of each job; jobs with equal names are numbered in their order."""
    names: set[str] = set()
    for row in rows:
        name = unique = Location.parse(row["job"]).name or "job"
        number = 1
        while unique.casefold() in names:
            number += 1
            unique = f"{name}-{number}"
        names.add(unique.casefold())
        yield unique
