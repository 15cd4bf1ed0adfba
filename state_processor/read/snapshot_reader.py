"""Readers of a snapshot, under Flink's names: their methods, with Spark and without, and the reader without Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeAlias, TypeVar, Unpack

import pyarrow as pa

from state_processor.backends.read.raw_state import RAW_KEYED
from state_processor.backends.read.read_options import Kind
from state_processor.backends.read.state_access import KEYED_KIND, TIMER_KIND
from state_processor.backends.state.descriptions import BROADCAST, OPERATOR_LIST, UNION_LIST
from state_processor.options.access import SnapshotAccess
from state_processor.options.groups import KeyedStateOptions, LookupOptions, OperatorStateOptions, SnapshotOptions, TimerOptions
from state_processor.options.keywords import takes_options
from state_processor.options.option import check_given
from state_processor.read.rows import OperatorTypes, Rows, rows_of
from state_processor.read.scans import ArrowSchema, StateRequest, StateScan
from state_processor.support.doors import current_door, read_with
from state_processor.support.errors import NotFoundError
from state_processor.support.redaction import redacted
from state_processor.types.identifier import OperatorIdentifier

if TYPE_CHECKING:
    from state_processor.backends.metadata.snapshot import Snapshot
    from state_processor.backends.metadata.snapshot_metadata import OperatorState
    from state_processor.read.key_contents import KeyContents
    from state_processor.read.sizes import SizesBy
    from state_processor.serializers.base import SchemaCompatibility, TypeSerializer

Uid = str | OperatorIdentifier
RowsT = TypeVar("RowsT")
TableT = TypeVar("TableT")
SchemaT = TypeVar("SchemaT")

_COLUMNS: Final = {
    "operator_name": "name",
    "operator_uid": "uid",
    "operator_uid_hash": "uid hash",
    "operator_parallelism": "parallelism",
    "operator_max_parallelism": "max parallelism",
    "operator_total_size_in_bytes": "size",
}
"""Columns of operators in notebooks, under names that leave all of them in view."""
_OF_COLUMNS: Final = ("columns", "metadata", "nanos", "row_kind")
"""Options that do not change the number of rows."""


class SnapshotReader(ABC, Generic[RowsT, TableT, SchemaT]):
    """An open savepoint or checkpoint: the methods of readers with Spark and without.

    Rows of states are ``RowsT``, tables of metadata and of connectors ``TableT``, and the argument ``schema`` is ``SchemaT``.

    Parameters
    ----------
    snapshot
        The snapshot.
    access
        The options that it was opened with.
    """

    def __init__(self, snapshot: Snapshot, access: SnapshotAccess) -> None:
        self._snapshot = snapshot
        self._access = access

    @property
    def path(self) -> str:
        """The directory that holds ``_metadata``."""
        return self._snapshot.directory

    def __repr__(self) -> str:
        from state_processor.display.text_tables import render_records, size_text

        rows, states = self._operators().to_pylist(), self._names_of_states()
        for row in rows:
            row |= {"size": size_text(row["size"]), "states": ", ".join(states.get(row["uid hash"], ()))}
            row["operator"] = row["uid"] or row["uid hash"]
        columns = ("operator", "parallelism", "size", "states")
        table = render_records(columns, rows, right=frozenset({"size"}), whole=frozenset({"operator"}))
        return f"{type(self).__name__}({redacted(self.path)!r})\n{table}"

    def _repr_html_(self) -> str:
        from state_processor.display.showing import html_table

        table = self._operators()
        columns = [name for name in table.column_names if table.column(name).null_count < table.num_rows]
        return html_table(columns, table.to_pylist(), caption=redacted(self.path), sizes=frozenset({"size"}))

    def operators(self) -> TableT:
        """Return one row per operator, with parallelism and sizes: the columns of Flink's ``savepoint_metadata``."""
        return self._table("operators")

    def states(self) -> TableT:
        """Return one row per state of every operator: kind, types, whether it has TTL, and the schema of a read."""
        return self._table("states")

    def handles(self) -> TableT:
        """Return one row per file, part of a file, or piece inside ``_metadata`` that the snapshot consists of."""
        return self._table("handles")

    @takes_options
    def read_keyed_state(
        self, uid: Uid, state: str | None = None, *, schema: SchemaT | None = None, **options: Unpack[KeyedStateOptions]
    ) -> RowsT:
        """Read a keyed state, or all of an operator (Flink: ``readKeyedState``).

        Parameters
        ----------
        uid
            The operator: its uid, or an :class:`~state_processor.OperatorIdentifier`.
        state
            Name of the state. ``None`` reads all keyed states side by side: one row per key, one column per state. These columns
            are not flattened.
        schema
            Columns to deliver, in this order and with these types (a ``pyarrow.Schema``; with Spark also a ``StructType`` or DDL
            text), or a mapping of column names to types that changes only those. Types may be wider than the snapshot's; numbers
            in text may be read as decimals. A value that does not fit fails the read. A type of :class:`~state_processor.Types`,
            for a column or as the schema itself for the value, is one that the state is restored in by Flink's rules: removed
            fields are left out, new ones have Java's default value (0, false, null), Avro records are resolved to the reader's
            schema.
        **options
            See :class:`~state_processor.options.groups.KeyedStateOptions`.

        Raises
        ------
        NotFoundError
            If the operator or the state does not exist, or is of another kind; the message names the nearest.
        StateMigrationError
            Flink would not restore the state in a type of ``schema``; the message names the field and both types.
        OptionError
            An argument has an unexpected value.
        """
        return self._read(uid, state, KEYED_KIND if state is not None else None, schema, options)

    @takes_options
    def read_window_state(
        self,
        uid: Uid,
        state: str = "window-contents",
        *,
        schema: SchemaT | None = None,
        **options: Unpack[KeyedStateOptions],
    ) -> RowsT:
        """Read the state of a window operator (Flink: ``window(…)``): as keyed state, with ``window`` after ``key``.

        ``window`` is ``struct<start timestamp, end timestamp>``, null for the global window. For parameters and errors see
        :meth:`read_keyed_state`. The contents of windows are in the state ``window-contents``.
        """
        return self._read(uid, state, KEYED_KIND, schema, options, only_windows=True)

    @takes_options
    def read_timers(self, uid: Uid, *, schema: SchemaT | None = None, **options: Unpack[TimerOptions]) -> RowsT:
        """Read timers: ``key``, ``window`` or ``namespace``, ``timestamp``, ``fires_at``, ``domain``, ``service``.

        ``timestamp`` is in epoch milliseconds, as in Flink; ``fires_at`` is the same point in time, null where its year is not
        one of 1 to 9999: Flink fires timers of ``Long.MAX_VALUE`` when the input ends. ``domain`` is ``event_time`` or
        ``processing_time``. For parameters and errors see :meth:`read_keyed_state`.
        """
        return self._read(uid, None, TIMER_KIND, schema, options)

    @takes_options
    def read_list_state(
        self, uid: Uid, name: str, *, schema: SchemaT | None = None, **options: Unpack[OperatorStateOptions]
    ) -> RowsT:
        """Read an operator list state: one row ``value`` per element, from all subtasks (Flink: ``readListState``).

        For parameters and errors see :meth:`read_keyed_state`.
        """
        return self._read(uid, name, OPERATOR_LIST, schema, options)

    @takes_options
    def read_union_state(
        self, uid: Uid, name: str, *, schema: SchemaT | None = None, **options: Unpack[OperatorStateOptions]
    ) -> RowsT:
        """Read a union list state: one row ``value`` per element, from all subtasks (Flink: ``readUnionState``).

        For parameters and errors see :meth:`read_keyed_state`.
        """
        return self._read(uid, name, UNION_LIST, schema, options)

    @takes_options
    def read_broadcast_state(
        self, uid: Uid, name: str, *, schema: SchemaT | None = None, **options: Unpack[OperatorStateOptions]
    ) -> RowsT:
        """Read a broadcast state: ``key``, ``value``, once (Flink: ``readBroadcastState``).

        Every subtask has a copy; copies that differ are an error. For parameters and errors see :meth:`read_keyed_state`.
        """
        return self._read(uid, name, BROADCAST, schema, options)

    def read_source_splits(self, uid: Uid, connector: str | None = None) -> TableT:
        """Read the splits of a source: the splits of its readers, and the splits that its enumerator still has.

        Offsets of Kafka, positions in files, numbers still to come: one row per split. For parameters, columns and errors see
        :func:`state_processor.arrow.read_source_splits`.
        """
        from state_processor.backends.connectors.source_splits import read_source_splits

        return self._listed(read_source_splits(self._snapshot, self._operator(uid), connector))

    def read_sink_state(self, uid: Uid, connector: str | None = None, committer: Uid | None = None) -> TableT:
        """Read the state of a sink: the state of its writers, and the commits that its committers have left.

        Files in progress and files to be committed, transactional ids and transactions to be committed: one row each. For
        parameters, columns and errors see :func:`state_processor.arrow.read_sink_state`.
        """
        from state_processor.backends.connectors.sink_state import read_sink_state, sink_state

        committers = OperatorIdentifier.of(committer).uid_hash if committer is not None else None
        state = sink_state(self._snapshot, self._operator(uid), OperatorIdentifier.of(uid).uid, committers)
        return self._listed(read_sink_state(state, connector))

    def size_report(self, uid: Uid | None = None, by: SizesBy = "state", top: int | None = 20) -> TableT:
        """Measure keyed state and timers. Entries are walked through, values are not decoded. Spark does it with a job.

        Parameters
        ----------
        uid
            One operator; ``None`` for all.
        by
            ``state``, ``key_group``, ``subtask``, or ``key`` (of one operator, over all its states).
        top
            Number of rows, the largest ones; ``None`` for all.

        Returns
        -------
        pyarrow.Table or DataFrame
            The columns of :func:`state_processor.arrow.size_report`, ``entries`` and ``size_in_bytes`` last; largest first.

        Raises
        ------
        NotFoundError
            If the operator does not exist, or does not have keyed state.
        OptionError
            ``by`` is unknown, or ``key`` without an operator.
        """
        self._snapshot.check_plan()
        return self._sizes(None if uid is None else OperatorIdentifier.of(uid), by, top)

    @takes_options
    def lookup(
        self, uid: str | OperatorIdentifier, key: Any, state: str | None = None, **options: Unpack[LookupOptions]
    ) -> KeyContents:
        """Look up one key in this process: its values in all keyed states of an operator, and its timers.

        Parameters
        ----------
        uid, key, state
            As for :func:`state_processor.arrow.lookup`, which lists the errors, too.
        **options
            See :class:`~state_processor.options.groups.LookupOptions`.
        """
        from state_processor.read.key_contents import KeyContents

        self._snapshot.check_plan()
        return KeyContents.find(self._snapshot, OperatorIdentifier.of(uid), key, state, options)

    @takes_options
    def count(
        self,
        uid: str | OperatorIdentifier,
        state: str | None = None,
        kind: str | None = None,
        **options: Unpack[KeyedStateOptions],
    ) -> int:
        """Count the rows of a state in this process.

        Entries are counted without decoding them where each is a row. Else the first column is decoded, which is the key of keyed
        state: of some keys, of lists and of maps of the heap by element, and where values may be expired.

        Parameters
        ----------
        uid, state, kind
            As for :func:`state_processor.arrow.read_state`, which lists the errors, too.
        **options
            See :class:`~state_processor.options.groups.KeyedStateOptions`. Options of columns and their values are refused, since
            they do not change the number of rows.
        """
        check_given(options, _OF_COLUMNS, "on values: read the state")
        request = StateRequest(OperatorIdentifier.of(uid), state, kind, None, {**options, **self._access.values()})
        return request.open(request.find(self._snapshot)).count()

    def types(self, uid: str | OperatorIdentifier) -> OperatorTypes:
        """Return the types of the keyed states of an operator, as ``states`` of ``with_keyed_state`` takes them.

        Parameters
        ----------
        uid
            The operator.

        Returns
        -------
        OperatorTypes
            A dictionary of states (:class:`~state_processor.ValueState` and the like) by name. Its attribute ``key`` is the type
            of the operator's keys.

        Raises
        ------
        NotFoundError
            If the operator does not exist, or does not have keyed state.
        UnsupportedFormatError
            If a state can't be read, or savepoints do not contain its type: states of PyFlink.
        """
        from state_processor.backends.read.stored_operator import StoredOperator

        return OperatorTypes.of(StoredOperator(self._snapshot, self._operator(uid)))

    def check_compatibility(
        self, uid: str | OperatorIdentifier, state: str, new_type: TypeSerializer, *, schema_evolution: bool = False
    ) -> SchemaCompatibility:
        """Check if Flink would restore a state into a job that declares it with another type: a dry run of the restore.

        Parameters
        ----------
        uid, state
            The state.
        new_type
            The type that the new job declares: of the value, or for list and map state the ``Types.LIST`` or ``Types.MAP`` of it
            (for a list the type of its elements is accepted, too).
        schema_evolution
            The new job sets ``table.exec.state.schema-evolution.enabled`` and keeps its state in RocksDB: Flink matches the
            fields of rows by name (FLIP-527, after Flink 2.3). Rows that were written without names may only get more fields at
            their end. Keys, namespaces, keys of maps and operator state are compared as without it.

        Returns
        -------
        SchemaCompatibility
            The worst verdict over all subtasks: compatible unchanged, with a reconfigured serializer, after migration, or
            incompatible.

        Raises
        ------
        NotFoundError
            If the operator or the state does not exist.
        """
        from state_processor.read.compatibility import check_compatibility

        return check_compatibility(self._snapshot, self._operator(uid), state, new_type, schema_evolution=schema_evolution)

    def _operator(self, uid: str | OperatorIdentifier) -> OperatorState:
        from state_processor.backends.read.stored_operator import find_operator

        self._snapshot.check_plan()
        identifier = OperatorIdentifier.of(uid)
        return find_operator(self._snapshot, identifier.uid, identifier.uid_hash)

    def _operators(self) -> pa.Table:
        from state_processor.backends.read.catalog import operators

        return operators(self._snapshot).select(list(_COLUMNS)).rename_columns(list(_COLUMNS.values()))

    def _names_of_states(self) -> dict[str, list[str]]:
        """Return the names of the states of each operator, by its hash."""
        from state_processor.backends.read.catalog import states

        names: dict[str, list[str]] = {}
        for row in states(self._snapshot).to_pylist():
            names.setdefault(row["operator_uid_hash"], []).append(row["state_name"])
        return names

    def _scan(
        self,
        uid: Uid,
        state: str | None,
        kind: str | None,
        schema: ArrowSchema | None,
        options: Mapping[str, Any],
        *,
        only_windows: bool = False,
    ) -> StateScan:
        """Open a state; see :func:`state_processor.arrow.read_state`. ``only_windows`` refuses other keyed state."""
        request = StateRequest(OperatorIdentifier.of(uid), state, kind, schema, {**options, **self._access.values()})
        stored = request.find(self._snapshot)
        scan = request.open(stored, current_door())
        if only_windows and scan.states.kind is Kind.KEYED:
            raise NotFoundError(f"state {state!r} of {stored.label} is not in windows; read it with {read_with('KEYED')}")
        return scan

    @abstractmethod
    def _read(
        self,
        uid: Uid,
        state: str | None,
        kind: str | None,
        schema: SchemaT | None,
        options: Mapping[str, Any],
        *,
        only_windows: bool = False,
    ) -> RowsT:
        """Return the rows of a state; for the arguments see :meth:`_scan`."""

    @abstractmethod
    def _table(self, name: str) -> TableT:
        """Return a table of metadata, by its name in ``TABLES``."""

    @abstractmethod
    def _listed(self, rows: pa.Table) -> TableT:
        """Return rows that the driver has read."""

    @abstractmethod
    def _sizes(self, operator: OperatorIdentifier | None, by: SizesBy, top: int | None) -> TableT:
        """Return a report of sizes."""


