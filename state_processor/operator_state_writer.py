"""The part of a writer of savepoints that knows operator state: lists, union lists, broadcast state."""

from __future__ import annotations

from typing import Self

from pyspark.sql import SparkSession

from state_processor.backends.state.descriptions import OPERATOR_LIST, UNION_LIST
from state_processor.serializers.base import TypeSerializer
from state_processor.spark.dataframe_rows import GivenRows, rows_of
from state_processor.write.build import SavepointBuild, Uid
from state_processor.write.operator_state_changes import add_broadcast_state, add_list_state


class OperatorStateWriter:
    """Methods of :class:`~state_processor.SavepointWriter` for operator state."""

    _build: SavepointBuild
    _spark: SparkSession

    def with_list_state(
        self, uid: Uid, name: str, df: GivenRows, type: TypeSerializer | None = None, parallelism: int | None = None
    ) -> Self:
        """Write a list of operator state, which is distributed over the subtasks (Flink: ``getListState``).

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
        with self._build.change(uid) as draft:
            add_list_state(draft, name, rows_of(self._spark, df), type, OPERATOR_LIST)
            draft.set_parallelism(parallelism)
        return self

    def with_union_state(
        self, uid: Uid, name: str, df: GivenRows, type: TypeSerializer | None = None, parallelism: int | None = None
    ) -> Self:
        """Write a list of operator state that every subtask gets as a whole (Flink: ``getUnionListState``).

        Parameters are those of :meth:`with_list_state`.
        """
        with self._build.change(uid) as draft:
            add_list_state(draft, name, rows_of(self._spark, df), type, UNION_LIST)
            draft.set_parallelism(parallelism)
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
        """Write broadcast state, of which every subtask has a copy; it has to fit in memory (Flink: ``getBroadcastState``).

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
        with self._build.change(uid) as draft:
            add_broadcast_state(draft, name, rows_of(self._spark, df), key_type, value_type, python=python)
            draft.set_parallelism(parallelism)
        return self
