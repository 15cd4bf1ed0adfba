"""What is to become of one operator: the changes that a user asked for, and the plan that they amount to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from state_processor.backends.state import meta_info as mi
from state_processor.backends.state.column_types import undescribed_as_bytes
from state_processor.backends.state.descriptions import KeyedDescription, OperatorDescription
from state_processor.backends.state.hash_inference import HashRule
from state_processor.backends.state.row_field_names import DeclaredNames
from state_processor.backends.state.state_registration import keyed_header, register
from state_processor.backends.write.entry_encoder import KeyHash
from state_processor.identifier import OperatorIdentifier
from state_processor.migration_report import IMPOSSIBLE, StateReport
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.compatibility import Verdict
from state_processor.serializers.errors import NotFoundError, OptionError
from state_processor.serializers.kryo.nested_kryo import java_types
from state_processor.serializers.kryo.types import JavaType
from state_processor.serializers.table.row_names import row_names, with_row_names
from state_processor.write.source_operator import SourceOperator
from state_processor.write.task_data import Replaced

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from state_processor.write.migration_plan import OperatorMigration


@dataclass(frozen=True)
class RowSource:
    """Rows for keyed states: for each state by name, which columns become what (the encoder's names to those of the rows).

    ``marks`` tells which entries of the base give way, and ``names`` how the fields of rows are called by state, see
    :class:`~state_processor.write.keyed_tasks.StateColumns`.
    """

    frame: DataFrame
    columns: Mapping[str, Mapping[str, str]]
    marks: Replaced = ""
    names: Mapping[str, DeclaredNames] = field(default_factory=dict)

    def without(self, states: Collection[str]) -> tuple[RowSource, ...]:
        """What is left of the rows where some states are not written from them: nothing, or rows for the others."""
        columns = {name: given for name, given in self.columns.items() if name not in states}
        return (replace(self, columns=columns),) if columns else ()


@dataclass(frozen=True)
class Deletion:
    """Keys to remove from one state or from all, or entries of a map; ``columns`` as for :class:`RowSource`, without a value."""

    frame: DataFrame
    columns: Mapping[str, str]
    state: str | None
    marks: Replaced = "keys"
    names: DeclaredNames = field(default_factory=dict)


@dataclass
class OperatorDraft:
    """Changes to one operator, as they add up.

    Attributes
    ----------
    identifier
        The operator.
    base
        It as the base has it, if it does.
    parallelism, max_parallelism
        What was asked for; ``None`` keeps that of the base or takes the default.
    key
        The type of keys that was named or inferred.
    added
        Keyed states that are written from rows, in place of those of the same name in the base.
    removed
        Names of states, keyed or not, that are left out.
    sources
        Rows of keyed states.
    forms
        Of each state of the base that rows change, the types of what Kryo wrote, and whether rows have bytes for values of
        undescribed classes.
    deletions
        Keys to remove from what the base has.
    operator_states
        List, union and broadcast states that are written from rows.
    hashing
        ``hashCode`` of keys, where their serializer does not know it.
    renamed
        The identifier that it gets.
    coordinator
        The state of its coordinator, in place of that of the base.
    migration
        What becomes of the states of the base for another Flink.
    """

    identifier: OperatorIdentifier
    base: SourceOperator | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    key: TypeSerializer | None = None
    added: dict[str, KeyedDescription] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    sources: list[RowSource] = field(default_factory=list)
    forms: dict[str, tuple[tuple[JavaType, ...], bool]] = field(default_factory=dict)
    deletions: list[Deletion] = field(default_factory=list)
    operator_states: dict[str, tuple[OperatorDescription, DataFrame]] = field(default_factory=dict)
    hashing: KeyHash | tuple[HashRule, ...] | None = None
    renamed: OperatorIdentifier | None = None
    coordinator: bytes | None = None
    migration: OperatorMigration | None = None

    def copy(self) -> OperatorDraft:
        """The draft as it is now, to be changed on trial."""
        kept = {"added": dict(self.added), "removed": set(self.removed), "sources": list(self.sources)}
        more = {"deletions": list(self.deletions), "operator_states": dict(self.operator_states), "forms": dict(self.forms)}
        return replace(self, **kept, **more)  # type: ignore[arg-type]

    @property
    def label(self) -> str:
        """How messages name it."""
        return f"operator {self.identifier}"

    def take_key(self, given: TypeSerializer | None, inferred: TypeSerializer | None) -> TypeSerializer:
        """The key type: the one that is known, else the one given, else the one inferred. Rows have the names given last.

        Raises
        ------
        OptionError
            If the operator has keys of another type.
        """
        known = self.key or (self.base.key if self.base is not None else None)
        if known is not None and given is not None and not _is_same(known, given):
            if known.snapshot().resolve_schema_compatibility(given).verdict is not Verdict.COMPATIBLE_AS_IS:
                raise OptionError(f"{self.label} has keys of type {known}, not {given}; all its keyed states share one key")
            known = with_row_names(known, row_names(given))
        self.key = known or given or inferred
        if self.key is None:
            raise OptionError(f"{self.label}: name the key's type by key_type")
        return self.key

    def updates(self, state: KeyedDescription, *, with_bytes: bool) -> KeyedDescription:
        """Return a state of the base as rows that change it have it, and keep that for their encoding.

        Parameters
        ----------
        state
            The state, with the types that the user declared for what Kryo wrote.
        with_bytes
            Whether rows have bytes for values of undescribed classes.

        Raises
        ------
        OptionError
            If rows that were given before have it in another form: all of a state are encoded alike.
        """
        form = (java_types(state), with_bytes)
        if self.forms.setdefault(state.name, form) != form:
            raise OptionError(
                f"{self.label}, state {state.name!r}: rows were given before with other types={{…}}, or one of both "
                "with undescribed classes as bytes; give all rows of a state in one form, or write them one after the other"
            )
        return undescribed_as_bytes(state) if with_bytes else state

    def add(self, state: KeyedDescription) -> None:
        """A state that rows will fill. Rows that were to change the one of the base have nothing to change any more.

        Raises
        ------
        OptionError
            If it was added before, or the base has operator state of this name.
        """
        self._check_new(state.name)
        if self.base is not None and state.name in self.base.operator_metas and self.keeps(state.name):
            raise self._other_kind(state.name, "operator")
        self._forget(state.name)
        self.added[state.name] = state

    def add_operator_state(self, state: OperatorDescription, frame: DataFrame) -> None:
        """A list, union or broadcast state that rows will fill.

        Raises
        ------
        OptionError
            If it was added before, or the base has keyed state of this name.
        """
        self._check_new(state.name)
        if self.base is not None and state.name in self.base.keyed_states and self.keeps(state.name):
            raise self._other_kind(state.name, "keyed")
        self.operator_states[state.name] = (state, frame)

    def _check_new(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise OptionError(f"{self.label}: a state is named {name!r}; a name is text that is not empty")
        if name in self.added or name in self.operator_states:
            raise OptionError(f"{self.label}: state {name!r} is written twice")

    def _other_kind(self, name: str, kind: str) -> OptionError:
        return OptionError(
            f"{self.label}: {name!r} is {kind} state of the base, which would be lost; call remove_state for it first, or name "
            "the new one differently"
        )

    def _forget(self, name: str) -> None:
        """Drop the rows and deletions that were given for a state, and for no other."""
        self.sources = [left for source in self.sources for left in source.without({name})]
        self.deletions = [deletion for deletion in self.deletions if deletion.state != name]
        self.forms.pop(name, None)

    def keeps(self, name: str) -> bool:
        """Whether a state of the base is taken over."""
        gone = self.removed | (self.migration.left_out if self.migration is not None else set())
        return name not in gone and name not in self.added and name not in self.operator_states

    @property
    def updated(self) -> frozenset[str]:
        """The states of the base that rows change."""
        return frozenset(name for source in self.sources if source.marks for name in source.columns)

    @property
    def final_identifier(self) -> OperatorIdentifier:
        """The identifier that the operator has in the new savepoint."""
        return self.renamed or self.identifier

    @property
    def final_names(self) -> tuple[str, ...]:
        """The states that the operator has in the new savepoint."""
        kept = tuple(n for n in self.base.state_names if self.keeps(n)) if self.base is not None else ()
        return (*kept, *self.added, *self.operator_states)

    def keyed(self, name: str) -> KeyedDescription:
        """A keyed state of the base, to be patched.

        Raises
        ------
        NotFoundError
            If the base has none of that name.
        """
        states = self.base.keyed_states if self.base is not None else {}
        left = {n: s for n, s in states.items() if self.keeps(n)}
        if name not in left:
            raise NotFoundError.naming_nearest("keyed state", name, left, self.label)
        if self.migration is not None and self.migration.keyed is not None and self.converts(name):
            return self.migration.keyed.roles(name)[1]
        return left[name]

    def remove(self, name: str) -> None:
        """Leave out a state, keyed or not, with what was to be written to it.

        Raises
        ------
        NotFoundError
            If there is none of that name.
        """
        states = self.base.state_names if self.base is not None else ()
        left = [*(n for n in states if n not in self.removed), *self.added, *self.operator_states]
        if name not in left:
            raise NotFoundError.naming_nearest("state", name, left, self.label)
        self._forget(name)
        self.added.pop(name, None)
        self.operator_states.pop(name, None)
        if name in states:
            self.removed.add(name)

    def changed_before(self, name: str) -> bool:
        """Whether rows were to change a state of the base, or keys to be deleted from it."""
        return name in self.updated or any(deletion.state in (None, name) for deletion in self.deletions)

    def converts(self, name: str) -> bool:
        """Whether a state of the base is taken over in other bytes, for another Flink."""
        return self.migration is not None and self.migration.converts(name) and self.keeps(name)

    @property
    def not_migrated(self) -> tuple[StateReport, ...]:
        """The states that are to be taken over for another Flink, and can't be."""
        return tuple(r for r in self.migration_reports if r.outcome == IMPOSSIBLE and self.keeps(r.state))

    @property
    def migration_reports(self) -> tuple[StateReport, ...]:
        """What becomes of each state for another Flink; nothing where none is wanted."""
        reports = self.migration.reports if self.migration is not None else ()
        return tuple(replace(r, uid=self.identifier.uid) for r in reports)

    @property
    def summary(self) -> str:
        """What was asked for, in a few words; nothing where the operator is to stay as it is."""
        written = dict.fromkeys([*(name for source in self.sources for name in source.columns), *self.operator_states])
        parts = [
            f"write {', '.join(written)}" if written else "",
            f"remove {', '.join(sorted(self.removed))}" if self.removed else "",
            "delete keys" if any(d.marks == "keys" for d in self.deletions) else "",
            "delete map entries" if any(d.marks == "entries" for d in self.deletions) else "",
            f"become {self.renamed}" if self.renamed else "",
            f"parallelism {self.parallelism}" if self.parallelism else "",
        ]
        return "; ".join(filter(None, parts))

    @property
    def is_changed(self) -> bool:
        """Whether it can't be taken over file by file."""
        return self.base is None or self.changes_keyed or self.changes_operator_state

    @property
    def changes_parallelism(self) -> bool:
        """Whether key groups or subtasks are others than in the base."""
        return self.base is not None and (
            self.base.operator.parallelism != self.final_parallelism
            or self.base.operator.max_parallelism != self.final_max_parallelism
        )

    @property
    def changes_keyed(self) -> bool:
        """Whether keyed state has to be written."""
        removed = self.base is not None and bool(self.removed & set(self.base.keyed_states))
        rewritten = self.base is not None and bool(self.base.keyed_states) and not self.base.is_canonical
        other = self.base is not None and any(map(self._is_other, self.base.keyed_states))
        return bool(self.added or self.sources or self.deletions) or removed or rewritten or other or self.changes_parallelism

    @property
    def changes_operator_state(self) -> bool:
        """Whether operator state has to be written."""
        removed = self.base is not None and bool(self.removed - set(self.base.keyed_states))
        other = self.base is not None and any(map(self._is_other, self.base.operator_metas))
        return bool(self.operator_states) or removed or other or self.changes_parallelism

    def _is_other(self, name: str) -> bool:
        """Whether a state of the base has other bytes, or is left out, for another Flink."""
        return self.migration is not None and (name in self.migration.left_out or self.converts(name))

    @property
    def final_parallelism(self) -> int:
        """The parallelism of the operator that is written."""
        if self.parallelism is not None:
            return self.parallelism
        return self.base.operator.parallelism if self.base is not None else 1

    @property
    def final_max_parallelism(self) -> int:
        """The max parallelism of the operator that is written."""
        if self.max_parallelism is not None:
            return self.max_parallelism
        return self.base.operator.max_parallelism if self.base is not None else 128

    def carried_names(self) -> tuple[str, ...]:
        """Keyed states of the base whose entries are carried over."""
        if self.base is None:
            return ()
        return tuple(n for n in self.base.keyed_states if self.keeps(n))

    def header(self) -> mi.KeyedHeader | None:
        """The header of the keyed state files to write; ``None`` without keyed states."""
        carried: list[mi.StateMetaInfo] = []
        base_header = self.base.header if self.base is not None else None
        if self.migration is not None and self.migration.keyed is not None:
            base_header = self.migration.keyed.new
        if base_header is not None:
            names = set(self.carried_names())
            carried = [m for m in base_header.states if m.name in names]
        metas = [*carried, *map(register, self.added.values())]
        if not metas:
            return None
        if base_header is not None:
            return mi.KeyedHeader(mi.KEYED_VERSION, False, base_header.key, tuple(metas))
        assert self.key is not None
        return keyed_header(self.key, metas)


def _is_same(one: TypeSerializer, other: TypeSerializer) -> bool:
    """Whether types are the same to the last byte of their snapshots: what is printed leaves out the fields of a POJO."""
    return str(one) == str(other) and one.snapshot().to_bytes() == other.snapshot().to_bytes()
