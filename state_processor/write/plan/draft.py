"""Drafts of operators: an operator of the source savepoint, and the requested changes, which are checked against it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any, Final

from state_processor.backends.state import state_headers
from state_processor.backends.state.column_types import DeclaredNames, declared_names, undescribed_as_bytes
from state_processor.backends.state.descriptions import KeyedDescription, OperatorDescription
from state_processor.backends.state.hash_inference import HashRule, UserHash
from state_processor.backends.state.key_groups import check_parallelism
from state_processor.backends.state.python_states import PythonType, shown_name, stored_name
from state_processor.backends.write.state_migration import KeyedMigration, StateMigration, TypesByPath
from state_processor.backends.write.tombstones import ChangeCounts
from state_processor.serializers.base import TypeSerializer, Verdict
from state_processor.serializers.core.rows import RowSerializer
from state_processor.serializers.io import MOST_OF_NAME, encode_modified_utf8
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kryo.nested_kryo import java_types
from state_processor.serializers.table.python_state import PythonKeySerializer
from state_processor.serializers.table.row_names import row_names, with_row_names
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.support.errors import NotFoundError, OptionError
from state_processor.support.locks import cached_property
from state_processor.support.mappings import attributes, names_of, without_keys
from state_processor.types.identifier import OperatorIdentifier
from state_processor.write.plan.reports import IMPOSSIBLE, LEFT_OUT, StateReport
from state_processor.write.plan.source_operator import SourceOperator
from state_processor.write.rows.row_columns import KeyedRows
from state_processor.write.rows.row_protocol import ColumnNames, OperatorRows, Replaced, Rows


@dataclass(frozen=True)
class StateRows:
    """Rows of keyed states."""

    rows: Rows
    columns: Mapping[str, ColumnNames]  # by state: the columns that it is written from
    replaces: Replaced = ""  # what a row replaces of the source savepoint: nothing, all entries of its key, or one entry of a map
    # by state: names of the fields of rows, which headers do not contain
    names: Mapping[str, DeclaredNames] = field(default_factory=dict)
    # by state of timers: service and domain of its rows. It has left out states, too: other rows fail the write.
    queues: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Rows, states: Sequence[tuple[KeyedDescription, ColumnNames]], replaces: Replaced = "") -> StateRows:
        """Return rows that states are written from, each with its columns."""
        columns = {state.name: names for state, names in states}
        return cls(rows, columns, replaces, {state.name: declared_names(state) for state, _ in states})

    def without_states(self, states: Collection[str]) -> tuple[StateRows, ...]:
        """Return the rows for other states; empty without other states."""
        columns = without_keys(self.columns, states)
        return (replace(self, columns=columns),) if columns else ()


@dataclass(frozen=True)
class Deletion:
    """Keys, or entries of a map, to delete from one keyed state of the source savepoint or (``None``) from all."""

    rows: Rows
    columns: ColumnNames
    state: str | None
    scope: Replaced = "keys"
    names: DeclaredNames = field(default_factory=dict)


@dataclass(frozen=True)
class ElementEdits:
    """Edits of an operator state whose other elements keep their bytes and their subtasks."""

    # new bytes by subtask and position; ``None`` leaves an element out. A broadcast state is one element of each subtask.
    elements: Mapping[tuple[int, int], bytes | None]
    counts: ChangeCounts  # the number of elements that are replaced or left out; of broadcast state, of entries

    def of_subtask(self, subtask: int) -> dict[int, bytes | None]:
        """Return the edits in one subtask by position."""
        return {position: new for (index, position), new in self.elements.items() if index == subtask}


RowForm = tuple[tuple[JavaType, ...], bool]
"""Form of the rows of a state: the types of the parts that Kryo wrote, and whether undescribed classes are given as bytes."""


@dataclass
class OperatorChanges:
    """Requested changes to one operator. :func:`~state_processor.write.plan.outcome.outcome_of` computes their outcome.

    ``parallelism`` and ``max_parallelism``: new values; ``None`` keeps the value of the source savepoint, or takes the default.
    """

    parallelism: int | None = None
    max_parallelism: int | None = None
    key: TypeSerializer | None = None  # the type of keys that was given or inferred
    # another type of the keys of the source savepoint, whose values have the same bytes
    retyped_key: TypeSerializer | None = None
    hashing: UserHash | tuple[HashRule, ...] | None = None  # ``hashCode`` of keys that their serializer can't compute
    # keyed states that are written from rows only. They replace states with the same names in the source savepoint.
    added: dict[str, KeyedDescription] = field(default_factory=dict)
    # list, union and broadcast states that are written from rows
    operator_states: dict[str, tuple[OperatorDescription, OperatorRows]] = field(default_factory=dict)
    # edits of list, union and broadcast states of the source savepoint
    edits: dict[str, ElementEdits] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)  # names of states, keyed or not, that are left out
    state_rows: list[StateRows] = field(default_factory=list)  # rows of keyed states
    deletions: list[Deletion] = field(default_factory=list)  # keys and entries to delete
    # the form of the rows, by state of the source savepoint that rows change
    forms: dict[str, RowForm] = field(default_factory=dict)
    # the kind and type of the rows, by state of a PyFlink job; ``None`` for rows with bytes
    python: dict[str, PythonType | None] = field(default_factory=dict)
    renamed: OperatorIdentifier | None = None  # the new identifier
    coordinator: bytes | None = None  # new state of the coordinator
    rewrites: bool = False  # whether all keyed state is written again, because files of the source savepoint may not stay
    # whether the entries that rows and deletions replace also leave the files of the source savepoint that stay
    erases: bool = False
    # whether the operator uses the asynchronous state API; ``None`` keeps the API of the source savepoint
    asynchronous: bool | None = None

    def copy(self) -> OperatorChanges:
        """Return a copy, whose collections can be changed."""
        values = attributes(self, names_of(fields(self)))
        copies: dict[str, Any] = {name: v.copy() for name, v in values.items() if isinstance(v, dict | set | list)}
        return replace(self, **copies)

    @property
    def updated(self) -> frozenset[str]:
        """The states of the source savepoint that rows change."""
        updating = (rows.columns for rows in self.state_rows if rows.replaces)
        return frozenset(chain.from_iterable(updating))

    @property
    def operator_descriptions(self) -> dict[str, OperatorDescription]:
        """The new list, union and broadcast states."""
        return {name: description for name, (description, _) in self.operator_states.items()}

    @property
    def changes_states(self) -> bool:
        """Whether states are written or left out, or keyed state is written again."""
        changes = (self.added, self.operator_states, self.edits, self.removed, self.state_rows, self.deletions, self.rewrites)
        return any(changes) or self.asynchronous is not None or self.retyped_key is not None

    def changes_entries(self, name: str) -> bool:
        """Return whether rows or deletions change entries of a state of the source savepoint."""
        return name in self.updated or any(deletion.state in (None, name) for deletion in self.deletions)

    def forget(self, name: str) -> None:
        """Drop the rows and deletions that were given for this state alone."""
        rows_of_states, self.state_rows = self.state_rows, []
        for rows in rows_of_states:
            self.state_rows += rows.without_states({name})
        self.deletions = [deletion for deletion in self.deletions if deletion.state != name]
        self.forms.pop(name, None)
        self.python.pop(name, None)
        self.edits.pop(name, None)

    @property
    def summary(self) -> str:
        """The changes in a few words; empty without changes."""
        columns = (rows.columns for rows in self.state_rows)
        written = dict.fromkeys(chain(*columns, self.operator_states, self.edits))
        parts = [
            f"write {', '.join(written)}" if written else "",
            f"remove {', '.join(sorted(self.removed))}" if self.removed else "",
            "delete keys" if any(d.scope == "keys" for d in self.deletions) else "",
            "delete map entries" if any(d.scope == "entries" for d in self.deletions) else "",
            f"become {self.renamed}" if self.renamed else "",
            f"parallelism {self.parallelism}" if self.parallelism else "",
        ]
        return "; ".join(filter(None, parts))


DEFAULT_MAX_PARALLELISM: Final = 128


@dataclass
class OperatorDraft:
    """Draft of an operator."""

    identifier: OperatorIdentifier
    flink_major: int  # the major version of Flink that new state is written for
    source: SourceOperator | None = None  # the operator in the source savepoint; ``None`` if it is new
    changes: OperatorChanges = field(default_factory=OperatorChanges)  # the changes that were asked for
    migration: OperatorMigration | None = None  # the migration of the states of the source savepoint to Flink 2.x

    def copy(self) -> OperatorDraft:
        """Return a copy, to be changed on trial."""
        return replace(self, changes=self.changes.copy())

    @property
    def label(self) -> str:
        """Name for messages."""
        return f"operator {self.identifier}"

    # The operator in the source savepoint

    @property
    def source_key(self) -> TypeSerializer | None:
        """Type of keys in the source savepoint; ``None`` without keyed state."""
        return self.source.key if self.source is not None else None

    @property
    def source_keyed(self) -> Mapping[str, KeyedDescription]:
        """Keyed states and timers of the source savepoint."""
        return self.source.keyed_states if self.source is not None else {}

    @property
    def source_metas(self) -> Mapping[str, state_headers.StateMetaInfo]:
        """List, union and broadcast states of the source savepoint."""
        return self.source.operator_metas if self.source is not None else {}

    @property
    def source_states(self) -> tuple[str, ...]:
        """Names of all states of the source savepoint."""
        return self.source.states if self.source is not None else ()

    @property
    def is_empty(self) -> bool:
        """True if the operator does not have state in the source savepoint, and gets none."""
        has_state = self.source is None or self.source.operator.has_state
        return not (has_state or self.changes.added or self.changes.operator_states)

    # The operator in the new savepoint

    @property
    def final_identifier(self) -> OperatorIdentifier:
        """The identifier in the new savepoint."""
        return self.changes.renamed or self.identifier

    @property
    def parallelism(self) -> int:
        """The parallelism in the new savepoint."""
        if self.changes.parallelism is not None:
            return self.changes.parallelism
        return self.source.operator.parallelism if self.source is not None else 1

    @property
    def max_parallelism(self) -> int:
        """The max parallelism in the new savepoint: 1 for rows without a key, because Flink SQL gives them one subtask."""
        if self.changes.max_parallelism is not None:
            return 1 if isinstance(self.key, RowDataSerializer) and not self.key.slot.type.types else self.changes.max_parallelism
        return self.source.operator.max_parallelism if self.source is not None else DEFAULT_MAX_PARALLELISM

    @property
    def key(self) -> TypeSerializer | None:
        """The type of keys, if it is known."""
        return self.changes.retyped_key or self.changes.key or self.source_key

    @property
    def has_python_keys(self) -> bool:
        """True if keys belong to a PyFlink job."""
        return isinstance(self.key, PythonKeySerializer)

    def keeps(self, name: str) -> bool:
        """Return whether a state of the source savepoint is in the new one, possibly with changes."""
        left_out = self.migration.left_out if self.migration is not None else frozenset()
        changes = self.changes
        is_left_out = name in left_out or name in changes.removed
        return not (is_left_out or name in changes.added or name in changes.operator_states)

    def converts(self, name: str) -> bool:
        """Return whether a migration converts the entries of a state of the source savepoint."""
        return self.migration is not None and self.migration.converts(name) and self.keeps(name)

    def kept_keyed(self) -> tuple[str, ...]:
        """Return the names of the keyed states of the source savepoint that the new one keeps."""
        return tuple(filter(self.keeps, self.source_keyed))

    def stored(self, name: str) -> str:
        """Return the name that a savepoint has for a state; a PyFlink job may use a shorter name."""
        return stored_name(name, (*self.source_states, *self.changes.added, *self.changes.operator_states))

    def keyed(self, name: str) -> KeyedDescription:
        """Return a keyed state of the source savepoint, as a migration converts it."""
        states = self.kept_keyed()
        if name not in states:
            if name in self.changes.added:
                raise OptionError(
                    f"{self.label}: an earlier call writes all of the state {shown_name(name)!r} anew, and this change is to a "
                    "state of the source savepoint. Write one savepoint with that call, and change the state in a second one"
                )
            if name in self.changes.removed:
                raise NotFoundError(f"{self.label}: an earlier call removes the state {shown_name(name)!r}")
            if not self.source_states:
                raise NotFoundError(f"{self.label} has no state in the source savepoint")
            raise NotFoundError.naming_nearest("keyed state", name, map(shown_name, states), self.label)
        if self.migration is not None and self.migration.keyed is not None and self.converts(name):
            return self.migration.keyed.roles(name)[1]
        return self.source_keyed[name]

    def unchanged(self, name: str) -> KeyedDescription:
        """Return a keyed state of the source savepoint, for a change that starts from all of its values."""
        state = self.keyed(name)
        if self.changes.changes_entries(state.name):
            raise OptionError(
                f"{self.label}, state {name!r} was changed before: this change starts from the values of the source savepoint, "
                "and would undo the other. Make it first, or write one savepoint after the other"
            )
        return state

    @property
    def migration_reports(self) -> tuple[StateReport, ...]:
        """Outcome of the migration for each state; empty without a migration."""
        reports = self.migration.reports if self.migration is not None else ()
        return tuple(replace(r, uid=self.identifier.uid) for r in reports)

    @property
    def not_migrated(self) -> tuple[StateReport, ...]:
        """The states that can't be migrated, and that the changes neither leave out nor replace."""
        return tuple(r for r in self.migration_reports if r.outcome == IMPOSSIBLE and self.keeps(r.state))

    # Changes

    def set_parallelism(self, parallelism: int | None) -> None:
        """Set the parallelism, if one is given."""
        if parallelism is None:
            return
        check_parallelism(parallelism, self.max_parallelism)
        if self.changes.parallelism not in (None, parallelism):
            raise OptionError(f"{self.label}: parallelism {self.changes.parallelism} before, {parallelism} now")
        self.changes.parallelism = parallelism

    def key_of_job(self, key: TypeSerializer, *, python: bool = False) -> TypeSerializer:
        """Return the type of keys as the operator has it: PyFlink puts them in rows."""
        in_row = (python or self.has_python_keys) and not isinstance(key, PythonKeySerializer)
        return PythonKeySerializer(RowSerializer([key])) if in_row else key

    def take_key(self, rows: KeyedRows, asked: TypeSerializer | None, *, python: bool = False) -> TypeSerializer:
        """Set and return the key type: the known type, the given one, or the one that a column suggests.

        Fields of rows get the names of the given type.

        ``asked``: the type that the user names. ``python``: whether the job is a job of PyFlink, if the operator does not have
        keys yet.
        """
        if asked is not None and not isinstance(asked, TypeSerializer):
            raise OptionError(f"key_type={asked!r}: expected a type such as Types.STRING(), found a {type(asked).__name__}")
        key, asked = self.key, None if asked is None else self.key_of_job(asked, python=python)
        if key is not None and asked is not None and not _is_same(key, asked):
            if key.snapshot().resolve_schema_compatibility(asked).verdict is not Verdict.COMPATIBLE_AS_IS:
                if str(key) == str(asked):
                    raise OptionError(
                        f"{self.label} has keys of type {key} in another form: with other fields, or in rows of PyFlink. For a "
                        "PyFlink job, call with_keyed_state with python=True before other methods that add keyed state or timers"
                    )
                raise OptionError(f"{self.label} has keys of type {key}, not {asked}; all its keyed states share one key")
            key = with_row_names(key, row_names(asked))
        key = key or asked or self.key_of_job(rows.key_type(), python=python)
        self.changes.key = key
        return key

    def update(self, state: KeyedDescription, *, with_bytes: bool) -> KeyedDescription:
        """Note that rows change a state of the source savepoint; return the state as these rows are encoded.

        ``state``: the state, with the types that the user declared for parts that Kryo wrote. ``with_bytes``: whether rows have
        bytes for values of undescribed classes.
        """
        form = (java_types(state), with_bytes)
        if self.changes.forms.setdefault(state.name, form) != form:
            raise OptionError(
                f"{self.label}, state {state.name!r}: earlier rows have other types={{…}}, or only some rows have bytes for "
                "values of undescribed classes. Give all rows of a state in one form, or write one savepoint after the other"
            )
        return undescribed_as_bytes(state) if with_bytes else state

    def add(self, state: KeyedDescription) -> None:
        """Add a keyed state. It replaces the state of the source savepoint, and earlier changes to that state."""
        self._check_new(state.name, self.source_metas, "operator")
        self.changes.forget(state.name)
        self.changes.added[state.name] = state

    def add_operator_state(self, state: OperatorDescription, rows: OperatorRows) -> None:
        """Add a list, union or broadcast state, which replaces the state of the source savepoint."""
        self._check_new(state.name, self.source_keyed, "keyed")
        self.changes.operator_states[state.name] = (state, rows)

    def remove(self, name: str) -> None:
        """Leave out a state, keyed or not, together with changes to it."""
        name, changes = self.stored(name), self.changes
        names = [*(n for n in self.source_states if n not in changes.removed), *changes.added, *changes.operator_states]
        if name not in names:
            raise NotFoundError.naming_nearest("state", name, map(shown_name, names), self.label)
        changes.forget(name)
        changes.added.pop(name, None)
        changes.operator_states.pop(name, None)
        if name in self.source_states:
            changes.removed.add(name)

    def _check_new(self, name: str, source_names: Collection[str], kind: str) -> None:
        """Refuse the name of a state that is written already, or of one of the other states of the source savepoint."""
        if not isinstance(name, str) or not name:
            raise OptionError(f"{self.label}: a state is named {name!r}; expected text that is not empty")
        size = len(encode_modified_utf8(name))
        if size > MOST_OF_NAME:
            raise OptionError(
                f"{self.label}: the state {name[:40]!r}… has a name of {size:,} bytes; Flink takes at most {MOST_OF_NAME:,}. "
                "Choose a shorter name"
            )
        if name in self.changes.added or name in self.changes.operator_states:
            raise OptionError(f"{self.label}: state {name!r} is written twice")
        if name in source_names and self.keeps(name):
            raise OptionError(
                f"{self.label}: {name!r} is {kind} state of the source savepoint, which would be lost; call remove_state for it "
                "first, or name the new one differently"
            )


def _is_same(left_type: TypeSerializer, right_type: TypeSerializer) -> bool:
    """Return whether types have the same snapshots: their text lacks the fields of a POJO."""
    return str(left_type) == str(right_type) and left_type.snapshot().to_bytes() == right_type.snapshot().to_bytes()


@dataclass(frozen=True)
class OperatorMigration:
    """Migration of the states of one operator."""

    keyed: KeyedMigration | None = None  # its keyed states; ``None`` without any
    operator: Mapping[str, StateMigration] = field(default_factory=dict)  # its list, union and broadcast states, by name
    types: TypesByPath = field(default_factory=dict)  # the new types that were named or found, by state and path
    reports: tuple[StateReport, ...] = ()  # the outcome for each state

    @cached_property
    def states(self) -> dict[str, StateMigration]:
        """Migration of each state, keyed ones first."""
        return {**(self.keyed.states if self.keyed is not None else {}), **self.operator}

    @cached_property
    def left_out(self) -> frozenset[str]:
        """Empty states that can't be migrated."""
        return frozenset(r.state for r in self.reports if r.outcome == LEFT_OUT)

    def converts(self, name: str) -> bool:
        """Return whether the entries of a state are converted."""
        return name in self.states and self.states[name].is_changed
