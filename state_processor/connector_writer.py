"""The part of a writer of savepoints that knows connectors: splits of sources, state of sinks."""

from __future__ import annotations

from typing import Self

from pyspark.sql import SparkSession

from state_processor.spark.dataframe_rows import GivenRows, rows_of
from state_processor.write.build import SavepointBuild, Uid
from state_processor.write.operator_state_changes import set_source_splits
from state_processor.write.sink_changes import set_sink_state


class ConnectorStateWriter:
    """Methods of :class:`~state_processor.SavepointWriter` for sources and sinks."""

    _build: SavepointBuild
    _spark: SparkSession

    def with_source_splits(self, uid: Uid, df: GivenRows, connector: str | None = None) -> Self:
        """Write the splits of a source: the positions of its readers, and the splits that its enumerator has left.

        The table replaces all splits. Flink distributes the splits of readers anew, which are in list state; the enumerator's
        state is derived from the table, so that no split is read twice.

        Parameters
        ----------
        uid
            The source operator.
        df
            A row per split, in the columns of :meth:`SavepointReader.read_source_splits`. A row without ``subtask`` is a split
            that no reader has; without a column ``subtask``, readers have all. ``assignment``, ``version`` and ``raw`` may be
            missing, and for Kafka ``split_id`` and ``stopping_offset``. It has to fit in the driver's memory.
        connector
            ``sequence``, ``kafka``, ``file`` or ``hybrid``; needed where it does not follow from the source savepoint. Changes
            to columns of the sources in a hybrid one go to ``wrapped``; its enumerator's state stays as it is in the source
            savepoint, so that rows of splits without a reader may be left out, but not changed.
        """
        with self._build.change(uid) as draft:
            set_source_splits(draft, rows_of(self._spark, df), connector)
        return self

    def with_sink_state(self, uid: Uid, df: GivenRows, connector: str | None = None, committer: Uid | None = None) -> Self:
        """Write the state of a sink: what its writers keep, and what its committers have left to commit.

        The table replaces the state that the source savepoint has of the sink. A committable without a row is not committed:
        the file stays invisible, and ``KafkaSink`` aborts the transaction, as its writers no longer name it either. The prefix
        of transactional ids can be changed, which transactions that are left to commit do not follow: they have their ids.

        Parameters
        ----------
        uid
            The sink.
        df
            Rows of :meth:`SavepointReader.read_sink_state`, changed or left out. Committables can't be added, nor files changed.
            It has to fit in the driver's memory.
        connector
            ``kafka``, ``file`` or ``raw``; by default the one that the bytes fit. The rows of ``raw`` can be left out only.
        committer
            The operator of the committers, where its uid is not ``Sink Committer:`` and the uid of the sink.
        """
        set_sink_state(self._build, uid, rows_of(self._spark, df), connector, committer)
        return self
