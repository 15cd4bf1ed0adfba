"""Which states grow, and which of them without a visible bound: a rule over the sizes of a state in several snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from os import PathLike
from typing import Any, Final, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from state_processor import SnapshotInfo
from state_processor.applications.history.history import HOUR, history_of, series_of
from state_processor.command_line import count_text, size_text
from state_processor.errors import OptionError, StateProcessorError
from state_processor.options import WHOLE_NUMBER, DirectoryOptions, SnapshotAccess, spelled, takes_options
from state_processor.snapshots import DEPTH, searched
from state_processor.snapshots import states as states_table

SNAPSHOTS: Final = 5
"""The fewest snapshots that show a trend."""
GROWS, SLOWS, SHRINKS, STEADY, VARIES, UNKNOWN = "grows", "slows down", "shrinks", "steady", "varies", "unknown"

GROWTH_SCHEMA: Final = pa.schema(
    [
        ("operator_uid", pa.string()),
        ("operator_uid_hash", pa.string()),
        ("state_name", pa.string()),
        ("job_id", pa.string()),
        ("stored_as", pa.string()),
        ("snapshots", pa.int64()),
        ("first_time", pa.timestamp("us", tz="UTC")),
        ("last_time", pa.timestamp("us", tz="UTC")),
        ("first_size", pa.int64()),
        ("last_size", pa.int64()),
        ("bytes_per_hour", pa.float64()),
        ("entries_estimate", pa.int64()),
        ("entries_per_hour", pa.float64()),
        ("has_ttl", pa.bool_()),
        ("key_groups", pa.int64()),
        ("grown_key_groups", pa.int64()),
        ("trend", pa.string()),
        ("grows_without_bound", pa.bool_()),
        ("evidence", pa.string()),
    ]
)
_TOLERANCE: Final = 0.1
"""Changes up to this share of a size may be the work of compactions."""
_SLOWEST: Final = 0.5
"""The least rate of the second half of the time, as a share of the rate of the first half, of a growth that goes on."""

_Row = dict[str, Any]


@takes_options
def growth(
    directory: str | PathLike[str], *, at_least: int = SNAPSHOTS, depth: int = DEPTH, **options: Unpack[DirectoryOptions]
) -> pa.Table:
    """Return the growth of each state over all snapshots below a directory, and which states grow without a visible bound.

    A state grows without bound if all of this is true:

    1. There are ``at_least`` snapshots with a known time in which it is stored in the same way.
    2. Its last size is more than 10 % above the first.
    3. No size is more than 10 % below an earlier size.
    4. In the second half of the time, it grows by at least half of the rate of the first half.
    5. It does not have time-to-live.

    The size of a state in RocksDB or ForSt is ``live_size_estimate`` of :func:`history`, because the size of tables rises between
    two compactions. Other operators have one row for all of their state. Take snapshots of a longer time than the largest window
    of the job: state of windows grows until the first window ends.

    Parameters
    ----------
    directory, depth, **options
        As for :func:`history`.
    at_least
        The fewest snapshots that show a trend, at least 3.

    Returns
    -------
    pyarrow.Table
        A row per state, fastest growth first: ``operator_uid``, ``operator_uid_hash``, ``state_name`` (null for all state of the
        operator without a row), ``job_id`` (null if the jobs followed one another), ``stored_as``, ``snapshots``, ``first_time``,
        ``last_time``, ``first_size``, ``last_size``, ``bytes_per_hour``, ``entries_estimate`` (of the last snapshot),
        ``entries_per_hour``, ``has_ttl``, ``key_groups``, ``grown_key_groups``, ``trend``, ``grows_without_bound`` and
        ``evidence``, a sentence. It names regional checkpoints, whose sizes are of several times.

        ``trend`` is ``grows`` (1 to 4), ``slows down`` (not 4), ``varies`` (not 3), ``shrinks`` (the last size is more than 10 %
        below the first), ``steady`` or ``unknown`` (not 1). ``has_ttl``, ``key_groups`` and ``grown_key_groups`` are null unless
        the trend is ``grows``. ``has_ttl`` is true if all keyed states of the row have time-to-live. ``key_groups`` is the number
        of key groups with this state in the last snapshot, and ``grown_key_groups`` the number of those that are larger than in
        the first: growth in few of them is growth of few keys.

    Raises
    ------
    OptionError
        If ``at_least`` is less than 3.
    NotASnapshotError, MissingFileError, CorruptSnapshotError
        As for :func:`history`.
    """
    if WHOLE_NUMBER.of_argument("at_least", at_least) < 3:
        raise OptionError(f"{spelled('at_least', at_least)}: expected at least 3, because two sizes do not show a trend")
    access = SnapshotAccess.of(**options)
    snapshots = searched(directory, depth, access).snapshots
    return growth_of(history_of(snapshots, access), snapshots, access, at_least)


def growth_of(table: pa.Table, snapshots: Iterable[SnapshotInfo], access: SnapshotAccess, at_least: int = SNAPSHOTS) -> pa.Table:
    """Return the growth of the states in a history by state, and of the snapshots in it; see :func:`growth`."""
    infos = {info.path: info for info in snapshots}
    ids = series_of(table)
    rows = []
    remainder = _without_states(table)
    for series in np.unique(ids).tolist():
        points = table.filter(pa.array(ids == series)).to_pylist()
        row = _described([remainder(point) for point in points if point["time"] is not None], at_least)
        if row is not None:
            rows.append(_explained(row, infos, access))
    rows.sort(key=lambda row: (not row["grows_without_bound"], -(row["bytes_per_hour"] or 0)))
    return pa.Table.from_pylist(rows, GROWTH_SCHEMA)


def _without_states(table: pa.Table) -> Any:
    """Return a function from a row of an operator to its size without the states that have rows."""
    listed: dict[tuple[str, str], int] = {}
    for row in table.to_pylist():
        if row["state_name"] is not None:
            place = row["path"], row["operator_uid_hash"]
            listed[place] = listed.get(place, 0) + row["size_in_bytes"]

    def remainder(row: _Row) -> _Row:
        measured = row["live_size_estimate"]
        if row["state_name"] is None:
            measured = row["size_in_bytes"] - listed.get((row["path"], row["operator_uid_hash"]), 0)
        return row | {"measured": measured}

    return remainder


def _described(points: Sequence[_Row], at_least: int) -> _Row | None:
    """Return the row of a series; ``None`` for a series without a time or without state."""
    if not points or not any(point["measured"] for point in points):
        return None
    first, last = points[0], points[-1]
    hours = np.array([(point["time"] - first["time"]).total_seconds() / HOUR for point in points])
    sizes = np.array([point["measured"] for point in points], dtype=np.float64)
    entries = [point["entries_estimate"] for point in points]
    span = hours[-1]
    has_entries = span > 0 and None not in entries
    jobs = {point["job_id"] for point in points}
    return {
        **{name: last[name] for name in ("operator_uid", "operator_uid_hash", "state_name", "stored_as")},
        "job_id": jobs.pop() if len(jobs) == 1 else None,
        "snapshots": len(points),
        "first_time": first["time"],
        "last_time": last["time"],
        "first_size": first["measured"],
        "last_size": last["measured"],
        "bytes_per_hour": (sizes[-1] - sizes[0]) / span if span > 0 else None,
        "entries_estimate": entries[-1],
        "entries_per_hour": (entries[-1] - entries[0]) / span if has_entries else None,
        "trend": trend(hours, sizes) if len(points) >= at_least and span > 0 else UNKNOWN,
        "paths": (first["path"], last["path"]),
        "mixed": [point["checkpoint_id"] for point in points if point["reference_checkpoint_id"] is not None],
    }


def trend(times: npt.NDArray[np.float64], sizes: npt.NDArray[np.float64]) -> str:
    """Return the trend of sizes; see :func:`growth`.

    ``times``: ascending times, in any unit. ``sizes``: the sizes at these times.
    """
    first, last = sizes[0], sizes[-1]
    if (sizes < (1 - _TOLERANCE) * np.maximum.accumulate(sizes)).any():
        return SHRINKS if last < (1 - _TOLERANCE) * first else VARIES
    if last <= (1 + _TOLERANCE) * first:
        return STEADY
    half = (times[0] + times[-1]) / 2
    middle = float(np.interp(half, times, sizes))
    return GROWS if last - middle >= _SLOWEST * (middle - first) else SLOWS


def _explained(row: _Row, infos: Mapping[str, SnapshotInfo], access: SnapshotAccess) -> _Row:
    """Add time-to-live, key groups and the sentence of evidence; for growth, from the first and the last snapshot."""
    first, last = row.pop("paths")
    if row["trend"] == GROWS:
        row["has_ttl"] = _has_ttl(last, row, access)
        row |= _key_groups(infos[first], infos[last], row, access)
    row["grows_without_bound"] = row["trend"] == GROWS and not row["has_ttl"]
    return row | {"evidence": ", ".join(_sentence(row))}


def _has_ttl(path: str, row: _Row, access: SnapshotAccess) -> bool | None:
    """Return whether all keyed states of a row have time-to-live; ``None`` if that is unknown."""
    snapshot = access.open(path)
    operators = tuple(o for o in snapshot.metadata.operators if o.operator_id == row["operator_uid_hash"])
    alone = replace(snapshot, metadata=replace(snapshot.metadata, operators=operators))
    try:
        states = states_table(alone).to_pylist()
    except StateProcessorError:
        return None
    keyed = [state for state in states if state["key_type"] is not None and row["state_name"] in (None, state["state_name"])]
    return all(state["ttl"] for state in keyed) if keyed else None


def _key_groups(first: SnapshotInfo, last: SnapshotInfo, row: _Row, access: SnapshotAccess) -> _Row:
    """Return the number of key groups with state in the last snapshot, and of those that are larger than in the first."""
    table = history_of([first, last], access, "key_group")
    place = row["operator_uid_hash"], row["state_name"]
    sizes: list[dict[int, int]] = [{}, {}]
    for group in table.to_pylist():
        if (group["operator_uid_hash"], group["state_name"]) == place:
            sizes[group["path"] == last.path][group["key_group"]] = group["size_in_bytes"]
    before, after = sizes
    return {
        "key_groups": len(after) or None,
        "grown_key_groups": sum(size > before.get(group, 0) for group, size in after.items()) if after else None,
    }


def _sentence(row: _Row) -> Iterator[str]:
    """Yield the parts of the evidence."""
    span = row["last_time"] - row["first_time"]
    sizes = f"{size_text(row['first_size'])} to {size_text(row['last_size'])}"
    rate = "" if row["bytes_per_hour"] is None else f" ({rate_text(row['bytes_per_hour'])})"
    yield f"{sizes} in {_snapshots(row['snapshots'])} over {_span_text(span)}{rate}"
    if row.get("has_ttl") is not None:
        yield "with time-to-live" if row["has_ttl"] else "without time-to-live"
    if row.get("key_groups"):
        yield f"larger in {count_text(row['grown_key_groups'])} of {count_text(row['key_groups'])} key groups"
    for number in row["mixed"]:
        yield f"checkpoint {number} mixes several times"


def _snapshots(number: int) -> str:
    return "1 snapshot" if number == 1 else f"{count_text(number)} snapshots"


def _span_text(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    for name, unit in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.1f}".removesuffix(".0") + f" {name}"
    return f"{seconds} s"


def state_label(row: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the name of the state of a row, or what the row without a name is about."""
    if row["state_name"] is not None:
        return str(row["state_name"])
    place = row["operator_uid_hash"], row["stored_as"]
    has_others = any((r["operator_uid_hash"], r["stored_as"]) == place and r["state_name"] is not None for r in rows)
    return "(other state)" if has_others else "(all state)"


def rate_text(bytes_per_hour: float) -> str:
    """Return a rate with its sign: ``+11.7 KiB per hour``."""
    return f"{'-' if bytes_per_hour < 0 else '+'}{size_text(round(abs(bytes_per_hour)))} per hour"
