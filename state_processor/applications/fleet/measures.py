"""Jobs of snapshots, and the row of a job: its newest complete snapshot, its growth, what restores it, and findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, Final

from state_processor import SnapshotInfo
from state_processor.applications.report.restoring import oldest_flink, restoring_releases
from state_processor.command_line import count_text
from state_processor.errors import StateProcessorError
from state_processor.options import SnapshotAccess
from state_processor.serializers import KryoSerializerSnapshot, TypeSerializerSnapshot
from state_processor.snapshots import (
    LAYOUTS,
    METADATA_FILE,
    Location,
    Mark,
    OperatorState,
    RegisteredStates,
    Snapshot,
    checked,
    find_snapshots,
    foreign_errors,
    in_order,
    is_checkpoint_name,
    recorded_files,
    some_of,
)
from state_processor.states import COMMITTABLE, COMMITTER_STATE, ROLE, TRANSACTION, read_sink_state, sink_state
from state_processor.support import without_keys

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


# Findings: what may lose state

KINDS: Final = ("without-uid", "lost-operator", "kryo", "regional-checkpoint", "transactions", "not-restorable")
"""Kinds of findings, for alerts."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding: its kind, one of :data:`KINDS`, and a sentence."""

    kind: str
    text: str

    def as_row(self) -> dict[str, Any]:
        """Return the finding as a value of a table."""
        return {"kind": self.kind, "text": self.text}


@dataclass(frozen=True, slots=True)
class SnapshotFindings:
    """Findings about a snapshot, and the checks that need more than was read."""

    findings: Sequence[Finding]
    unchecked: Sequence[str]


def findings(
    snapshot: Snapshot, earlier: Snapshot | None, registered: RegisteredStates, age: timedelta | None, timeout: timedelta
) -> SnapshotFindings:
    """Return the findings about a snapshot.

    ``snapshot``: the newest snapshot of a job. ``earlier``: an earlier snapshot of the job, to see which operators are gone;
    ``None`` without one. ``registered``: the states whose headers were read. ``age``: the age of the snapshot; ``None`` if it is
    unknown. ``timeout``: the time after which brokers abort transactions of sinks.
    """
    transactions, unread = _transactions(snapshot, age, timeout)
    findings_ = [*_uids(snapshot), *_lost(snapshot, earlier), *_kryo(registered), *_regional(snapshot), *transactions]
    return SnapshotFindings(findings_, [*_unchecked(snapshot, registered), *unread])


