"""Drafts of operators: the changes to an operator, and the state that results from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from state_processor.backends.state import meta_info as mi
from state_processor.backends.state.column_types import undescribed_as_bytes
from state_processor.backends.state.descriptions import KeyedDescription, OperatorDescription
from state_processor.backends.state.hash_inference import HashRule
from state_processor.backends.state.key_groups import check_parallelism
from state_processor.backends.state.python_states import PythonType, shown_name, stored_name
from state_processor.backends.state.state_registration import joined_registrations, keyed_header
from state_processor.backends.write.entry_encoder import KeyHash
from state_processor.backends.write.keyed_formats import CANONICAL_FORMAT, KeyedFormat
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.compatibility import Verdict
from state_processor.serializers.doors import changing
from state_processor.serializers.errors import NotFoundError, OptionError
from state_processor.serializers.java.types import JavaType
from state_processor.serializers.kryo.nested_kryo import java_types
from state_processor.serializers.table.python_state import PythonKeySerializer
from state_processor.serializers.table.row_names import row_names, with_row_names
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.types.identifier import OperatorIdentifier
from state_processor.write.format_choice import check_dropped_ttl
from state_processor.write.migration_report import IMPOSSIBLE, StateReport
from state_processor.write.operator_migration import OperatorMigration
from state_processor.write.pending_rows import Deletion, StateRows
from state_processor.write.row_protocol import OperatorRows
from state_processor.write.source_operator import SourceOperator
from state_processor.write.state_registration import StateRegistration


@dataclass
class OperatorDraft:
    """Draft of an operator: its state in the source savepoint, and the changes to it.

    Attributes
    ----------
    identifier
        The operator.
    flink_major
        The major version of Flink that its new state is written for.
    source
        The operator in the source savepoint, if it is there.
    parallelism, max_parallelism
        New values; ``None`` keeps that of the source savepoint, or takes the default.
    key
        The type of keys that was given or inferred.
    added
        Keyed states that are written from rows only. They replace those of the same names in the source savepoint.
    removed
        Names of states, keyed or not, that are left out.
    state_rows
        Rows of keyed states.
    forms
        By state of the source savepoint that rows change: the types of the parts that Kryo wrote, and whether rows have bytes
        for values of undescribed classes.
    python
        By state of a PyFlink job: the kind and type of its rows, ``None`` for rows with bytes.
    deletions
        Keys and entries to delete.
    operator_states
        List, union and broadcast states that are written from rows.
    hashing
        ``hashCode`` of keys, where their serializer does not know it.
    renamed
        The new identifier.
    coordinator
        New state of the coordinator.
    migration
        The migration of the states of the source savepoint to Flink 2.x.
    format
        The format of keyed state.
    asynchronous
        Whether keyed state is in the asynchronous API; ``None`` if it is as in the source savepoint.
    """

    identifier: OperatorIdentifier
    flink_major: int
    source: SourceOperator | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    key: TypeSerializer | None = None
    added: dict[str, KeyedDescription] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    state_rows: list[StateRows] = field(default_factory=list)
    forms: dict[str, tuple[tuple[JavaType, ...], bool]] = field(default_factory=dict)
    python: dict[str, PythonType | None] = field(default_factory=dict)
    deletions: list[Deletion] = field(default_factory=list)
    operator_states: dict[str, tuple[OperatorDescription, OperatorRows]] = field(default_factory=dict)
    hashing: KeyHash | tuple[HashRule, ...] | None = None
    renamed: OperatorIdentifier | None = None
    coordinator: bytes | None = None
    migration: OperatorMigration | None = None
    format: KeyedFormat = CANONICAL_FORMAT
    asynchronous: bool | None = None

    def copy(self) -> OperatorDraft:
        """Return a copy, to be changed on trial."""
        return replace(
            self,
            added=dict(self.added),
            removed=set(self.removed),
            state_rows=list(self.state_rows),
            forms=dict(self.forms),
            python=dict(self.python),
            deletions=list(self.deletions),
            operator_states=dict(self.operator_states),
        )

    @property
    def label(self) -> str:
        """Name for messages."""
        return f"operator {self.identifier}"

    # State of the source savepoint

    @property
    def source_key(self) -> TypeSerializer | None:
        """Type of keys in the source savepoint; ``None`` without keyed state."""
        return self.source.key if self.source is not None else None

    @property
    def source_keyed(self) -> Mapping[str, KeyedDescription]:
        """Keyed states and timers of the source savepoint."""
        return self.source.keyed_states if self.source is not None else {}

    @property
    def source_metas(self) -> Mapping[str, mi.StateMetaInfo]:
        """List, union and broadcast states of the source savepoint."""
        return self.source.operator_metas if self.source is not None else {}

    @property
    def source_states(self) -> tuple[str, ...]:
        """Names of all states of the source savepoint."""
        return (*self.source_keyed, *self.source_metas)

    def keeps(self, name: str) -> bool:
        """Return whether a state of the source savepoint is in the new one, possibly with changes."""
        left_out = self.migration.left_out if self.migration is not None else frozenset()
        return not any(name in replaced for replaced in (self.removed, left_out, self.added, self.operator_states))

    def converts(self, name: str) -> bool:
        """Return whether a migration converts the entries of a state of the source savepoint."""
        return self.migration is not None and self.migration.converts(name) and self.keeps(name)

    def stored(self, name: str) -> str:
        """Return the name in the savepoint of a state, which may be named as in a PyFlink job."""
        return stored_name(name, (*self.source_states, *self.added, *self.operator_states))

    @property
    def has_python_keys(self) -> bool:
        """True if keys are those of a PyFlink job."""
        return isinstance(self.key or self.source_key, PythonKeySerializer)

    def keyed(self, name: str) -> KeyedDescription:
        """Return a keyed state of the source savepoint, as a migration converts it.

        Raises
        ------
        NotFoundError
            If there is none of that name, or it is left out or replaced.
        """
        left = {n: s for n, s in self.source_keyed.items() if self.keeps(n)}
        if name not in left:
            if not self.source_states:
                raise NotFoundError(f"{self.label} has no state in the source savepoint")
            raise NotFoundError.naming_nearest("keyed state", name, map(shown_name, left), self.label)
        if self.migration is not None and self.migration.keyed is not None and self.converts(name):
            return self.migration.keyed.roles(name)[1]
        return left[name]

    def kept_keyed(self) -> tuple[str, ...]:
        """Return the keyed states of the source savepoint whose entries pass through."""
        return tuple(name for name in self.source_keyed if self.keeps(name))

    # Changes

    def set_parallelism(self, parallelism: int | None) -> None:
        """Set the parallelism, if one is given.

        Raises
        ------
        OptionError
            If it is not between 1 and the max parallelism, or another one was given before.
        """
        if parallelism is None:
            return
        check_parallelism(parallelism, self.final_max_parallelism)
        if self.parallelism not in (None, parallelism):
            raise OptionError(f"{self.label}: parallelism {self.parallelism} before, {parallelism} now")
        self.parallelism = parallelism

    def take_key(self, given: TypeSerializer | None) -> TypeSerializer:
        """Set and return the key type: the known one, else the given one; its rows have the given names.

        Raises
        ------
        OptionError
            If the operator has keys of another type, or there is no type.
        """
        known = self.key or self.source_key
        if known is not None and given is not None and not _is_same(known, given):
            if known.snapshot().resolve_schema_compatibility(given).verdict is not Verdict.COMPATIBLE_AS_IS:
                if str(known) == str(given):
                    raise OptionError(
                        f"{self.label} has keys of type {known}, as rows of PyFlink or not as such: call with_keyed_state with "
                        "python=True before other methods that add keyed state or timers"
                    )
                raise OptionError(f"{self.label} has keys of type {known}, not {given}; all its keyed states share one key")
            known = with_row_names(known, row_names(given))
        self.key = known or given
        if self.key is None:
            raise OptionError(f"{self.label}: name the key's type by key_type")
        return self.key

    def update(self, state: KeyedDescription, *, with_bytes: bool) -> KeyedDescription:
        """Note that rows change a state of the source savepoint; return the state as these rows are encoded.

        Parameters
        ----------
        state
            The state, with the types that the user declared for parts that Kryo wrote.
        with_bytes
            Whether rows have bytes for values of undescribed classes.

        Raises
        ------
        OptionError
            If rows that were given before have another form: all rows of a state are encoded alike.
        """
        form = (java_types(state), with_bytes)
        if self.forms.setdefault(state.name, form) != form:
            raise OptionError(
                f"{self.label}, state {state.name!r}: rows were given before with other types={{…}}, or one of both "
                "with undescribed classes as bytes; give all rows of a state in one form, or write them one after the other"
            )
        return undescribed_as_bytes(state) if with_bytes else state

    def add(self, state: KeyedDescription) -> None:
        """Add a keyed state, which replaces the one of the source savepoint together with rows that were to change it.

        Raises
        ------
        OptionError
            If it was added before, or the source savepoint has operator state of this name.
        """
        self._check_new(state.name)
        if state.name in self.source_metas and self.keeps(state.name):
            raise self._other_kind(state.name, "operator")
        self._drop_changes(state.name)
        self.added[state.name] = state

    def add_operator_state(self, state: OperatorDescription, rows: OperatorRows) -> None:
        """Add a list, union or broadcast state, which replaces the one of the source savepoint.

        Raises
        ------
        OptionError
            If it was added before, or the source savepoint has keyed state of this name.
        """
        self._check_new(state.name)
        if state.name in self.source_keyed and self.keeps(state.name):
            raise self._other_kind(state.name, "keyed")
        self.operator_states[state.name] = (state, rows)

    def remove(self, name: str) -> None:
        """Leave out a state, keyed or not, together with changes to it.

        Raises
        ------
        NotFoundError
            If there is none of that name.
        """
        name = self.stored(name)
        left = [*(n for n in self.source_states if n not in self.removed), *self.added, *self.operator_states]
        if name not in left:
            raise NotFoundError.naming_nearest("state", name, map(shown_name, left), self.label)
        self._drop_changes(name)
        self.added.pop(name, None)
        self.operator_states.pop(name, None)
        if name in self.source_states:
            self.removed.add(name)

    def _check_new(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise OptionError(f"{self.label}: a state is named {name!r}; a name is text that is not empty")
        if name in self.added or name in self.operator_states:
            raise OptionError(f"{self.label}: state {name!r} is written twice")

    def _other_kind(self, name: str, kind: str) -> OptionError:
        return OptionError(
            f"{self.label}: {name!r} is {kind} state of the source savepoint, which would be lost; call remove_state for it "
            "first, or name the new one differently"
        )

    def _drop_changes(self, name: str) -> None:
        """Drop the rows and deletions that were given for a state, and for no other."""
        self.state_rows = [left for given in self.state_rows for left in given.without_states({name})]
        self.deletions = [deletion for deletion in self.deletions if deletion.state != name]
        self.forms.pop(name, None)
        self.python.pop(name, None)

    @property
    def updated(self) -> frozenset[str]:
        """The states of the source savepoint that rows change."""
        return frozenset(name for given in self.state_rows if given.replaces for name in given.columns)

    def has_changes(self, name: str) -> bool:
        """Return whether rows change a state of the source savepoint, or keys are deleted from it."""
        return name in self.updated or any(deletion.state in (None, name) for deletion in self.deletions)

    @property
    def summary(self) -> str:
        """The changes in a few words; empty if there are none."""
        written = dict.fromkeys([*(name for given in self.state_rows for name in given.columns), *self.operator_states])
        parts = [
            f"write {', '.join(written)}" if written else "",
            f"remove {', '.join(sorted(self.removed))}" if self.removed else "",
            "delete keys" if any(d.scope == "keys" for d in self.deletions) else "",
            "delete map entries" if any(d.scope == "entries" for d in self.deletions) else "",
            f"become {self.renamed}" if self.renamed else "",
            f"parallelism {self.parallelism}" if self.parallelism else "",
        ]
        return "; ".join(filter(None, parts))

    # Migration

    @property
    def migration_reports(self) -> tuple[StateReport, ...]:
        """Outcome of the migration for each state; empty without a migration."""
        reports = self.migration.reports if self.migration is not None else ()
        return tuple(replace(r, uid=self.identifier.uid) for r in reports)

    @property
    def not_migrated(self) -> tuple[StateReport, ...]:
        """The states that can't be migrated, and are not left out or replaced."""
        return tuple(r for r in self.migration_reports if r.outcome == IMPOSSIBLE and self.keeps(r.state))

    # The operator in the new savepoint

    @property
    def final_identifier(self) -> OperatorIdentifier:
        """The identifier in the new savepoint."""
        return self.renamed or self.identifier

    @property
    def final_names(self) -> tuple[str, ...]:
        """The states in the new savepoint."""
        return (*(name for name in self.source_states if self.keeps(name)), *self.added, *self.operator_states)

    @property
    def final_parallelism(self) -> int:
        """The parallelism in the new savepoint."""
        if self.parallelism is not None:
            return self.parallelism
        return self.source.operator.parallelism if self.source is not None else 1

    @property
    def final_max_parallelism(self) -> int:
        """The max parallelism in the new savepoint: 1 where rows have no key, which Flink SQL gives one subtask."""
        if self.max_parallelism is not None:
            key = self.key or self.source_key
            return 1 if isinstance(key, RowDataSerializer) and not key.slot.type.types else self.max_parallelism
        return self.source.operator.max_parallelism if self.source is not None else 128

    @property
    def is_changed(self) -> bool:
        """True if its files can't be copied as they are."""
        return self.source is None or self.changes_keyed or self.changes_operator_state

    @property
    def changes_parallelism(self) -> bool:
        """True if key groups or subtasks differ from those in the source savepoint."""
        if self.source is None:
            return False
        old = self.source.operator
        return (old.parallelism, old.max_parallelism) != (self.final_parallelism, self.final_max_parallelism)

    @property
    def changes_keyed(self) -> bool:
        """True if keyed state has to be written."""
        written = bool(self.added or self.state_rows or self.deletions)
        removed = bool(self.removed & set(self.source_keyed))
        reframed = self.source is not None and bool(self.source_keyed) and not self.source.is_in(self.format)
        migrated = any(map(self._is_migrated, self.source_keyed))
        return written or removed or reframed or migrated or self.changes_parallelism or self.registration.changes

    @property
    def kept_families(self) -> frozenset[str]:
        """The states of the source savepoint that stay in the files that they are in, while others change."""
        return frozenset(name for name in self._in_families() if not self.has_changes(name))

    @property
    def changed_families(self) -> frozenset[str]:
        """The states of the source savepoint that could stay in the files that they are in, with changes beside them."""
        return frozenset(name for name in self._in_families() if self.has_changes(name))

    def _in_families(self) -> tuple[str, ...]:
        """Return the states whose entries pass through in files of the format."""
        if self.source is None or not self._has_families or self.reasons_to_rewrite:
            return ()
        elsewhere = self.source.timers if self.source.has_raw_timers or self.registration.raw_timers else frozenset()
        return tuple(name for name in self.kept_keyed() if name not in elsewhere)

    @property
    def _has_families(self) -> bool:
        return self.source is not None and self.format.keeps_families and self.source.is_in(self.format)

    @property
    def reasons_to_rewrite(self) -> tuple[str, ...]:
        """The reasons why files of the source savepoint that the format could keep do not stay."""
        if self.source is None or not self._has_families or not self.source_keyed:
            return ()
        old = self.source.operator
        sizes = {
            "parallelism": (old.parallelism, self.final_parallelism),
            "max parallelism": (old.max_parallelism, self.final_max_parallelism),
        }
        changed = tuple(f"{name} {one} becomes {other}" for name, (one, other) in sizes.items() if one != other)
        return changed if self.migration is None else (*changed, "states are migrated")

    @property
    def registration(self) -> StateRegistration:
        """How keyed states are registered."""
        return StateRegistration(self.format, self.source, self.asynchronous)

    @property
    def kept_raw_timers(self) -> frozenset[str]:
        """The timers of the source savepoint that stay in files of raw keyed state: all of them, or none."""
        source = self.source
        if source is None or not source.has_raw_timers or not self.registration.raw_timers or self.changes_parallelism:
            return frozenset()
        stay = self.migration is None and not any(state.is_timer for state in self.added.values())
        stay = stay and all(self.keeps(name) and not self.has_changes(name) for name in source.timers)
        return source.timers if stay else frozenset()

    @property
    def changes_operator_state(self) -> bool:
        """True if operator state has to be written."""
        removed = bool(self.removed - set(self.source_keyed))
        migrated = any(map(self._is_migrated, self.source_metas))
        return bool(self.operator_states) or removed or migrated or self.changes_parallelism

    def _is_migrated(self, name: str) -> bool:
        """Return whether a migration converts a state of the source savepoint, or leaves it out."""
        return self.migration is not None and (name in self.migration.left_out or self.converts(name))

    @property
    def _final_keyed(self) -> dict[str, KeyedDescription]:
        """Keyed states and timers in the new savepoint."""
        return {name: self.source_keyed[name] for name in self.kept_keyed()} | self.added

    def check_format(self, flink_version: str | None) -> None:
        """Refuse what the format of keyed state has no place for.

        Parameters
        ----------
        flink_version
            The oldest Flink version that has to restore it, if one was given.

        Raises
        ------
        OptionError
            If there is a state like that.
        """
        if self.asynchronous is not None and not (self.source_keyed or self.added):
            raise OptionError(f"{self.label} has no keyed state, which {changing('with_async_state')} needs; is the uid right?")
        if self.asynchronous and not self.format.registers_asynchronous:
            check_dropped_ttl((name for name, state in self._final_keyed.items() if state.has_ttl), flink_version, self.label)
        if self.format == CANONICAL_FORMAT:
            return
        header = self.header()
        if header is not None:
            self.format.check_states(header.states, self.label)

    def header(self) -> mi.KeyedHeader | None:
        """Return the header of the keyed state files to write; ``None`` without keyed states."""
        old = self.source.header if self.source is not None else None
        if self.migration is not None and self.migration.keyed is not None:
            old = self.migration.keyed.new
        kept = set(self.kept_keyed()) - self.kept_raw_timers
        metas = joined_registrations(old, kept, self.added.values(), asynchronous=self.registration.is_asynchronous)
        if self.registration.raw_timers:
            metas.sort(key=lambda meta: meta.backend_type == mi.PRIORITY_QUEUE)  # that of the other files is without them then
        if not metas:
            return None
        if old is not None:
            return mi.KeyedHeader(mi.KEYED_VERSION, False, old.key, tuple(metas))
        assert self.key is not None
        return keyed_header(self.key, metas)


def _is_same(one: TypeSerializer, other: TypeSerializer) -> bool:
    """Return whether types have the same snapshots: their text lacks the fields of a POJO."""
    return str(one) == str(other) and one.snapshot().to_bytes() == other.snapshot().to_bytes()