AnyReader: TypeAlias = SnapshotReader[Any, Any, Any]
"""A reader with Spark or without."""


class SavepointReader(SnapshotReader[Rows, pa.Table, ArrowSchema]):
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

    def read_raw_state(self, uid: Uid, kind: str = RAW_KEYED) -> Rows:
        """Read raw state as bytes; for parameters and errors see :func:`state_processor.arrow.read_raw_state`."""
        return self._read(uid, None, kind, None, {})

    def _read(
        self,
        uid: Uid,
        state: str | None,
        kind: str | None,
        schema: ArrowSchema | None,
        options: Mapping[str, Any],
        *,
        only_windows: bool = False,
    ) -> Rows:
        return rows_of(self._scan(uid, state, kind, schema, options, only_windows=only_windows))

    def _table(self, name: str) -> pa.Table:
        from state_processor.backends.read.catalog import TABLES

        return TABLES[name](self._snapshot)

    def _listed(self, rows: pa.Table) -> pa.Table:
        return rows

    def _sizes(self, operator: OperatorIdentifier | None, by: SizesBy, top: int | None) -> pa.Table:
        from state_processor.read.sizes import SizeReport

        threads = self._snapshot.threads
        return SizeReport.of(self._snapshot, operator, by, top, threads).measured(threads)


__all__ = ["SavepointReader"]
