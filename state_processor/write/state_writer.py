"""Methods of a writer of savepoints that all engines have in common, under Flink's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from os import PathLike
from typing import Self

from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.state.descriptions import MAP, KeyedDescription
from state_processor.backends.state.hash_inference import HashRule
from state_processor.backends.write.entry_encoder import KEY, KeyHash
from state_processor.backends.write.keyed_formats import BackendName, FormatName
from state_processor.read.compatibility import check_compatibility
from state_processor.read.scans import StateRequest
from state_processor.read.snapshot_reader import AnyReader, SnapshotReader
from state_processor.serializers.base import TypeSerializer
from state_processor.support.errors import StateMigrationError
from state_processor.types.declared_types import DeclaredTypes, PythonTypeArgument
from state_processor.types.durations import duration_ms, instant_ms
from state_processor.types.state_specs import StateSpec, whole_type, with_type
from state_processor.write.build import SavepointBuild, Uid
from state_processor.write.plan import keyed_changes
from state_processor.write.plan.draft import OperatorDraft
from state_processor.write.plan.reports import MigrationReport, WriteSummary
from state_processor.write.rows.row_columns import METADATA, NAMES, KeyedRows
from state_processor.write.rows.row_protocol import GivenRows, Rows
from state_processor.write.tasks.migration import TypesOfStates
from state_processor.write.tasks.passes import WriterEngine


class StateWriter:
    """Writer of a savepoint: what :class:`~state_processor.SavepointWriter` and ``sp.arrow.SavepointWriter`` have in common.

    It has the build of the savepoint, and an engine, which converts the rows that users give and runs the tasks.
    """

    def __init__(self, build: SavepointBuild, engine: WriterEngine) -> None:
        self._build = build
        self._engine = engine

    def __repr__(self) -> str:
        lines = [f"{draft.identifier}: {draft.changes.summary}" for draft in self._build.drafts if draft.changes.summary]
        return "\n  ".join([f"{type(self).__name__}(max_parallelism={self._build.max_parallelism})", *lines])

    def _stored_rows(self, draft: OperatorDraft, new: KeyedDescription, *, metadata: bool) -> Rows:
        """Return the rows of a state in the source of an operator, as reading gives them with ``flatten=False``.

        Values are of the type that a new state of the same name has.
        """
        snapshot, access, operator = self._build.reopened(draft)
        options = {"flatten": False, "metadata": metadata, "nanos": "string", "row_kind": True}
        return self._engine.read(
            snapshot, access, StateRequest(operator, new.name, schema={"value": whole_type(new)}, options=options)
        )

    def with_keyed_state(
        self,
        uid: Uid,
        df: GivenRows,
        key: str = KEY,
        key_type: TypeSerializer | None = None,
        states: Mapping[str, StateSpec | TypeSerializer] | None = None,
        parallelism: int | None = None,
        key_hash: KeyHash | HashRule | None = None,
        *,
        columns: Mapping[str, str] | None = None,
        python: bool | None = None,
    ) -> Self:
        """Write keyed states from a table: one row per key, one column per state.

        States of the source savepoint with the same names are replaced. Several calls for an operator add up.

        Parameters
        ----------
        uid
            The operator: its uid, or an :class:`~state_processor.OperatorIdentifier`.
        df
            The rows. A null, or an empty list or map, does not make an entry. States in windows or namespaces have the column
            ``window`` or ``namespace``. States with TTL may have ``_last_access`` (timestamp; by default the time of writing).
        key
            The column of the key. Keys are unique, and never null.
        key_type
            The type of the key; by default the operator's, or the type that the column suggests.
        states
            The states: name of the column, and of the state, to its kind and type. A type alone is value state. By default,
            columns that were read from a snapshot are the states that they were, with kind, type and time-to-live (see
            :meth:`SavepointReader.types`); other columns are value states of the types that they suggest.
        parallelism
            Number of subtasks, and files, of the operator. The job that restores the savepoint may use another parallelism.
        key_hash
            Java's ``hashCode`` of keys of a class that computes it itself: a function from a ``pyarrow.Array`` of keys to
            ``numpy.int32``, or a :class:`~state_processor.backends.state.hash_inference.HashRule`. Operators of the source
            savepoint need none if it can be inferred from their keys; all of these keys are checked with it.
        columns
            Column to state, where their names differ.
        python
            Whether the job that restores the states is a job of PyFlink. PyFlink keeps keys in rows, and values as bytes of its
            coders; ``states`` has the types of its state descriptors. By default as the operator in the source
            savepoint, or the state that rows were read from.
        """
        with self._build.change(uid, parallelism=parallelism) as draft:
            expected = (key, *METADATA, *(states or ()), *(columns or ()))
            rows = KeyedRows(self._engine.rows(df, *expected), key)
            keyed_changes.add_keyed_states(draft, rows, key_type, states, key_hash=key_hash, columns=columns, python=python)
        return self

    def update_keyed_state(
        self,
        uid: Uid,
        state: str,
        df: GivenRows,
        key: str = KEY,
        *,
        types: DeclaredTypes | None = None,
        infer_kryo: bool = False,
        python_type: PythonTypeArgument | None = None,
    ) -> Self:
        """Change a keyed state of the source savepoint for some keys; other keys and states are copied byte for byte.

        Parameters
        ----------
        uid, state
            The state.
        df
            Rows in the shape that reading the state gives: ``key`` and ``value`` (or a column with the state's name); lists
            also as ``list_index`` and ``list_value``, maps as ``map_key`` and ``map_value``; ``window`` or ``namespace`` where
            the state has one. A row replaces the entries of its key; a null removes them, and adds nothing to another row of
            the key. Rows with ``map_key`` replace single entries of a map. Parts that Kryo wrote (a ``List`` or ``Map`` in a
            POJO of Flink 1.x, whose column is JSON) are compared with the source savepoint for the same key: unchanged ones
            keep their bytes, whatever they hold, changed ones are encoded in the classes that they had. Values with ``_bytes``,
            as reading with ``undescribed="bytes"`` gives them, are written as these bytes. A ``Row`` or ``RowData`` without a
            field ``row_kind`` is an insert (``+I``): read with ``row_kind=True`` to keep other kinds. With TTL, the last access
            of a row without ``_last_access`` is the time of writing: read with ``metadata=True`` to keep it.
        key
            The column of the key.
        types
            The types that the job declares for ``key``, ``value``, ``list_value``, ``map_key`` or ``map_value``. They name the
            fields of rows (``Types.ROW_NAMED``, ``Types.ROW_DATA``), which savepoints do not contain: without them a struct for
            a row has the fields ``f0, f1, …``, as reading gives it. By path (``"value.counters"``) the types of elements of
            collections that Kryo wrote, as for :meth:`SavepointReader.read_keyed_state`: needed where they were given to read
            the rows, and to change whole numbers in such a part.
        infer_kryo
            Whether to infer these types from the values, as when reading.
        python_type
            The type that a job of PyFlink declares for the state, as for :meth:`SavepointReader.read_keyed_state`. Values of
            other keys are not read, and not compared with it: reading the state refuses a type that they do not fit.
        """
        with self._build.change(uid, existing=True) as draft:
            rows = KeyedRows(self._engine.rows(df, key, state, *NAMES), key)
            keyed_changes.update_keyed_state(draft, state, rows, types=types, infer_kryo=infer_kryo, python_type=python_type)
        return self

    def delete_keys(
        self,
        uid: Uid,
        keys_df: GivenRows,
        state: str | None = None,
        key: str | None = None,
        *,
        key_type: TypeSerializer | None = None,
    ) -> Self:
        """Delete keys of a keyed operator.

        Parameters
        ----------
        uid
            The operator.
        keys_df
            The keys; with a column ``window`` or ``namespace``, only the entries of these.
        state
            The state to delete them from; ``None`` for all keyed states, including timers and rows that were added before.
        key
            The column of the key; by default the only column, or ``key``.
        key_type
            The type of keys as the job declares it; it names the fields of rows, see ``types`` of :meth:`update_keyed_state`.
        """
        with self._build.change(uid, existing=True) as draft:
            rows = self._engine.rows(keys_df, key or KEY, state or KEY, *NAMES)
            keyed_changes.delete_keys(draft, rows, state, key, key_type=key_type)
        return self

    def delete_map_entries(
        self,
        uid: Uid,
        state: str,
        df: GivenRows,
        key: str = KEY,
        *,
        types: Mapping[str, TypeSerializer] | None = None,
        python_type: PythonTypeArgument | None = None,
    ) -> Self:
        """Delete single entries of a map state; its other entries are copied byte for byte.

        Parameters
        ----------
        uid, state
            The state.
        df
            The entries: ``key`` and ``map_key``; ``window`` or ``namespace`` where the state has one. Other columns are ignored,
            so that rows as reading the state gives them will do. Entries that do not exist are ignored.
        key
            The column of the key.
        types, python_type
            As for :meth:`update_keyed_state`.
        """
        with self._build.change(uid, existing=True) as draft:
            rows = KeyedRows(self._engine.rows(df, key, state, *NAMES), key)
            keyed_changes.delete_map_entries(draft, state, rows, types=types, python_type=python_type)
        return self

    def with_timers(
        self,
        uid: Uid,
        df: GivenRows,
        key: str = KEY,
        key_type: TypeSerializer | None = None,
        namespace: TypeSerializer | None = None,
        parallelism: int | None = None,
    ) -> Self:
        """Write timers from a table in the shape that reading timers gives.

        They replace timers of the source savepoint with the same domain and service; others stay, and then rows are required.

        Parameters
        ----------
        uid, key, key_type, parallelism
            As for :meth:`with_keyed_state`.
        df
            Columns ``key``, ``timestamp`` (bigint, epoch milliseconds; the name ``timestamp_ms`` does as well), and optionally
            ``fires_at`` (timestamp: the same point in time, or null), ``domain`` (``event_time`` or ``processing_time``, default
            ``event_time``), ``service`` (default ``user-timers``, the timers of process functions), and ``window`` or
            ``namespace``. ``fires_at`` alone is enough. Next to ``timestamp``, the unchanged column ``fires_at`` of
            :meth:`SavepointReader.read_timers` is ignored.
        namespace
            The namespace's type: ``Types.TIME_WINDOW()`` for a column ``window``; by default timers don't have namespaces.
        """
        with self._build.change(uid, parallelism=parallelism) as draft:
            keyed_changes.add_timers(draft, KeyedRows(self._engine.rows(df, key, *NAMES), key), key_type, namespace)
        return self

    def with_key_hash(self, uid: Uid, key_hash: KeyHash | HashRule) -> Self:
        """Set Java's ``hashCode`` of an operator's keys, where it is code of their class and can't be inferred from stored keys.

        Parameters
        ----------
        uid
            The operator, which has keyed state.
        key_hash
            As for :meth:`with_keyed_state`.
        """
        with self._build.change(uid, existing=True) as draft:
            keyed_changes.set_key_hash(draft, key_hash)
        return self

    def copy_operator(self, other: AnyReader | str | PathLike[str], uid: Uid, as_uid: Uid | None = None) -> Self:
        """Copy an operator of another snapshot unchanged: all states with types and time-to-live, timers, coordinator state.

        The operator keeps its parallelism and max parallelism, unless :meth:`with_max_parallelism` was called for all operators.
        Its files are copied; entries are framed again, with the same bytes of keys and values, for another format, backend,
        parallelism or max parallelism. Later calls can change its state like the state of the source savepoint.

        Parameters
        ----------
        other
            The directory of the other snapshot, which is opened with the storage options of this writer; or an open reader of it.
        uid
            The operator in the other snapshot.
        as_uid
            Its uid in the new savepoint; by default the same.

        Raises
        ------
        NotFoundError
            If the other snapshot does not have the operator.
        OptionError
            If the new savepoint has an operator with this uid and with state.
        """
        if isinstance(other, SnapshotReader):
            snapshot, access = other._snapshot, other._access
        else:
            access = replace(self._engine.access_to(other, self._build.access), plan=None, uids=None, path_mapping={})
            snapshot = access.open(other)
        self._build.copy_operator(snapshot, access, uid, as_uid)
        return self

    def remove_operator(self, uid: Uid) -> Self:
        """Leave out an operator of the source savepoint, or one that was added."""
        self._build.remove_operator(uid)
        return self

    def remove_state(self, uid: Uid, name: str) -> Self:
        """Leave out a state of the source savepoint, including changes to it, or one that was added."""
        self._build.remove_state(uid, name)
        return self

    def change_operator_identifier(self, old: Uid, new: Uid) -> Self:
        """Give an operator another uid; it keeps its state, coordinator state included.

        The change takes effect in :meth:`write`: other methods still refer to the operator by its old uid.
        """
        self._build.rename_operators({old: new})
        return self

    def change_operator_identifiers(self, uids: Mapping[str, Uid]) -> Self:
        """Give several operators other uids at once, so that they can exchange uids.

        Parameters
        ----------
        uids
            Old uids, or hashes, to new ones; see :meth:`change_operator_identifier`.
        """
        self._build.rename_operators(uids)
        return self

    def evolve_state(self, uid: Uid, state: str, new_type: TypeSerializer) -> Self:
        """Rewrite a keyed state of the source savepoint in another schema, by Flink's rules for POJOs and Avro.

        New fields are null, 0 for numbers, or Avro's default; fields that are gone are dropped. New boxed numbers are null if
        :func:`~state_processor.serializers.register_primitive_fields` lists the primitive fields of their class. Other changes
        to the state have to come after this one.

        Parameters
        ----------
        uid, state
            The state.
        new_type
            The type of its values; of a list or map state the ``Types.LIST`` or ``Types.MAP`` (or a list's element).

        Raises
        ------
        StateMigrationError
            If Flink would refuse to restore the state with this type; the message has the reason.
        """
        with self._build.change(uid, existing=True) as draft:
            old = draft.unchanged(state)
            new = with_type(old, new_type)
            assert draft.source is not None  # it has the state
            verdict = check_compatibility(draft.source.snapshot, draft.source.operator, state, new_type)
            if verdict.is_incompatible:
                raise StateMigrationError(f"{draft.label}, state {state!r} can't become {new_type}: {verdict.reason}")
            keyed_changes.replace_state(draft, new, self._stored_rows(draft, new, metadata=old.has_ttl))
        return self

    def expire(self, uid: Uid, state: str, ttl: str | timedelta, as_of: str | int | datetime = "now") -> Self:
        """Drop the expired values of a keyed state: values, elements of lists, entries of maps, and keys that nothing is left of.

        Everything else keeps its bytes. The state is read in this process.

        Parameters
        ----------
        uid, state
            A state with time-to-live.
        ttl
            The time-to-live that the job declares, such as ``"7d"`` or ``"PT1H"``; savepoints do not contain it.
        as_of
            The point in time: values whose last access is ``ttl`` or longer before it are dropped.

        Raises
        ------
        OptionError
            If the state does not have time-to-live, or was changed before.
        """
        with self._build.change(uid, existing=True) as draft:
            described = keyed_changes.require_ttl(draft, state)
            expiry = ReadOptions(ttl=duration_ms(ttl), as_of=instant_ms(as_of))
            gone, lists = keyed_changes.expired_rows(draft, described, expiry)
            if described.kind == MAP:
                keyed_changes.delete_map_entries(draft, state, KeyedRows(self._engine.rows(gone)))
            else:
                keyed_changes.delete_keys(draft, self._engine.rows(gone), state, KEY)
            if lists.num_rows:
                keyed_changes.update_keyed_state(draft, state, KeyedRows(self._engine.rows(lists)))
        return self

    def with_ttl(self, uid: Uid, state: str, enabled: bool = True) -> Self:
        """Add time-to-live to a keyed state, or take it away: the job's ``StateTtlConfig`` decides which of them it restores.

        Before Flink 2.2, not all state backends restore a state whose time-to-live was added or taken away. All entries are
        rewritten. The time of last access of a state that gets time-to-live is the time of writing.

        Parameters
        ----------
        uid, state
            The state.
        enabled
            False to take time-to-live away. Expired values stay: drop them with :meth:`expire` before, in a savepoint of its own.

        Raises
        ------
        OptionError
            If the state has time-to-live already, or does not have it, or was changed before.
        """
        with self._build.change(uid, existing=True) as draft:
            new = keyed_changes.with_time_to_live(draft, state, enabled=enabled)
            keyed_changes.replace_state(draft, new, self._stored_rows(draft, new, metadata=False))
        return self

    def touch(self, uid: Uid, state: str, as_of: str | int | datetime = "now") -> Self:
        """Set the time of last access of all values of a keyed state with time-to-live. The state is read in this process.

        Parameters
        ----------
        uid, state
            The state.
        as_of
            The time of last access.

        Raises
        ------
        OptionError
            If the state does not have time-to-live, or was changed before.
        """
        with self._build.change(uid, existing=True) as draft:
            described = keyed_changes.require_ttl(draft, state)
            rows = keyed_changes.touched_rows(draft, described, instant_ms(as_of))
            keyed_changes.update_keyed_state(draft, state, KeyedRows(self._engine.rows(rows)))
        return self

    def migrate(self, flink_version: str = "2.x", types: Mapping[Uid, TypesOfStates] | None = None) -> Self:
        """Convert a savepoint of Flink 1.x to one that Flink 2.x restores, or take one of 2.x back where its bytes allow it.

        Fields declared as ``List``, ``Collection``, ``Iterable``, ``Set`` or ``Map`` get the serializers that Flink 2.x infers
        (``TypeExtractor``: ``NullableListTypeInfo`` and the like) instead of Kryo. Values that stay with Kryo get the bytes of
        Kryo 5, and renamed serializer snapshots their new names. Everything else is copied byte for byte.

        States that change are read once to find the element types of their collections, and values that can't be converted.
        :meth:`migration_report` returns the result. :meth:`write` refuses states that can't be migrated, unless they are left
        out with :meth:`remove_state` or replaced. Call this method again to add ``types``.

        Parameters
        ----------
        flink_version
            The Flink version that has to restore the savepoint: ``"2.0"`` or later, or ``"2.x"`` for any of them. With a version
            before 2.0, states keep their bytes, and the report names the states that can't go back.
        types
            The types that the new job declares, where they do not follow from the values (collections that are empty, or hold
            several classes or custom ones): by operator, state and path. A path consists of names of fields, with dots
            (``"tags"``, ``"address.lines"``); ``element`` of lists, ``key`` and ``value`` of maps; ``f0`` of tuples and rows; it
            begins with ``map_key:``, ``key:`` or ``namespace:`` outside the state's value. A type instead of the paths is
            the type of the whole value. ``Types.LIST``, ``SET`` and ``MAP`` mean the type that Flink infers for the
            declaration, null included; ``Types.KRYO`` for a part that stays with Kryo, as it does where type arguments are
            wildcards or have arguments themselves. ``{"orders": {"profile": {"tags": Types.LIST(Types.STRING())}}}``
        """
        self._build.migrate(self._engine, flink_version, types)
        return self

    def migration_report(self) -> MigrationReport:
        """Return the outcome of :meth:`migrate` for each state: unchanged, converted, or impossible, and why."""
        return self._build.migration_report()

    def with_parallelism(self, uid: Uid, parallelism: int) -> Self:
        """Distribute an operator's state over another number of subtasks, at most the max parallelism."""
        self._build.set_parallelism(uid, parallelism)
        return self

    def with_async_state(self, uid: Uid | None = None, enabled: bool = True) -> Self:
        """Set whether an operator uses the asynchronous state API (Flink 2: ``enableAsyncState``).

        Native savepoints for ForSt differ: states are registered as others, timers are elsewhere. The default is the API of the
        source savepoint. Jobs of both APIs restore the keyed state of other formats. Flink leaves out the time-to-live of
        asynchronous state in them, and Flink before 2.2 does not restore such state: :meth:`write` refuses it for a
        ``flink_version`` before 2.2.

        Parameters
        ----------
        uid
            The operator; ``None`` for all that have keyed state by now.
        enabled
            Whether it is the asynchronous API.
        """
        self._build.set_asynchronous(uid, enabled)
        return self

    def with_max_parallelism(self, max_parallelism: int, uid: Uid | None = None) -> Self:
        """Change the number of key groups of all operators, or of one: every key and timer gets a new key group.

        Flink itself can't: the max parallelism of a job is fixed by its first checkpoint. Operators that the job chains run in
        one vertex, and Flink restores them only if all have its max parallelism. An operator that was chained, and has another
        max parallelism in the new job, needs a change of its own (Flink: ``StateAssignmentOperation``).

        Parameters
        ----------
        max_parallelism
            The number of key groups.
        uid
            The operator; by default all operators, those of later calls included. The last call about an operator counts.

        Raises
        ------
        NotFoundError
            If the operator does not exist.
        OptionError
            If an operator has a higher parallelism.
        """
        self._build.set_max_parallelism(max_parallelism, uid)
        return self

    def write(
        self,
        path: str | PathLike[str],
        *,
        overwrite: bool = False,
        format: FormatName = "canonical",
        backend: BackendName | None = None,
        share_files: bool = False,
        checkpoint_id: int | None = None,
        allow_lower_checkpoint_id: bool = False,
    ) -> WriteSummary:
        """Write the savepoint.

        ``_metadata`` is written last, in one step: until then the directory is not a savepoint, and a failed write removes its
        files. Files of a killed process are not a savepoint; the next write to the directory removes them. If several writers
        write to one directory, the first complete write counts, and the others fail.

        Parameters
        ----------
        path
            The directory of the new savepoint: a path or URL that driver and executors can reach.
        overwrite
            Whether an existing savepoint is replaced; it stays until the new one is complete. The source savepoint never is.
        format
            ``"canonical"``, which all state backends but ForSt restore, entry by entry; or ``"native"``, the files of one state
            backend, which restores them by copying: much faster for large state. Flink restores native savepoints since 1.15;
            with RocksDB and ForSt, timers are in its files, unless the source savepoint has them on the heap: a job with
            the timer service ``HEAP`` finds them only there. Of a source savepoint with such files, states keep them, and
            changes of :meth:`update_keyed_state`, :meth:`delete_keys` and :meth:`delete_map_entries` are written to files
            above them. Deletions of heap timers, and changes of the parallelism, the max parallelism or the types, rewrite all
            entries. The files are for RocksDB 6.20 and later: every Flink version from 1.15 on opens
            them.
        backend
            For ``"native"``: the state backend of the job that restores the savepoint, ``"hashmap"``, ``"rocksdb"`` or
            ``"forst"`` (Flink 2.0 and later).
        share_files
            True to refer to the unchanged files of RocksDB and ForSt in the source savepoint instead of copying them. The new
            savepoint can't be restored without these files. A job that claims it removes them in time.
        checkpoint_id
            The checkpoint number of the savepoint: by default the number of the source savepoint, or 1. The job that restores
            the savepoint gives the next number to its first checkpoint.
        allow_lower_checkpoint_id
            True to accept a lower number than the number of the source savepoint. Sinks that remember the number of the last
            checkpoint drop all commits of the job up to this number.

        Raises
        ------
        InvalidRowError
            If a row can't be written: the message names operator, state, key, and the problem.
        WriteError
            If files can't be written, another write to the same directory was complete before, or the source savepoint was
            replaced or removed since the writer was opened.
        """
        self._build.choose_format(format, backend, share_files=share_files)
        self._build.choose_checkpoint_id(checkpoint_id, allow_lower=allow_lower_checkpoint_id)
        access = self._engine.access_to(path, self._build.access)
        with self._engine.errors():
            return self._build.write_to(path, self._engine, overwrite=overwrite, access=access)
