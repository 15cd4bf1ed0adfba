"""What readers of a snapshot have in common, with Spark and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Unpack

from state_processor.options.groups import KeyedStateOptions, LookupOptions
from state_processor.options.keywords import takes_options
from state_processor.options.option import check_given
from state_processor.support.redaction import redacted
from state_processor.types.identifier import OperatorIdentifier

if TYPE_CHECKING:
    from state_processor.backends.metadata.snapshot import Snapshot
    from state_processor.backends.metadata.snapshot_metadata import OperatorState
    from state_processor.options.access import SnapshotAccess
    from state_processor.read.key_contents import KeyContents
    from state_processor.read.read_types import OperatorTypes
    from state_processor.serializers.base import TypeSerializer
    from state_processor.serializers.compatibility import SchemaCompatibility

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


class SnapshotReader:
    """An open savepoint or checkpoint.

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

        rows, states = self._operators(), self._names_of_states()
        for row in rows:
            row |= {"size": size_text(row["size"]), "states": ", ".join(states.get(row["uid hash"], ()))}
            row["operator"] = row["uid"] or row["uid hash"]
        columns = ("operator", "parallelism", "size", "states")
        table = render_records(columns, rows, right=frozenset({"size"}), whole=frozenset({"operator"}))
        return f"{type(self).__name__}({redacted(self.path)!r})\n{table}"

    def _repr_html_(self) -> str:
        from state_processor.display.showing import html_table

        rows = self._operators()
        columns = [name for name in _COLUMNS.values() if any(row[name] is not None for row in rows)]
        return html_table(columns, rows, caption=redacted(self.path), sizes=frozenset({"size"}))

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
        from state_processor.read.scans import StateRequest

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
        from state_processor.read.read_types import OperatorTypes

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

    def _operators(self) -> list[dict[str, Any]]:
        from state_processor.backends.read.catalog import operators

        return [{short: row.get(c) for c, short in _COLUMNS.items()} for row in operators(self._snapshot).to_pylist()]

    def _names_of_states(self) -> dict[str, list[str]]:
        """Return the names of the states of each operator, by its hash."""
        from state_processor.backends.read.catalog import states

        names: dict[str, list[str]] = {}
        for row in states(self._snapshot).to_pylist():
            names.setdefault(row["operator_uid_hash"], []).append(row["state_name"])
        return names
