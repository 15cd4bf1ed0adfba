"""Methods of a writer of savepoints for operator state: lists, broadcast state, splits of sources, state of sinks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

from state_processor.backends.state.descriptions import OPERATOR_LIST, UNION_LIST
from state_processor.backends.write.entry_encoder import VALUE
from state_processor.serializers.base import TypeSerializer
from state_processor.write.build import SavepointBuild, Uid
from state_processor.write.operator_state_changes import add_broadcast_state, add_list_state, set_sink_state, set_source_splits
from state_processor.write.rows.row_columns import NAMES
from state_processor.write.rows.row_protocol import GivenRows, Rows


class OperatorStateWriter(ABC):
    """Writer of operator state; :class:`~state_processor.write.state_writer.StateWriter` extends it."""

    def __init__(self, build: SavepointBuild) -> None:
        self._build = build

    def __repr__(self) -> str:
        lines = [f"{draft.identifier}: {draft.changes.summary}" for draft in self._build.drafts if draft.changes.summary]
        return "\n  ".join([f"{type(self).__name__}(max_parallelism={self._build.max_parallelism})", *lines])

    @abstractmethod
    def _rows(self, source: Any, *columns: str) -> Rows:
        """Return rows that a user gives, as the engine encodes them.

        Parameters
        ----------
        source
            The rows.
        columns
            Columns that they may have. Sessions of Spark that ignore case accept other spellings of these.
        """

    def with_list_state(
        self, uid: Uid, name: str, df: GivenRows, type: TypeSerializer | None = None, parallelism: int | None = None
    ) -> Self:
        """Write a list of operator state; Flink distributes it over the subtasks (Flink: ``getListState``).

        Each subtask gets a range of the elements, in the order of the rows; the sizes of the ranges differ by one at most. With
        fewer elements than subtasks, the first subtasks get one each.

        Parameters
        ----------
        uid, name
            The operator, and the state. A state of the source savepoint is replaced.
        df
            The elements: a column ``value``, or the only column.
        type
            The type of the elements; by default the one that the column's type suggests.
        parallelism
            As for :meth:`SavepointWriter.with_keyed_state`.
        """
        with self._build.change(uid, parallelism=parallelism) as draft:
            add_list_state(draft, name, self._rows(df, VALUE), type, OPERATOR_LIST)
        return self

    def with_union_state(
        self, uid: Uid, name: str, df: GivenRows, type: TypeSerializer | None = None, parallelism: int | None = None
    ) -> Self:
        """Write a list of operator state that every subtask gets as a whole (Flink: ``getUnionListState``).

        For parameters see :meth:`with_list_state`.
        """
        with self._build.change(uid, parallelism=parallelism) as draft:
            add_list_state(draft, name, self._rows(df, VALUE), type, UNION_LIST)
        return self

    def with_broadcast_state(
        self,
        uid: Uid,
        name: str,
        df: GivenRows,
        key_type: TypeSerializer | None = None,
        value_type: TypeSerializer | None = None,
        parallelism: int | None = None,
        *,
        python: bool | None = None,
    ) -> Self:
        """Write broadcast state: every subtask has a copy, and it has to fit in memory (Flink: ``getBroadcastState``).

        Parameters
        ----------
        uid, name
            The operator, and the state. A state of the source savepoint is replaced.
        df
            Columns ``key`` and ``value``; ``key_type`` and ``value_type`` are by default the types that these suggest.
        parallelism
            As for :meth:`SavepointWriter.with_keyed_state`.
        python
            Whether the job that restores the state is one of PyFlink; by default as the state in the source savepoint.
        """
        with self._build.change(uid, parallelism=parallelism) as draft:
            add_broadcast_state(draft, name, self._rows(df, *NAMES), key_type, value_type, python=python)
        return self

    def with_source_splits(self, uid: Uid, df: GivenRows, connector: str | None = None) -> Self:
        """Write the splits of a source: the positions of its readers, and the splits that its enumerator has left.

        The table replaces all splits. Flink distributes the splits of readers again, since they are in list state. The
        state of the enumerator follows from the table, so that no split is read twice.

        Parameters
        ----------
        uid
            The source operator.
        df
            A row per split, in the columns of :meth:`SavepointReader.read_source_splits`. A row without ``subtask`` is a split
            that no reader has; without a column ``subtask``, readers have all. ``assignment``, ``version`` and ``raw`` may be
            missing, and for Kafka ``split_id`` and ``stopping_offset``. It has to fit in the driver's memory.
        connector
            A source of :func:`state_processor.connectors.names`; needed where it does not follow from the source savepoint.
            Changes to columns of the sources in a hybrid one go to ``wrapped``; the state of its enumerator is copied from
            the source
            savepoint, so that rows of splits without a reader may be left out, but not changed.
        """
        with self._build.change(uid) as draft:
            set_source_splits(draft, self._rows(df), connector)
        return self

    def with_sink_state(self, uid: Uid, df: GivenRows, connector: str | None = None, committer: Uid | None = None) -> Self:
        """Write the state of a sink: the state of its writers, and the commits that its committers have left.

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
        set_sink_state(self._build, uid, self._rows(df), connector, committer)
        return self
