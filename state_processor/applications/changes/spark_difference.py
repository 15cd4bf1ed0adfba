"""Differences between two snapshots as DataFrames."""

from __future__ import annotations

from os import PathLike
from typing import Unpack

from pyspark.sql import DataFrame, SparkSession

from state_processor import OperatorIdentifier
from state_processor.applications.changes.differences import DifferencesReader, open_differences, snapshots_of
from state_processor.options import DiffSnapshotOptions, SnapshotAccess, TaskSerializers, takes_options
from state_processor.spark import rows_of_parts, spark_schema, with_settings_of_spark


@takes_options
def diff(
    spark: SparkSession,
    old: str | PathLike[str],
    new: str | PathLike[str],
    uid: str | OperatorIdentifier | None = None,
    state: str | None = None,
    full: bool = False,
    **options: Unpack[DiffSnapshotOptions],
) -> DataFrame:
    """Compare two snapshots: a row for each value that was inserted, deleted or updated.

    Entries are compared as bytes; only entries that differ are decoded. In RocksDB and ForSt, the comparison reads
    the files that only one snapshot has, and looks up the keys of these files in the other files. With TTL, times of last access
    are not compared.

    Parameters
    ----------
    spark
        The session that compares them.
    old, new
        Directories of savepoints or checkpoints.
    uid
        One operator; ``None`` for all.
    state
        One state of the operator; ``None`` for all, timers included.
    full
        Whether files that both snapshots have are compared, too. The result is the same.
    **options
        See :class:`~state_processor.options.groups.DiffSnapshotOptions`. They are about both snapshots. Without ``nanos``, dates
        and times are text if the type of the state can have nanoseconds.

    Returns
    -------
    DataFrame
        For one state ``change`` (``insert``, ``delete`` or ``update``), the columns that identify a value (``key``, ``window`` or
        ``namespace``, ``map_key``), ``before`` and ``after``: each value of a map is compared on its own, lists as a whole.
        Timers have ``timestamp``, ``fires_at``, ``domain`` and ``service`` instead of values. Without ``state`` also
        ``operator_uid``, ``operator_uid_hash`` and ``state_name``, and all values as JSON. A state that can't be read, or is of
        another kind or has other keys in the two snapshots, has one row: ``change`` is ``not compared``, ``after`` the reason.

    Raises
    ------
    NotFoundError
        Neither snapshot has the operator or the state.
    UnsupportedFormatError
        The named state can't be read, or is of another kind or has other keys in the two snapshots.
    OptionError
        A state is named without its operator.
    """
    for path in (old, new):
        access = with_settings_of_spark(spark, SnapshotAccess.among(options), path)
        options = {**options, "storage_options": access.storage_options}
    differences = open_differences((old, new), uid, state, options, full)
    reader = DifferencesReader(differences, as_text=state is None)
    serializers = TaskSerializers.of_driver(access.serializers)
    label = f"differences of {'all operators' if uid is None else uid}{'' if state is None else f'.{state}'}"
    snapshots = snapshots_of(differences)
    return rows_of_parts(spark, reader, snapshots, reader.parts(), spark_schema(reader.schema), serializers, label)
