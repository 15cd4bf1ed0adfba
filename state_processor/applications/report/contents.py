"""Content of a page about a snapshot: operators, states with sizes, skew, keys, timers, ages and restorability."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from os import PathLike
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor.applications.history.growth import growth_of, state_label
from state_processor.applications.history.history import history_of, series_of
from state_processor.applications.report.restoring import Restoring, Row, oldest_flink, previewed_migration, restored_by
from state_processor.command_line import TimeHistogram, count_times, progress
from state_processor.errors import StateProcessorError
from state_processor.options import ReadOptions, SnapshotAccess
from state_processor.snapshots import (
    DEPTH,
    METADATA_FILE,
    KeyGroupRange,
    Location,
    OperatorState,
    Snapshot,
    discovered,
    foreign_errors,
    is_checkpoint_name,
    uids_hint,
)
from state_processor.snapshots import operators as operators_table
from state_processor.snapshots import states as states_table
from state_processor.states import (
    DOMAIN,
    ENTRIES,
    KEYED_KIND,
    LAST_ACCESS,
    PLACES,
    SIZE_IN_BYTES,
    TIMER_KIND,
    TIMERS,
    TIMESTAMP,
    KeyedSizes,
    SizePart,
    SizeReport,
    StateReader,
    StoredOperator,
    in_order,
    largest,
    open_state,
    operator_label,
    parts_for,
    range_of_subtask,
    read_all,
    threads_for,
)
from state_processor.support import only_keys, pc, without_none

# Distribution of the bytes of an operator over its key groups and subtasks

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Distribution:
    """Bytes of parts of one kind, by the number of the part."""

    sizes: Numbers

    @property
    def total(self) -> int:
        """Bytes of all parts."""
        return int(self.sizes.sum())

    @property
    def largest(self) -> int:
        """The number of the largest part."""
        return int(self.sizes.argmax())

    @property
    def most(self) -> int:
        """Bytes of the largest part."""
        return int(self.sizes.max())

    @property
    def empty(self) -> int:
        """Number of parts without bytes."""
        return int((self.sizes == 0).sum())

    @property
    def skew(self) -> float:
        """The largest part as a multiple of the mean."""
        return self.multiple(self.largest)

    def multiple(self, part: int) -> float:
        """Return a part as a multiple of the mean; 0 if all parts are empty."""
        return float(self.sizes[part]) * len(self.sizes) / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class Places:
    """Bytes and entries of states by place, as columns of equal length."""

    subtasks: Numbers
    key_groups: Numbers
    sizes: Numbers
    entries: Numbers


@dataclass(frozen=True, slots=True)
class Subtasks:
    """The keyed state of the subtasks of an operator, by number of the subtask.

    ``sizes`` and ``entries``: bytes and entries.
    """

    sizes: Distribution
    entries: Numbers
    key_groups: Numbers  # number of key groups of each subtask, by Flink's ``KeyGroupRangeAssignment``
    filled: Numbers  # number of key groups with state

    @classmethod
    def of(cls, parallelism: int, max_parallelism: int, places: Places) -> Subtasks:
        """Sum sizes by place for an operator with a parallelism."""
        of_group = places.subtasks * max_parallelism + places.key_groups
        return cls(
            Distribution(summed(places.subtasks, places.sizes, parallelism)),
            summed(places.subtasks, places.entries, parallelism),
            np.array([len(range_of_subtask(i, parallelism, max_parallelism)) for i in range(parallelism)], dtype=np.int64),
            np.bincount(np.unique(of_group) // max_parallelism, minlength=parallelism).astype(np.int64),
        )


def summed(numbers: Numbers, values: Numbers, parts: int) -> Numbers:
    """Return the sums of values by the number of the part."""
    sums = np.zeros(parts, dtype=np.int64)
    np.add.at(sums, numbers, values)
    return sums


_MOST_BYTES: Final = 2 << 30


@dataclass(frozen=True, slots=True)
class LargestKeys:
    """The largest keys of an operator by the sizes of all keyed states and timers."""

    rows: list[dict[str, Any]]  # ``key``, ``entries``, ``size_in_bytes``, largest first
    compared: int  # number of key groups whose keys were compared: the largest key groups
    share: float  # share of the bytes in these key groups
    elsewhere: int  # bytes of the largest key group whose keys were not compared: an upper bound for its keys

    @classmethod
    def find(
        cls, snapshot: Snapshot, operator: OperatorState, groups: Distribution, top: int, most_bytes: int = _MOST_BYTES
    ) -> LargestKeys:
        """Find the largest keys.

        ``groups``: bytes of its key groups. ``top``: number of keys. ``most_bytes``: maximum number of bytes to read, but at
        least one key group. If the snapshot is larger, only keys of the largest key groups are compared.
        """
        sizes = KeyedSizes(StoredOperator(snapshot, operator))
        stored = sum(split.size for split in sizes.splits())
        chosen = _largest_groups(groups, stored, most_bytes)
        everything = len(chosen) == len(groups.sizes) - groups.empty
        plan = partial(sizes.splits_of_keys, among=None if everything else list(_ranges(chosen)))
        splits, watched = parts_for(plan, snapshot.threads), partial(progress, doing="comparing keys")
        threads = threads_for(splits, snapshot.threads)
        tables = in_order(lambda split: (sizes.largest_keys(split, top),), splits, threads, watched)
        measured = without_none(tables)
        rows = largest(pa.concat_tables(measured, promote_options="permissive"), top).to_pylist() if measured else []
        unread = np.delete(groups.sizes, chosen)
        compared = len(groups.sizes) if everything else len(chosen)
        return cls(rows, compared, float(groups.sizes[chosen].sum() / groups.total), int(unread.max(initial=0)))


def _largest_groups(groups: Distribution, stored: int, most_bytes: int) -> Numbers:
    """Return the numbers of the largest key groups up to ``most_bytes`` stored bytes, in ascending order."""
    order = np.argsort(-groups.sizes, kind="stable")[: len(groups.sizes) - groups.empty]
    read = np.cumsum(groups.sizes[order]) * (stored / groups.total)
    return np.sort(order[: max(1, int(np.searchsorted(read, most_bytes, side="right")))])


def _ranges(numbers: Numbers) -> Iterator[KeyGroupRange]:
    """Yield the ranges of consecutive numbers."""
    for _, run in groupby(enumerate(numbers.tolist()), key=lambda place: place[1] - place[0]):
        numbers_of_run = [number for _, number in run]
        yield KeyGroupRange(numbers_of_run[0], numbers_of_run[-1])


_FEWEST: Final = 2


class Point(NamedTuple):
    """The size of an operator in a snapshot."""

    time: datetime
    size: int
    checkpoint_id: int | None


@dataclass(frozen=True, slots=True)
class OverTime:
    """Sizes of operators in several snapshots."""

    directory: str
    sizes: dict[str, list[Point]]  # the sizes by operator, oldest first; the largest operator first. Each has at least two sizes.
    growth: list[dict[str, Any]]  # rows of :func:`state_processor.growth`, with ``operator`` and ``state``


def retained_beside(snapshot: Snapshot) -> str | None:
    """Return the directory with the other checkpoints of the job; ``None`` for a savepoint or a copied checkpoint."""
    directory = Location.parse(snapshot.directory)
    return str(directory.parent) if is_checkpoint_name(directory.name) else None


def over_time(snapshot: Snapshot, directory: str | PathLike[str], access: SnapshotAccess, depth: int = DEPTH) -> OverTime:
    """Measure the operators of a snapshot in the snapshots below a directory.

    Snapshots count that store an operator in the same way as this snapshot, or as the newest one if this snapshot is elsewhere.
    """
    infos = discovered(directory, depth, access).snapshots
    table = history_of(infos, access)
    table = table.filter(pc.is_valid(table.column("time")))
    table = table.filter(pa.array(list(_of_series(table, snapshot)), pa.bool_()))
    sizes: dict[str, list[Point]] = {}
    for row in table.to_pylist():
        if row["state_name"] is None:
            operator = row["operator_uid"] or row["operator_uid_hash"]
            sizes.setdefault(operator, []).append(Point(row["time"], row["size_in_bytes"], row["checkpoint_id"]))
    growth = growth_of(table, infos, access).to_pylist()
    rows = [row | {"operator": row["operator_uid"] or row["operator_uid_hash"]} for row in growth]
    rows = [row | {"state": state_label(row, rows)} for row in rows]
    shown_sizes = (item for item in sizes.items() if _is_shown(item[1]))
    sizes = dict(sorted(shown_sizes, key=lambda item: -item[1][-1].size))
    return OverTime(str(directory), sizes, [row for row in rows if row["operator"] in sizes])


def _is_shown(points: Sequence[Point]) -> bool:
    """Return whether there are enough points for a chart, and a size among them."""
    return len(points) >= _FEWEST and any(point.size for point in points)


def _of_series(table: pa.Table, snapshot: Snapshot) -> Iterator[bool]:
    """Yield for each row whether it belongs to the series of an operator of this snapshot."""
    rows = table.select(["path", "operator_uid_hash", "state_name"]).to_pylist()
    series = series_of(table).tolist()
    newest: dict[str, int] = {}
    of_snapshot: dict[str, int] = {}
    for row, number in zip(rows, series, strict=True):
        if row["state_name"] is None:
            newest[row["operator_uid_hash"]] = number
            if row["path"] == snapshot.directory:
                of_snapshot[row["operator_uid_hash"]] = number
    chosen = only_keys(newest | of_snapshot, snapshot.metadata.operators_by_id)
    paths = set()
    for row, number in zip(rows, series, strict=True):
        uid_hash = row["operator_uid_hash"]
        if row["state_name"] is None and chosen.get(uid_hash) == number:
            paths.add((row["path"], uid_hash))
    return ((row["path"], row["operator_uid_hash"]) in paths for row in rows)


KEYS: Final = 10
"""Number of the largest keys to show for each operator."""
_TIMES: Final = ReadOptions.of(nanos="string", metadata=True)

StateRef = tuple[str, str]
"""An operator, and one of its states or the domain of its timers."""


@dataclass
class SnapshotMeasures:
    """Measures of a snapshot.

    ``operators`` and ``states``: rows of the tables of metadata. Rows of states have ``entries`` and ``size_in_bytes`` if they
    were measured. ``key_groups`` and ``subtasks``: bytes by key group and by subtask, by operator.
    """

    path: str  # directory of the snapshot
    facts: Row  # snapshot-level facts by name
    operators: list[Row]
    states: list[Row]
    stored: datetime | None  # time of storing ``_metadata``; ``None`` if the storage does not record it
    reported: datetime  # time of the measurement
    unmatched_uids: tuple[str, ...] = ()  # uids from the user that don't match an operator
    key_groups: dict[str, Distribution] = field(default_factory=dict)
    subtasks: dict[str, Subtasks] = field(default_factory=dict)
    keys: dict[str, LargestKeys] = field(default_factory=dict)  # the largest keys, by operator
    timers: dict[StateRef, TimeHistogram] = field(default_factory=dict)  # firing times of timers, by operator and domain
    # times of the last access to values with time-to-live, by operator and state
    accesses: dict[StateRef, TimeHistogram] = field(default_factory=dict)
    # outcomes of a migration to Flink 2.x, if an older version wrote the snapshot
    migration: list[Row] = field(default_factory=list)
    restoring: list[Restoring] = field(default_factory=list)  # versions and backends that restore the snapshot
    problems: list[str] = field(default_factory=list)  # descriptions of unreadable parts
    over_time: OverTime | None = None  # sizes in other snapshots of the job
    uids_hint: str = ""  # how to name operators whose uids the snapshot does not record


def contents(
    path: str | PathLike[str],
    access: SnapshotAccess,
    *,
    values: bool = True,
    keys: int = KEYS,
    history: str | PathLike[str] | None = None,
) -> SnapshotMeasures:
    """Measure a snapshot.

    ``path``: directory of the snapshot. ``access``: options of opening it. ``values``: whether to read state; otherwise only
    ``_metadata`` and the headers of files are read. ``keys``: number of the largest keys to find for each operator. ``history``:
    a directory with further snapshots of the job. By default, other checkpoints of the job are used if the snapshot is a
    checkpoint and ``values`` are read.
    """
    snapshot = access.open(path)
    report = SnapshotMeasures(
        snapshot.directory,
        _facts(snapshot),
        operators_table(snapshot).to_pylist(),
        states_table(snapshot).to_pylist(),
        snapshot.storage.modified(str(Location.parse(snapshot.directory).joined(METADATA_FILE))),
        datetime.now(UTC),
        snapshot.unmatched_uids,
        uids_hint=uids_hint(snapshot),
    )
    kinds = {row["operator_uid_hash"]: row["operator_kind"] for row in report.states}
    for row in report.operators:
        row["operator_kind"] = row["operator_kind"] or kinds.get(row["operator_uid_hash"])
    for row in (*report.operators, *report.states):
        row["operator"] = row["operator_uid"] or row["operator_uid_hash"]
    if values:
        _measure(snapshot, report)
        if keys:
            _compare_keys(snapshot, report, keys)
        _read_times(snapshot, report)
        if snapshot.flink_major == 1:
            with _noting(report):
                uids = tuple(o.uid for o in snapshot.metadata.operators if o.uid)  # the others are already reported
                report.migration = previewed_migration(path, replace(access, uids=access.uids and uids))
    _compare_snapshots(snapshot, report, access, history, values)
    report.restoring += restored_by(snapshot, report.states, report.migration)
    return report


def _compare_snapshots(
    snapshot: Snapshot, report: SnapshotMeasures, access: SnapshotAccess, history: str | PathLike[str] | None, values: bool
) -> None:
    """Add the sizes in other snapshots."""
    if history is not None:
        report.over_time = over_time(snapshot, history, access)
        return
    retained_snapshots = retained_beside(snapshot) if values else None
    if retained_snapshots is not None:
        with _noting(report):
            report.over_time = over_time(snapshot, retained_snapshots, access, 1)


def _facts(snapshot: Snapshot) -> Row:
    metadata = snapshot.metadata
    properties = metadata.properties
    kind = None if properties is None else " ".join(filter(None, (properties.format, properties.kind))).lower()
    return {
        "kind": kind or "unknown",
        "checkpoint": str(metadata.checkpoint_id),
        "operators": len(metadata.operators),
        "size": sum(operator.state_size for operator in metadata.operators),
        "written by": f"Flink {snapshot.flink_major}.x",
        "version of _metadata": str(metadata.version),
        "oldest Flink": oldest_flink(snapshot),
    }


def _by_place(part: SizePart) -> Iterator[tuple[SizePart, pa.RecordBatch | StateProcessorError]]:
    """Yield a part with its sizes, or with the error of measuring it."""
    try:
        yield part, part.sizes.by_place(part.split)
    except StateProcessorError as problem:
        yield part, problem


def _measure(snapshot: Snapshot, report: SnapshotMeasures) -> None:
    """Add entries and bytes of states, key groups and subtasks, for completely readable operators."""
    by_operator: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    unread: set[str] = set()
    parts: Sequence[SizePart] = ()
    with _noting(report):
        parts = SizeReport.of(snapshot, None, "state", None, snapshot.threads).parts
    threads = threads_for(parts, snapshot.threads)
    for part, sizes in in_order(_by_place, parts, threads, partial(progress, doing="measuring")):
        if isinstance(sizes, pa.RecordBatch):
            by_operator[part.operator_uid_hash].append(sizes)
        elif part.operator_uid_hash not in unread:
            report.problems.append(str(sizes))
            unread.add(part.operator_uid_hash)
    for uid_hash in unread:
        by_operator.pop(uid_hash, None)
    operators = snapshot.metadata.operators_by_id
    for uid_hash, batches in by_operator.items():
        operator, places = operators[uid_hash], pa.Table.from_batches(batches, PLACES)
        sums = places.group_by("state_name").aggregate([(ENTRIES, "sum"), (SIZE_IN_BYTES, "sum")]).to_pylist()
        measured = {row["state_name"]: (row[f"{ENTRIES}_sum"], row[f"{SIZE_IN_BYTES}_sum"]) for row in sums}
        for state in report.states:
            if state["operator_uid_hash"] == uid_hash and state["state_name"] in measured:
                state[ENTRIES], state[SIZE_IN_BYTES] = measured[state["state_name"]]
        columns = Places(*(places.column(name).to_numpy() for name in ("subtask", "key_group", SIZE_IN_BYTES, ENTRIES)))
        groups = Distribution(summed(columns.key_groups, columns.sizes, operator.max_parallelism))
        label = operator.uid or uid_hash
        report.key_groups[label] = groups
        report.subtasks[label] = Subtasks.of(operator.parallelism, operator.max_parallelism, columns)


def _compare_keys(snapshot: Snapshot, report: SnapshotMeasures, keys: int) -> None:
    """Add the largest keys of operators with keyed state."""
    for operator in snapshot.metadata.operators:
        label = operator.label
        groups = report.key_groups.get(label)
        if groups is not None and groups.total:
            with _noting(report), foreign_errors(f"largest keys of {operator_label(operator)}"):
                report.keys[label] = LargestKeys.find(snapshot, operator, groups, keys)


def _read_times(snapshot: Snapshot, report: SnapshotMeasures) -> None:
    """Add the firing times of timers, and the times of the last access to values with time-to-live."""
    operators: dict[str, str] = {}
    lasting = []
    for row in report.states:
        if row["state_kind"] in TIMERS:
            operators[row["operator_uid_hash"]] = row["operator"]
        if row["ttl"] and row["state_name"] is not None:
            lasting.append(row)
    for uid_hash, operator in operators.items():
        with _noting(report):
            for domain, times in _times(_open(snapshot, uid_hash, None, TIMER_KIND), DOMAIN, TIMESTAMP, snapshot.threads).items():
                report.timers[operator, domain] = times
    for row in lasting:
        with _noting(report):
            reader = _open(snapshot, row["operator_uid_hash"], row["state_name"], KEYED_KIND)
            of_all = _times(reader, None, LAST_ACCESS, snapshot.threads).get("", TimeHistogram())
            report.accesses[row["operator"], row["state_name"]] = of_all


def _open(snapshot: Snapshot, uid_hash: str, state: str | None, kind: str) -> StateReader:
    return open_state(StoredOperator.find(snapshot, uid_hash=uid_hash), state, kind, _TIMES)


def _times(reader: StateReader, by: str | None, column: str, threads: int | None) -> Mapping[str, TimeHistogram]:
    """Return histograms of a column by the values of another column."""
    histograms: dict[str, TimeHistogram] = defaultdict(TimeHistogram)
    for batch in read_all(reader.splits, reader.read, threads, watched=partial(progress, doing="reading times")):
        count_times(batch, by, column, histograms)
    return histograms


@contextmanager
def _noting(report: SnapshotMeasures) -> Iterator[None]:
    """Record unreadable parts, and continue."""
    try:
        yield
    except StateProcessorError as problem:
        report.problems.append(str(problem))
