"""Drafts of operators: an operator of the source savepoint, and changes that are checked against it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from state_processor.backends.state import state_headers
from state_processor.backends.state.column_types import undescribed_as_bytes
from state_processor.backends.state.descriptions import KeyedDescription, OperatorDescription
from state_processor.backends.state.key_groups import check_parallelism
from state_processor.backends.state.python_states import shown_name, stored_name
from state_processor.backends.write.state_migration import KeyedMigration, StateMigration, TypesByPath
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.compatibility import Verdict
from state_processor.serializers.core.rows import RowSerializer
from state_processor.serializers.errors import NotFoundError, OptionError
from state_processor.serializers.io import MOST_OF_NAME, encode_modified_utf8
from state_processor.serializers.kryo.nested_kryo import java_types
from state_processor.serializers.locks import cached_property
from state_processor.serializers.table.python_state import PythonKeySerializer
from state_processor.serializers.table.row_names import row_names, with_row_names
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.types.identifier import OperatorIdentifier
from state_processor.write.plan.changes import OperatorChanges
from state_processor.write.plan.migration_report import IMPOSSIBLE, LEFT_OUT, StateReport
from state_processor.write.plan.source_operator import SourceOperator
from state_processor.write.rows.row_columns import KeyedRows
from state_processor.write.rows.row_protocol import OperatorRows

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
        return not any(name in replaced for replaced in (changes.removed, left_out, changes.added, changes.operator_states))

    def converts(self, name: str) -> bool:
        """Return whether a migration converts the entries of a state of the source savepoint."""
        return self.migration is not None and self.migration.converts(name) and self.keeps(name)

    def kept_keyed(self) -> tuple[str, ...]:
        """Return the names of the keyed states of the source savepoint that the new one keeps."""
        return tuple(name for name in self.source_keyed if self.keeps(name))

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
