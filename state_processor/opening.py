"""One way into a snapshot, with Spark or without."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Unpack, overload

from state_processor.options.groups import SnapshotOptions
from state_processor.options.keywords import takes_options
from state_processor.support.late import requirement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from state_processor import reader
    from state_processor.read.snapshot_reader import SavepointReader as LocalReader


@overload
def open(path: str | PathLike[str], spark: None = None, **options: Unpack[SnapshotOptions]) -> LocalReader: ...


@overload
def open(path: str | PathLike[str], spark: SparkSession, **options: Unpack[SnapshotOptions]) -> reader.SavepointReader: ...


@takes_options
def open(
    path: str | PathLike[str], spark: SparkSession | None = None, **options: Unpack[SnapshotOptions]
) -> LocalReader | reader.SavepointReader:
    """Open a savepoint or checkpoint.

    Parameters
    ----------
    path
        Its directory, or the ``_metadata`` in it.
    spark
        The session that reads it: rows are then DataFrames of Spark. Without it, rows are read in this process, as Arrow.
    **options
        See :class:`~state_processor.options.groups.SnapshotOptions`.

    Returns
    -------
    state_processor.arrow.SavepointReader or state_processor.SavepointReader
        A reader. Both have the same methods.

    Raises
    ------
    NotASnapshotError
        If the path does not have a snapshot; the message names snapshots below it.
    CorruptSnapshotError
        If ``_metadata`` is damaged.

    Examples
    --------
    >>> import state_processor as sp
    >>> reader = sp.open("/savepoints/savepoint-1")  # doctest: +SKIP
    >>> reader.states()  # doctest: +SKIP
    """
    if spark is None:
        from state_processor.read.snapshot_reader import SavepointReader

        return SavepointReader.read(path, **options)
    with requirement("spark", "sp.open with a session and other uses of Spark", "pyspark", "py4j"):
        from state_processor.reader import SavepointReader as SparkReader

    return SparkReader.read(spark, path, **options)
