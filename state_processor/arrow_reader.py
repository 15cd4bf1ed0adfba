"""A snapshot as Arrow, under Flink's names, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, Unpack

import pyarrow as pa

from state_processor.backends.read.option import Kind
from state_processor.backends.read.raw_state import RAW_KEYED
from state_processor.backends.read.state_access import KEYED_KIND, TIMER_KIND, StatesToRead
from state_processor.backends.state.descriptions import BROADCAST, OPERATOR_LIST, UNION_LIST
from state_processor.options.access import SnapshotAccess
from state_processor.options.groups import KeyedStateOptions, OperatorStateOptions, SnapshotOptions, TimerOptions
from state_processor.options.keywords import takes_options
from state_processor.read.read_types import rows_of
from state_processor.read.rows import Rows
from state_processor.read.scans import ArrowSchema, StateRequest
from state_processor.read.snapshot_reader import SnapshotReader
from state_processor.support.doors import current_door, read_with
from state_processor.support.errors import NotFoundError
from state_processor.types.identifier import OperatorIdentifier

if TYPE_CHECKING:
    from state_processor.read.sizes import SizesBy

Uid = str | OperatorIdentifier


class SavepointReader(SnapshotReader):
    """A savepoint or checkpoint to read without Spark; made by :func:`state_processor.open` or :meth:`read`.

    It has the methods of :class:`state_processor.SavepointReader`. Tables of metadata are tables of Arrow, rows of states are
    :class:`~state_processor.arrow.Rows`.

    Examples
    --------
    >>> import state_processor as sp
    >>> reader = sp.open("/savepoints/savepoint-1")  # doctest: +SKIP
    >>> reader.read_keyed_state("orders", "total").read_all()  # doctest: +SKIP
    """

    @classmethod
    @takes_options
    def read(cls, path: str | PathLike[str], **options: Unpack[SnapshotOptions]) -> Self:
        """Open a snapshot.

        Parameters
        ----------
        path
            Its directory, or the ``_metadata`` in it.
        **options
            See :class:`~state_processor.options.groups.SnapshotOptions`.

        Raises
        ------
        NotASnapshotError
            If the path does not have a snapshot; the message names snapshots below it.
        CorruptSnapshotError
            ``_metadata`` is damaged.
        """
        access = SnapshotAccess.of(**options)
        return cls(access.open(path), access)

    def operators(self) -> pa.Table:
        """Return one row per operator, with parallelism and sizes: the columns of Flink's ``savepoint_metadata``."""
        from state_processor.backends.read.catalog import operators

        return operators(self._snapshot)

    def states(self) -> pa.Table:
        """Return one row per state of every operator: kind, types, whether it has TTL, and the schema of a read."""
        from state_processor.backends.read.catalog import states

        return states(self._snapshot, advise=True)

    def handles(self) -> pa.Table:
        """Return one row per file, part of a file, or piece inside ``_metadata`` that the snapshot consists of."""
        from state_processor.backends.read.catalog import handles

        return handles(self._snapshot)

    @takes_options
    def read_keyed_state(
        self, uid: Uid, state: str | None = None, *, schema: ArrowSchema | None = None, **options: Unpack[KeyedStateOptions]
    ) -> Rows:
        """Read a keyed state, or all of an operator (Flink: ``readKeyedState``).

        Parameters
        ----------
        uid
            The operator: its uid, or an :class:`~state_processor.OperatorIdentifier`.
        state
            Name of the state. ``None`` reads all keyed states side by side: one row per key, one column per state. These columns
            are not flattened.
        schema
            See :func:`state_processor.arrow.read_state`, which lists the errors, too.
        **options
            See :class:`~state_processor.options.groups.KeyedStateOptions`.
        """
        return self._rows(uid, state, KEYED_KIND if state is not None else None, schema, options)

    @takes_options
    def read_window_state(
        self,
        uid: Uid,
        state: str = "window-contents",
        *,
        schema: ArrowSchema | None = None,
        **options: Unpack[KeyedStateOptions],
    ) -> Rows:
        """Read the state of a window operator (Flink: ``window(…)``): as keyed state, with ``window`` after ``key``.

        For parameters and errors see :meth:`read_keyed_state`. The contents of windows are in the state ``window-contents``.
        """
        stored = StateRequest(OperatorIdentifier.of(uid)).find(self._snapshot)
        if StatesToRead.find(stored, state, KEYED_KIND).kind is Kind.KEYED:
            raise NotFoundError(f"state {state!r} of {stored.label} is not in windows; read it with {read_with('KEYED')}")
        return self._rows(uid, state, KEYED_KIND, schema, options)

    @takes_options
    def read_timers(self, uid: Uid, *, schema: ArrowSchema | None = None, **options: Unpack[TimerOptions]) -> Rows:
        """Read timers: ``key``, ``window`` or ``namespace``, ``timestamp``, ``fires_at``, ``domain``, ``service``.

        For parameters and errors see :func:`state_processor.arrow.read_timers`.
        """
        return self._rows(uid, None, TIMER_KIND, schema, options)

    @takes_options
    def read_list_state(
        self, uid: Uid, name: str, *, schema: ArrowSchema | None = None, **options: Unpack[OperatorStateOptions]
    ) -> Rows:
        """Read an operator list state: one row ``value`` per element, from all subtasks (Flink: ``readListState``).

        For parameters and errors see :meth:`read_keyed_state`.
        """
        return self._rows(uid, name, OPERATOR_LIST, schema, options)

    @takes_options
    def read_union_state(
        self, uid: Uid, name: str, *, schema: ArrowSchema | None = None, **options: Unpack[OperatorStateOptions]
    ) -> Rows:
        """Read a union list state: one row ``value`` per element, from all subtasks (Flink: ``readUnionState``).

        For parameters and errors see :meth:`read_keyed_state`.
        """
        return self._rows(uid, name, UNION_LIST, schema, options)

    @takes_options
    def read_broadcast_state(
        self, uid: Uid, name: str, *, schema: ArrowSchema | None = None, **options: Unpack[OperatorStateOptions]
    ) -> Rows:
        """Read a broadcast state: ``key``, ``value``, once (Flink: ``readBroadcastState``).

        Every subtask has a copy; copies that differ are an error. For parameters and errors see :meth:`read_keyed_state`.
        """
        return self._rows(uid, name, BROADCAST, schema, options)

    def read_raw_state(self, uid: Uid, kind: str = RAW_KEYED) -> Rows:
        """Read raw state as bytes; for parameters and errors see :func:`state_processor.arrow.read_raw_state`."""
        return self._rows(uid, None, kind, None, {})

    def read_source_splits(self, uid: Uid, connector: str | None = None) -> pa.Table:
        """Read the splits of a source: the splits of its readers, and the splits that its enumerator still has.

        For parameters, columns and errors see :func:`state_processor.arrow.read_source_splits`.
        """
        from state_processor.backends.connectors.source_splits import read_source_splits

        return read_source_splits(self._snapshot, self._operator(uid), connector)

    def read_sink_state(self, uid: Uid, connector: str | None = None, committer: Uid | None = None) -> pa.Table:
        """Read the state of a sink: the state of its writers, and the commits that its committers have left.

        For parameters, columns and errors see :func:`state_processor.arrow.read_sink_state`.
        """
        from state_processor.backends.connectors.sink_state import read_sink_state, sink_state

        committers = OperatorIdentifier.of(committer).uid_hash if committer is not None else None
        state = sink_state(self._snapshot, self._operator(uid), OperatorIdentifier.of(uid).uid, committers)
        return read_sink_state(state, connector)

    def size_report(self, uid: Uid | None = None, by: SizesBy = "state", top: int | None = 20) -> pa.Table:
        """Measure keyed state and timers. Entries are walked through, values are not decoded.

        For parameters, columns and errors see :func:`state_processor.arrow.size_report`.
        """
        from state_processor.read.sizes import SizeReport

        self._snapshot.check_plan()
        operator = None if uid is None else OperatorIdentifier.of(uid)
        threads = self._snapshot.threads
        return SizeReport.of(self._snapshot, operator, by, top, threads).measured(threads)

    def _rows(
        self, uid: Uid, state: str | None, kind: str | None, schema: ArrowSchema | None, options: Mapping[str, Any]
    ) -> Rows:
        """Return the rows of a state; see :func:`state_processor.arrow.read_state`."""
        request = StateRequest(OperatorIdentifier.of(uid), state, kind, schema, {**options, **self._access.values()})
        return rows_of(request.open(request.find(self._snapshot), current_door()))


__all__ = ["SavepointReader"]