def _uids(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield the operators with state whose uids Flink made from the graph of the job. Flink 1.x does not record uids."""
    if LAYOUTS[snapshot.metadata.version].names:
        generated = [o.name or o.operator_id for o in snapshot.metadata.operators if o.has_state and not o.uid]
        if generated:
            yield Finding("without-uid", f"without a uid, so that a change of the job loses the state: {some_of(generated)}")


def _lost(snapshot: Snapshot, earlier: Snapshot | None) -> Iterator[Finding]:
    if earlier is None:
        return
    missing = without_keys(earlier.metadata.operators_by_id, snapshot.metadata.operators_by_id)
    lost = [operator.label for operator in missing.values() if operator.has_state]
    if lost:
        number = earlier.metadata.checkpoint_id
        yield Finding("lost-operator", f"with state in checkpoint {number}, and gone now: {some_of(lost)}")


def _kryo(registered: RegisteredStates) -> Iterator[Finding]:
    states = [f"{s.operator}/{s.name}" for s in registered.states if any(map(_has_kryo, s.snapshots.values()))]
    if states:
        yield Finding("kryo", f"Kryo writes values of {count_text(len(states))} states: {some_of(states)}")


def _has_kryo(part: TypeSerializerSnapshot) -> bool:
    return isinstance(part, KryoSerializerSnapshot) or any(map(_has_kryo, part.children))


def _regional(snapshot: Snapshot) -> Iterator[Finding]:
    older = {o.label: min(o.reference_checkpoints) for o in snapshot.metadata.operators if o.reference_checkpoints}
    if older:
        text = f"subtasks have the state of an earlier checkpoint, from {min(older.values())} on: {some_of([*older])}"
        yield Finding("regional-checkpoint", text)


def _transactions(snapshot: Snapshot, age: timedelta | None, timeout: timedelta) -> tuple[list[Finding], list[str]]:
    """Return the sinks whose transactions of Kafka are older than the timeout, and the sinks whose commits were not read."""
    aged, unread = [], []
    for operator in snapshot.metadata.operators:
        if not _is_committer(operator):
            continue
        try:
            rows = read_sink_state(sink_state(snapshot, operator, operator.uid, operator.operator_id)).to_pylist()
        except StateProcessorError:
            unread.append(f"transactions of {operator.label}")
            continue
        pending = sum(row[ROLE] == COMMITTABLE and row.get(TRANSACTION) is not None for row in rows)
        if pending and age is None:
            unread.append(f"the age of {count_text(pending)} transactions of {operator.label}")
        elif pending and age is not None and age > timeout:
            transactions = f"{operator.label}: {count_text(pending)} transactions are older than {timeout}"
            aged.append(
                Finding("transactions", f"{transactions}; brokers with this limit have aborted them, and their rows are lost")
            )
    return aged, unread


def _is_committer(operator: OperatorState) -> bool:
    return any(meta.name == COMMITTER_STATE for meta in operator.operator_metas)


def _unchecked(snapshot: Snapshot, registered: RegisteredStates) -> Iterator[str]:
    if not LAYOUTS[snapshot.metadata.version].names:
        yield "uids, which Flink 1.x does not record"
    if registered.unread:
        yield f"types of {count_text(len(registered.unread))} operators, whose headers were not read"


# Measures

_LARGEST: Final = 3
_DAY: Final = timedelta(days=1)
_LOOKS: Final = 3
"""Looks at the directory of a job that removes its snapshots before they are opened."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Measurement:
    """The parts of each job that are read, and the limits of findings."""

    access: SnapshotAccess  # how snapshots are opened
    now: datetime  # the time that ages refer to
    check: bool  # whether every file of the newest snapshot is looked for
    headers: bool  # whether the headers of the state files of the newest snapshot are read, and not ``_metadata`` alone
    timeout: timedelta  # the time after which brokers abort transactions of sinks

    def row(self, job: JobSnapshots) -> Row:
        """Return the row of a job. An error is a part of the row."""
        row: Row = {"directory": job.directory, "job_id": job.job_id, "snapshots": len(job.snapshots)}
        try:
            with foreign_errors(job.directory):
                return row | self._measured(job)
        except StateProcessorError as problem:
            return row | {"error": str(problem)}

    def _measured(self, job: JobSnapshots) -> Row:
        for _ in range(_LOOKS):
            problems: dict[str, str] = {}
            ordered = job.newest_first(self.access)
            for place, info in enumerate(ordered):
                snapshot = self._open(info, problems)
                if snapshot is not None:
                    return self._of_newest(job, ordered[place:], snapshot) | self._unreadable(job, info, problems)
            if not self._is_gone(job):
                break
            snapshots = find_snapshots(job.directory, self.access.storage(), 1).snapshots
            job = next(iter(jobs_of(snapshots)), job)
        damaged = self._unreadable(job, None, problems)
        return {"error": damaged.get("error") or f"{job.directory} does not have a complete snapshot"} | {
            "incomplete": len(job.snapshots)
        }

    def _open(self, info: SnapshotInfo, problems: dict[str, str]) -> Snapshot | None:
        """Open a snapshot; ``None`` if it is not complete, or was removed."""
        if self.check and not all(seen.is_complete for seen in checked([info], self.access)):
            problems[info.path] = f"{info.path} lacks files; state-processor validate names them"
            return None
        try:
            return self.access.open(info.path)
        except StateProcessorError as problem:
            problems[info.path] = str(problem)
            return None

    def _is_gone(self, job: JobSnapshots) -> bool:
        """Return whether the snapshots of a job were removed since they were listed."""
        paths = [str(Location.parse(info.path).joined(METADATA_FILE)) for info in job.snapshots if info.is_complete is None]
        return bool(paths) and not any(map(self.access.storage().is_file, paths))

    def _unreadable(self, job: JobSnapshots, newest: SnapshotInfo | None, problems: Mapping[str, str]) -> Row:
        """Return the number of snapshots that are not complete, and the error of a damaged one."""
        errors = [*problems.values()]
        damaged = [info for info in job.snapshots if info.is_complete is False]
        for info in damaged:
            file = str(Location.parse(info.path).joined(METADATA_FILE))
            if self.access.storage().is_file(file):  # others are being written, or failed
                try:
                    self.access.open(info.path)
                except StateProcessorError as problem:
                    errors.append(str(problem))
        rest = f" (and {len(errors) - 1} more snapshots)" if len(errors) > 1 else ""
        row: Row = {"incomplete": len(damaged) + len(problems)}
        return row | ({"error": errors[0] + rest} if errors else {})

    def _of_newest(self, job: JobSnapshots, ordered: Sequence[SnapshotInfo], snapshot: Snapshot) -> Row:
        newest = ordered[0]
        age = None if newest.time is None else self.now - newest.time
        snapshot = snapshot if self.headers else snapshot.without_files()
        registered = RegisteredStates.of(snapshot)
        releases = restoring_releases(snapshot, registered)
        seen = findings(snapshot, self._earlier(ordered), registered, age, self.timeout)
        judged = [*seen.findings, *_not_restorable(registered, releases.text)]
        is_whole = not registered.unread
        return {
            "path": newest.path,
            "kind": newest.kind,
            "checkpoint_id": newest.checkpoint_id,
            "time": newest.time,
            "is_complete": True if self.check else None,
            "age_seconds": None if age is None else age.total_seconds(),
            "size_in_bytes": newest.size,
            "bytes_per_day": bytes_per_day([info for info in ordered if info.kind == newest.kind]),
            "operators": len(snapshot.metadata.operators),
            "largest_operators": _largest(snapshot),
            "oldest_flink": oldest_flink(snapshot),
            "restorable_by": releases.text or None if is_whole else None,
            "findings": [finding.as_row() for finding in judged],
            "unchecked": [*seen.unchecked, *_opaque(registered)],
        }

    def _earlier(self, ordered: Sequence[SnapshotInfo]) -> Snapshot | None:
        """Return the oldest snapshot of a job that is not the newest one."""
        with suppress(StateProcessorError):  # a running job removes its oldest checkpoint first
            return self.access.open(ordered[-1].path) if len(ordered) > 1 else None
        return None


def _not_restorable(registered: RegisteredStates, releases: str) -> Iterator[Finding]:
    if not registered.unread and registered.states and not releases:
        yield Finding("not-restorable", "no release of Flink restores all states as they are; state-processor check names them")


def _opaque(registered: RegisteredStates) -> Iterator[str]:
    opaque = [name for name in registered.unchecked if name not in registered.unread]
    if opaque:
        yield f"what code of the job or of connectors reads: {some_of(opaque)}"


def _largest(snapshot: Snapshot) -> list[Row]:
    largest = sorted(snapshot.metadata.operators, key=lambda operator: -operator.state_size)[:_LARGEST]
    return [{"operator": o.uid or o.name or o.operator_id, "size_in_bytes": o.state_size} for o in largest if o.state_size]


def bytes_per_day(newest_first: Sequence[SnapshotInfo]) -> float | None:
    """Return the growth from the oldest to the newest snapshot; ``None`` without two snapshots of different times."""
    timed = [(info.time, info.size) for info in newest_first if info.time is not None]
    if len(timed) <= 1 or timed[0][0] <= timed[-1][0]:
        return None
    return (timed[0][1] - timed[-1][1]) / ((timed[0][0] - timed[-1][0]) / _DAY)
