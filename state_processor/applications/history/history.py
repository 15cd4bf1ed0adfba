"""Sizes and numbers of entries of states over all snapshots below a directory, and their plot. No entry is decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor import OperatorIdentifier, SnapshotInfo
from state_processor.command_line import new_axes, show_dates, size_text
from state_processor.errors import MissingFileError, NotASnapshotError, NotFoundError
from state_processor.options import DirectoryOptions, SnapshotAccess, checked_choice, takes_options
from state_processor.snapshots import (
    DEPTH,
    JOB_DIGITS,
    METADATA_FILE,
    Location,
    OperatorState,
    Snapshot,
    StoredSizes,
    searched,
    stored_as,
)
from state_processor.support import attributes, pc

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HistoryBy = Literal["state", "key_group"]

_STATE: Final = [
    pa.field("path", pa.string()),
    pa.field("job_id", pa.string()),
    pa.field("checkpoint_id", pa.int64()),
    pa.field("time", pa.timestamp("us", tz="UTC")),
    pa.field("operator_uid", pa.string()),
    pa.field("operator_uid_hash", pa.string()),
    pa.field("state_name", pa.string()),
    pa.field("reference_checkpoint_id", pa.int64()),
]
_SIZES: Final = [
    pa.field("stored_as", pa.string()),
    pa.field("size_in_bytes", pa.int64()),
    pa.field("entries_estimate", pa.int64()),
]
_RATE: Final = pa.field("bytes_per_hour", pa.float64())
HISTORY_SCHEMA: Final = pa.schema([*_STATE, *_SIZES, pa.field("live_size_estimate", pa.int64()), _RATE])
KEY_GROUP_HISTORY_SCHEMA: Final = pa.schema(
    [*_STATE, pa.field("max_parallelism", pa.int32()), pa.field("key_group", pa.int32()), *_SIZES, _RATE]
)
HOUR: Final = 3600
_SERIES: Final = ("operator_uid_hash", "state_name", "stored_as")


@takes_options
def history(
    directory: str | PathLike[str], *, by: HistoryBy = "state", depth: int = DEPTH, **options: Unpack[DirectoryOptions]
) -> pa.Table:
    """Return the sizes of operators, states or key groups in all snapshots below a directory, oldest snapshot first.

    Sizes are sizes of files in bytes. The size of an operator is the size of its handles in ``_metadata``. The size of a state in
    RocksDB or ForSt is the size of its tables. Tables contain old values and deletions until RocksDB compacts them. Snapshots
    that can't be read are left out.

    Parameters
    ----------
    directory
        A directory of savepoints, checkpoints or jobs: a path or URL.
    by
        ``state``: a row per operator of each snapshot, with null in ``state_name``, and a row per state in RocksDB and ForSt.
        ``key_group``: a row per key group with keyed state, with null in ``state_name``, and a row per key group and state in
        RocksDB and ForSt.
    depth
        Number of levels below the directory to search. The log names deeper directories.
    **options
        See :class:`~state_processor.options.groups.DirectoryOptions`.

    Returns
    -------
    pyarrow.Table
        ``path``, ``job_id``, ``checkpoint_id``, ``time``, ``operator_uid``, ``operator_uid_hash``, ``state_name``,
        ``reference_checkpoint_id``, ``max_parallelism`` and ``key_group`` (by key group), ``stored_as``, ``size_in_bytes``,
        ``entries_estimate``, ``live_size_estimate`` (by state) and ``bytes_per_hour``.

        ``stored_as`` names the files of keyed state: ``tables`` of RocksDB or ForSt, ``key groups`` (heap), ``canonical``,
        ``changelog``, or ``operator state`` without keyed state. The two estimates are RocksDB's, and null for other states.
        ``entries_estimate`` is the number of entries of all tables minus twice their deletions; a key counts once for each table
        that contains it. ``live_size_estimate`` is the size after a compaction; for an operator, other state is included.

        Sizes of key groups are exact in heap and canonical files. Tables are divided by their blocks: a block with several key
        groups counts for them in equal parts. Changes in changelogs have no key group, and are left out.

        ``reference_checkpoint_id`` is the earliest checkpoint that subtasks of the operator have their state from, since their
        region failed: the checkpoint mixes several times.

        ``bytes_per_hour`` is the growth since the previous snapshot with the same operator, state, key group and ``stored_as``;
        null for the first one. If jobs with the same operator ran at the same time, each is compared with itself.

    Raises
    ------
    NotASnapshotError
        If the directory does not exist.
    OptionError
        If ``by`` has another value.
    MissingFileError, CorruptSnapshotError
        If a file of a store is missing or damaged.
    """
    by = checked_choice("by", by, get_args(HistoryBy))
    access = SnapshotAccess.of(**options)
    return history_of(searched(directory, depth, access).snapshots, access, by)


def history_of(snapshots: Iterable[SnapshotInfo], access: SnapshotAccess, by: HistoryBy = "state") -> pa.Table:
    """Return the sizes in some snapshots; see :func:`history`."""
    measured = StoredSizes()
    schema = HISTORY_SCHEMA if by == "state" else KEY_GROUP_HISTORY_SCHEMA
    tables = [schema.empty_table()]
    for info in sorted((s for s in snapshots if s.is_complete is not False), key=_oldest_first):
        facts = {}
        for name, fact in attributes(info, ("path", "job_id", "checkpoint_id", "time")).items():
            facts[name] = pa.scalar(fact, schema.field(name).type)
        for part in _parts(info, access, measured, by):
            columns = [pa.repeat(facts[f.name], part.rows) if f.name in facts else part.column(f) for f in schema]
            tables.append(pa.Table.from_arrays(columns, schema=schema))
    table = pa.concat_tables(tables).combine_chunks()
    return table.set_column(table.num_columns - 1, _RATE, _rates(table, by == "key_group"))


def _oldest_first(info: SnapshotInfo) -> tuple[float, int, str]:
    return info.time.timestamp() if info.time is not None else 0.0, info.checkpoint_id or 0, info.path


@dataclass(frozen=True, slots=True)
class _Part:
    """Some rows: values that differ by row, and values that all rows have."""

    rows: int
    columns: dict[str, npt.NDArray[np.int64]]
    common: dict[str, Any]

    def column(self, field: pa.Field) -> pa.Array:
        """Return one column; nulls if it is unknown."""
        if field.name in self.columns:
            return pa.array(self.columns[field.name], field.type)
        return pa.repeat(pa.scalar(self.common.get(field.name), field.type), self.rows)


def _parts(info: SnapshotInfo, access: SnapshotAccess, measured: StoredSizes, by: HistoryBy) -> list[_Part]:
    """Return the rows of a snapshot; none if a running job has removed it meanwhile."""
    try:
        snapshot = access.open(info.path)
        return list(_by_state(snapshot, measured) if by == "state" else _by_key_group(snapshot, measured))
    except (MissingFileError, NotASnapshotError):
        if access.storage().is_file(str(Location.parse(info.path).joined(METADATA_FILE))):
            raise
        return []


def _about(operator: OperatorState) -> dict[str, Any]:
    return {
        "operator_uid": operator.uid,
        "operator_uid_hash": operator.operator_id,
        "reference_checkpoint_id": min(operator.reference_checkpoints, default=None),
        "stored_as": stored_as(operator),
    }


def _by_state(snapshot: Snapshot, measured: StoredSizes) -> Iterator[_Part]:
    for operator in snapshot.metadata.operators:
        facts = _about(operator)
        states = measured.of_states(snapshot, operator)
        saved = sum(sizes.size - sizes.live_size for sizes in states.values())
        live = {"live_size_estimate": operator.state_size - saved} if states else {}
        yield _Part(1, {}, facts | {"size_in_bytes": operator.state_size} | live)
        for name, sizes in states.items():
            row = {"size_in_bytes": sizes.size, "entries_estimate": sizes.entries, "live_size_estimate": sizes.live_size}
            yield _Part(1, {}, facts | {"state_name": name} | row)


def _by_key_group(snapshot: Snapshot, measured: StoredSizes) -> Iterator[_Part]:
    for operator in snapshot.metadata.operators:
        facts = _about(operator)
        for name, (sizes, entries) in measured.by_key_group(snapshot, operator).items():
            filled = np.flatnonzero(sizes)
            columns = {"key_group": filled, "size_in_bytes": _rounded(sizes)[filled]}
            if entries is not None:
                columns["entries_estimate"] = _rounded(entries)[filled]
            yield _Part(len(filled), columns, facts | {"state_name": name, "max_parallelism": operator.max_parallelism})


def _rounded(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Round numbers so that their sum stays."""
    sums: npt.NDArray[np.int64] = np.rint(np.cumsum(shares)).astype(np.int64)
    sums[1:] -= sums[:-1].copy()
    return sums


