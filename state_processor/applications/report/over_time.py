"""Sizes of the operators of a snapshot in earlier and later snapshots, and what grows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from typing import Any, Final, NamedTuple

import pyarrow as pa

from state_processor.backends.files.location import Location
from state_processor.backends.metadata.discovery import DEPTH, is_checkpoint_name
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.options.access import SnapshotAccess
from state_processor.read.growth import growth_of, state_label
from state_processor.read.history import history_of, series_of
from state_processor.read.snapshots import discovered
from state_processor.serializers.late import pc

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
    sizes = {o: points for o, points in sizes.items() if len(points) >= _FEWEST and any(point.size for point in points)}
    sizes = dict(sorted(sizes.items(), key=lambda item: -item[1][-1].size))
    return OverTime(str(directory), sizes, [row for row in rows if row["operator"] in sizes])


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
    operators = {operator.operator_id for operator in snapshot.metadata.operators}
    chosen = {operator: number for operator, number in (newest | of_snapshot).items() if operator in operators}
    paths = {
        (row["path"], row["operator_uid_hash"])
        for row, number in zip(rows, series, strict=True)
        if row["state_name"] is None and chosen.get(row["operator_uid_hash"]) == number
    }
    return ((row["path"], row["operator_uid_hash"]) in paths for row in rows)
