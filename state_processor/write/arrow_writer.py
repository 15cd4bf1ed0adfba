"""Writing of savepoints without Spark, under Flink's names."""

from __future__ import annotations

from os import PathLike
from typing import Unpack

from state_processor.options.access import SnapshotAccess
from state_processor.options.groups import ChangedSavepointOptions, NewSavepointOptions
from state_processor.options.keywords import takes_options
from state_processor.write.build import DEFAULT_VERSION, SavepointBuild
from state_processor.write.plan.draft import DEFAULT_MAX_PARALLELISM
from state_processor.write.savepoint_methods import SavepointMethods
from state_processor.write.tasks.local_engine import LocalEngine


class SavepointWriter(SavepointMethods):
    """Writer of a savepoint without Spark (Flink: ``SavepointWriter``); made by :meth:`new` or :meth:`from_existing`.

    It has the methods of :class:`state_processor.SavepointWriter`, with the same checks, messages and results.

    Rows are objects with ``__arrow_c_stream__`` or ``__arrow_c_array__`` (tables and readers of pyarrow, data frames of Polars
    and pandas, results of DuckDB, rows of :func:`state_processor.arrow.read_state`), or lists of dictionaries.

    The tasks run in threads of this process. Readers and results of DuckDB are read batch by batch when the savepoint is written.
    Until all rows are encoded, encoded entries are stored in files in the directory of the new savepoint if it is local, or else
    in scratch space. Memory does not grow with the number of rows, except of rows with an element of a list each
    (``list_index``), timers, broadcast state, and rows that later rows replace.
    """

    def __init__(self, build: SavepointBuild) -> None:
        super().__init__(build, LocalEngine(build.scratch, build.access.threads))
        build.takes_arrow = True

    @classmethod
    @takes_options
    def new(
        cls,
        max_parallelism: int = DEFAULT_MAX_PARALLELISM,
        flink_version: str = DEFAULT_VERSION,
        **options: Unpack[NewSavepointOptions],
    ) -> SavepointWriter:
        """Start a savepoint without a source savepoint (Flink: ``newSavepoint``).

        Parameters
        ----------
        max_parallelism, flink_version, **options
            As for :meth:`state_processor.SavepointWriter.new`.
        """
        access = SnapshotAccess.among(options)
        return cls(SavepointBuild.new(max_parallelism, flink_version, access, options.get("scratch")))

    @classmethod
    @takes_options
    def from_existing(
        cls,
        path: str | PathLike[str],
        flink_version: str | None = None,
        **options: Unpack[ChangedSavepointOptions],
    ) -> SavepointWriter:
        """Start a savepoint as a copy of a savepoint or checkpoint (Flink: ``fromExistingSavepoint``).

        Parameters
        ----------
        path, flink_version, **options
            As for :meth:`state_processor.SavepointWriter.from_existing`.

        Raises
        ------
        NotASnapshotError, CorruptSnapshotError
            If the snapshot does not exist, or its ``_metadata`` is damaged.
        """
        access = SnapshotAccess.among(options)
        return cls(SavepointBuild.from_existing(path, flink_version, access, options.get("scratch")))
