"""Everything of a snapshot as temporary views of Spark."""

from __future__ import annotations

from logging import getLogger
from os import PathLike
from typing import Final, Unpack

from pyspark.sql import DataFrame, SparkSession

from state_processor import SavepointReader
from state_processor.applications.sql.views import View, free_name, views_of
from state_processor.errors import StateProcessorError
from state_processor.options import SnapshotOptions, takes_options
from state_processor.states import Nanos

_LOG: Final = getLogger("state_processor")


@takes_options
def create_views(
    spark: SparkSession, path: str | PathLike[str], *, nanos: Nanos = "check", **options: Unpack[SnapshotOptions]
) -> list[str]:
    """Make temporary views of everything in a snapshot; views with the same names are replaced.

    They are the views of :func:`state_processor.duckdb.connect`. Temporary views don't have schemas: a view of a state has both
    names, ``orders_total``, and the timers are ``orders_timers``.

    Parameters
    ----------
    spark
        The session.
    path, nanos, **options
        As for :func:`state_processor.duckdb.connect`.

    Returns
    -------
    list of str
        The names of the views, as SQL has them: in backquotes where they are not plain words. The log names states that can't be
        read.

    Raises
    ------
    NotASnapshotError, CorruptSnapshotError, MissingFileError
        As for :func:`state_processor.arrow.read_state`.
    """
    reader = SavepointReader.read(spark, path, **options)
    names: list[str] = []
    used: set[str] = set()
    for view in views_of(reader._snapshot, {"nanos": nanos, **options}):
        plain = free_name(view.name if view.schema is None else f"{view.schema}_{view.name}", used)
        name = plain if plain.isidentifier() and plain.isascii() else f"`{plain.replace('`', '``')}`"
        try:
            _rows(reader, view, nanos).createOrReplaceTempView(name)
        except StateProcessorError as reason:
            _LOG.warning("the view %s can't be read: %s", name, reason)
        else:
            names.append(name)
    return names


def _rows(reader: SavepointReader, view: View, nanos: Nanos) -> DataFrame:
    if view.operator is None:
        return reader._table(view.name)
    return reader._read(view.operator, view.state, view.kind, None, {"nanos": nanos})