def series_of(table: pa.Table, columns: Iterable[str] = ()) -> npt.NDArray[np.int64]:
    """Return the number of each row's series in a history: rows with the same operator, state, ``stored_as`` and further columns.

    Jobs follow one another in a series, since a job that was restored has a new id. If jobs with the same operator ran at the
    same time, each has its own series.
    """
    codes = [_codes(table.column(name)) for name in (*_SERIES, *columns)]
    jobs = _codes(pc.utf8_slice_codeunits(table.column("job_id"), 0, JOB_DIGITS))
    together = _at_the_same_time(codes[0], jobs, _micros(table))
    codes.append(np.where(together[codes[0]] if len(together) else False, jobs, 0))
    series = np.zeros(table.num_rows, dtype=np.int64)
    for code in codes:
        series = np.unique(series * (int(code.max(initial=0)) + 1) + code, return_inverse=True)[1]
    return series


def _codes(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return a number for each value of a column, nulls included."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices, dtype=np.int64)


def _micros(table: pa.Table) -> npt.NDArray[np.int64]:
    """Return the times of a history in microseconds since 1970; -1 where they are unknown."""
    return np.asarray(table.column("time").combine_chunks().cast(pa.int64()).fill_null(-1), dtype=np.int64)


def _at_the_same_time(
    operators: npt.NDArray[np.int64], jobs: npt.NDArray[np.int64], micros: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return for each operator whether the times of two of its jobs overlap."""
    together = np.zeros(int(operators.max(initial=-1)) + 1, dtype=bool)
    timed_rows = np.flatnonzero(micros >= 0)
    if not len(timed_rows):
        return together
    rows = timed_rows[np.lexsort((micros[timed_rows], jobs[timed_rows], operators[timed_rows]))]
    is_first = np.any(np.diff([operators[rows], jobs[rows]], prepend=-1), axis=0)
    starts = np.flatnonzero(is_first)  # of the rows of a job of an operator
    owners, begins, ends = operators[rows[starts]], micros[rows[starts]], micros[rows[np.append(starts[1:], len(rows)) - 1]]
    order = np.lexsort((ends, begins, owners))
    owners, begins, ends = owners[order], begins[order], ends[order]
    overlap = (owners[1:] == owners[:-1]) & (begins[1:] < ends[:-1])
    together[owners[1:][overlap]] = True
    return together


def _rates(table: pa.Table, by_key_group: bool) -> pa.Array:
    """Return the growth of each row since the previous row of its series, in bytes per hour."""
    series, micros = series_of(table, ["max_parallelism", "key_group"] if by_key_group else ()), _micros(table)
    sizes = np.asarray(table.column("size_in_bytes"), dtype=np.float64)
    order = np.lexsort((np.arange(len(series)), micros, series))
    order = order[micros[order] >= 0]
    rates = np.full(len(series), np.nan)
    earlier, later = order[:-1], order[1:]
    related = (series[earlier] == series[later]) & (micros[earlier] < micros[later])
    earlier, later = earlier[related], later[related]
    rates[later] = (sizes[later] - sizes[earlier]) * (HOUR * 1e6) / (micros[later] - micros[earlier])
    return pa.array(rates, mask=np.isnan(rates))


# The plot, with matplotlib (``pip install 'state-processor[plots]'``)

_MICROS_PER_DAY: Final = 24 * 60 * 60 * 1_000_000


@takes_options
def plot_history(
    directory: str | PathLike[str],
    uid: str | OperatorIdentifier | None = None,
    *,
    depth: int = DEPTH,
    **options: Unpack[DirectoryOptions],
) -> Axes:
    """Plot the sizes of operators, or of an operator's states, in all snapshots below a directory over time, in UTC.

    A line connects sizes that can be compared; see :func:`history`.

    Parameters
    ----------
    directory
        A directory of savepoints, checkpoints or jobs: a path or URL.
    uid
        An operator: one line for all of its state, and one for each state in RocksDB or ForSt. ``None``: one line per operator.
    depth
        Number of levels below the directory to search.
    **options
        See :class:`~state_processor.options.groups.DirectoryOptions`.

    Returns
    -------
    matplotlib.axes.Axes
        The axes, to be changed or saved.

    Raises
    ------
    NotFoundError
        If no snapshot has the operator.
    NotASnapshotError
        If the directory does not exist.
    OptionError
        If matplotlib is not installed.
    MissingFileError, CorruptSnapshotError
        If a file of a store is missing or damaged.
    """
    axes = new_axes()  # a missing package is an error before files are read
    table = history(directory, depth=depth, **options)
    if uid is None:
        table = table.filter(pc.is_null(table.column("state_name")))
    else:
        table = _of_operator(table, OperatorIdentifier.of(uid))
    table = table.filter(pc.is_valid(table.column("time")))
    series = series_of(table)
    for number in np.unique(series).tolist():
        points = table.filter(pa.array(series == number))
        times = np.asarray(points.column("time").cast(pa.int64())) / _MICROS_PER_DAY
        axes.plot(times, np.asarray(points.column("size_in_bytes")), marker="o", label=_name(points.slice(0, 1).to_pylist()[0]))
    show_dates(axes)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda size, _: size_text(int(size)))
    axes.set_title(f"Size of {'operators' if uid is None else uid} (UTC)")
    if table.num_rows:
        axes.legend()
    return axes


def _of_operator(table: pa.Table, operator: OperatorIdentifier) -> pa.Table:
    rows = table.filter(pc.equal(table.column("operator_uid_hash"), operator.uid_hash))
    if not rows.num_rows:
        names = {row["operator_uid"] or row["operator_uid_hash"] for row in table.to_pylist()}
        raise NotFoundError.naming_nearest("operator", str(operator), sorted(names))
    return rows


def _name(row: dict[str, str]) -> str:
    operator = row["operator_uid"] or row["operator_uid_hash"]
    return f"{row['state_name'] or operator} ({row['stored_as']})"
