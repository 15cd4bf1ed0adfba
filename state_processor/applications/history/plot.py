"""A plot of sizes over time with matplotlib (``pip install 'state-processor[plots]'``)."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Final, Unpack

import numpy as np
import pyarrow as pa

from state_processor import OperatorIdentifier
from state_processor.applications.history.history import history, series_of
from state_processor.command_line import new_axes, show_dates, size_text
from state_processor.errors import NotFoundError
from state_processor.options import DirectoryOptions, takes_options
from state_processor.snapshots import DEPTH
from state_processor.support import pc

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        A directory of checkpoints, savepoints or jobs.
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
