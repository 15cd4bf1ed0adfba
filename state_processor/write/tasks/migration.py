"""Migration to Flink 2.x: tasks that read and convert values, and the outcome for each state, from its header and values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from state_processor.backends.formats.operator_file import operator_header
from state_processor.backends.formats.serialized_entries import serialized_entries
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.keyed_splits import KeyedSplit, plan_splits
from state_processor.backends.read.operator_state import OperatorSplit, raw_elements
from state_processor.backends.read.stored_operator import snapshot_for_tasks, subtask_label
from state_processor.backends.state import state_headers
from state_processor.backends.state.descriptions import BROADCAST, describe_keyed, describe_operator_state
from state_processor.backends.write.pass_through import KeyedPassThrough
from state_processor.backends.write.state_migration import (
    Elements,
    MigratingPassThrough,
    StateMigration,
    TypesByPath,
    converted_broadcast,
    converted_elements,
    migrate_keyed,
    migrate_operator_state,
)
from state_processor.options.user_serializers import TaskSerializers
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.evolution.migrated_values import ElementClasses, Observations
from state_processor.serializers.shared_types import PortableType
from state_processor.support.errors import NotFoundError, OptionError, StateProcessorError
from state_processor.support.mappings import index_by_name, map_values
from state_processor.types.identifier import OperatorIdentifier
from state_processor.write.plan.draft import OperatorDraft, OperatorMigration
from state_processor.write.plan.reports import CONVERTED, IMPOSSIBLE, LEFT_OUT, UNCHANGED, StateReport
from state_processor.write.plan.source_operator import SourceOperator
from state_processor.write.tasks.passes import Engine
from state_processor.write.tasks.state_tasks import PassThroughElements, PassThroughEntries

PortableTypes = Mapping[str, Mapping[str, PortableType]]
"""New types by state and path, in a form that can be pickled."""


def portable(types: TypesByPath) -> PortableTypes:
    """Return types in a form that can be pickled."""
    return {state: map_values(PortableType.of, paths) for state, paths in types.items()}


def restored(types: PortableTypes) -> TypesByPath:
    """Invert :func:`portable`."""
    return {state: map_values(PortableType.restore, paths) for state, paths in types.items()}


@dataclass
class Scanned:
    """Results of a scan of a state's values: elements of collections by path, and the reason why a value can't be converted.

    ``entries`` are counted for states that can't be migrated if they have any.
    """

    elements_by_path: dict[str, ElementClasses] = field(default_factory=dict)
    problem: str = ""
    entries: int = 0

    def add(self, scanned: Scanned) -> None:
        """Add the results for another part."""
        for path, elements in scanned.elements_by_path.items():
            if path in self.elements_by_path:
                self.elements_by_path[path].add(elements)
            else:
                self.elements_by_path[path] = elements
        self.problem = self.problem or scanned.problem
        self.entries += scanned.entries


@dataclass(frozen=True)
class ScanPart:
    """States of an operator in a part of its files: key groups of a handle, or a subtask's operator state.

    Entries of ``counted`` states are only counted.
    """

    operator: str
    split: KeyedSplit | OperatorSplit
    states: tuple[str, ...]
    counted: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.split.size


@dataclass(frozen=True)
class ScanValues:
    """Task that reads all values of states that change."""

    snapshot: Snapshot  # the source savepoint, as it travels to tasks
    types: Mapping[str, PortableTypes]  # new types by operator, state and path
    serializers: TaskSerializers = field(default_factory=TaskSerializers)  # serializers that users register

    def __call__(self, part: ScanPart) -> dict[str, Scanned]:
        """Return the results of a part by state."""
        self.serializers.enter()
        types = restored(self.types.get(part.operator, {}))
        results = {name: self._scan(part, name, types) for name in part.states}
        return results | {name: self._count(part, name) for name in part.counted}

    def _scan(self, part: ScanPart, name: str, types: TypesByPath) -> Scanned:
        seen = Observations()
        problem = ""
        try:
            if isinstance(part.split, OperatorSplit):
                self._read_elements(part.split, name, types, seen)
            else:
                self._read_entries(part.split, name, types, seen)
        except StateProcessorError as error:
            problem = str(error)
        return Scanned(seen.elements_by_path, problem)

    def _count(self, part: ScanPart, name: str) -> Scanned:
        try:
            if isinstance(part.split, OperatorSplit):
                data, _ = raw_elements(self.snapshot, part.split, name)
                return Scanned(entries=int(data.any()))  # an empty broadcast state is a count of 0
            return Scanned(entries=part.split.handle.open(self.snapshot).count(name, part.split.key_groups))
        except StateProcessorError as problem:
            return Scanned(problem=str(problem), entries=1)

    def _read_entries(self, split: KeyedSplit, name: str, types: TypesByPath, seen: Observations) -> None:
        source = split.handle.open(self.snapshot)
        if source.describe(name) is None:
            return
        migration = migrate_keyed(source.header, types, {name: seen.adapt})
        for _ in serialized_entries(source, migration.converted(name, write=False), split.key_groups):
            pass  # reading notes the values

    def _read_elements(self, split: OperatorSplit, name: str, types: TypesByPath, seen: Observations) -> None:
        state = _operator_state(self.snapshot, split, name, types, seen)
        if state is None:
            return
        data, bounds = raw_elements(self.snapshot, split, name)
        if describe_operator_state(state.new).kind != BROADCAST:
            converted_elements(state, (data, bounds), write=False)
        elif len(data):
            converted_broadcast(state, data.data, write=False)


def _operator_state(
    snapshot: Snapshot, split: OperatorSplit, name: str, types: TypesByPath, seen: Observations | None = None
) -> StateMigration | None:
    meta = operator_header(snapshot, split.handle, split.context).state(name)
    if meta is None:
        return None
    return migrate_operator_state(meta, types) if seen is None else migrate_operator_state(meta, types, seen.adapt)


@dataclass(frozen=True)
class MigrateEntries(PassThroughEntries):
    """Pass 1 over keyed states of the source savepoint that are converted; ``types`` are the new ones by state and path."""

    types: PortableTypes = field(default_factory=dict)

    def pass_through(self) -> KeyedPassThrough:
        """See :class:`PassThroughEntries`."""
        t = self.target
        return MigratingPassThrough(t.parallelism, t.max_parallelism, self.old_max_parallelism, t.key_hash, restored(self.types))


@dataclass(frozen=True)
class MigrateElements(PassThroughElements):
    """Pass 1 over list states of the source savepoint that are converted; ``types`` as for :class:`MigrateEntries`."""

    types: PortableTypes = field(default_factory=dict)

    def elements(self, part: OperatorSplit, name: str) -> Elements:
        """See :class:`PassThroughElements`."""
        stored = super().elements(part, name)
        state = _operator_state(self.snapshot, part, name, restored(self.types))
        return stored if state is None else converted_elements(state, stored)


TypesOfStates = Mapping[str, Mapping[str, TypeSerializer] | TypeSerializer]
"""New types as users give them: by state, and by path in it, or of the whole value."""


def types_by_path(states: TypesOfStates) -> TypesByPath:
    """Return new types by state and path."""
    return {name: {"": paths} if isinstance(paths, TypeSerializer) else dict(paths) for name, paths in states.items()}


def decide_migrations(
    engine: Engine, drafts: Sequence[OperatorDraft], types: Mapping[str, TypesByPath], serializers: TaskSerializers
) -> dict[str, OperatorMigration]:
    """Return the migration of the states of operators, by operator id.

    ``engine``: runs the tasks that read the values of states that change. ``drafts``: the operators; those without state in a
    snapshot are skipped. ``types``: new types that the user names, by operator id, state and path. ``serializers``: serializers
    that users register.
    """
    decisions: dict[str, _Decision] = {}
    for draft in drafts:
        if draft.source is not None:
            uid_hash = draft.identifier.uid_hash
            decisions[uid_hash] = _Decision(draft.source, draft.identifier, types.get(uid_hash, {}))
    named = {operator: portable(decision.types) for operator, decision in decisions.items()}
    for snapshot in {id(d.source.snapshot): d.source.snapshot for d in decisions.values()}.values():
        parts: list[ScanPart] = []
        for decision in decisions.values():
            if decision.source.snapshot is snapshot:
                parts += decision.parts()
        scan = ScanValues(snapshot_for_tasks(snapshot), named, serializers)
        for part, scanned in zip(parts, engine.run_parts(parts, scan) if parts else (), strict=True):
            decisions[part.operator].take(scanned)
    return {operator: decision.settled() for operator, decision in decisions.items()}


class _Decision:
    """Decision on one operator, before and after its values are read."""

    def __init__(self, source: SourceOperator, identifier: OperatorIdentifier, types: TypesByPath) -> None:
        self.source = source
        self.identifier = identifier
        self.types = types
        self.problem = ""
        self._scanned: dict[str, Scanned] = {}
        self.header: state_headers.KeyedHeader | None = None
        self.metas: Mapping[str, state_headers.StateMetaInfo] = {}
        try:
            self.header, self.metas = source.header, source.operator_metas
            self.first = self._migrate(types)
        except StateProcessorError as problem:
            self.problem = str(problem)
            self.first = OperatorMigration()
            return
        self._check_types()

    def _migrate(self, types: TypesByPath) -> OperatorMigration:
        keyed = migrate_keyed(self.header, types) if self.header is not None else None
        return OperatorMigration(keyed, {n: migrate_operator_state(m, types) for n, m in self.metas.items()}, types)

    def _check_types(self) -> None:
        label = f"operator {self.identifier}"
        for name, paths in self.types.items():
            state = self.first.states.get(name)
            if state is None:
                raise NotFoundError.naming_nearest("state", name, self.first.states, label)
            unused = next((path for path in paths if path not in state.used), None)
            if unused is not None:
                named_paths = ", ".join(map(repr, {**dict.fromkeys(n.path for n in state.changes), **state.undecided})) or "none"
                raise OptionError(
                    f"{label}, state {name!r}: a type is given for the path {unused!r}, where there is nothing that Kryo wrote; "
                    f"paths with such values: {named_paths}"
                )

    def _keyed_states(self) -> Iterable[str]:
        return self.first.keyed.states if self.first.keyed is not None else ()

    def parts(self) -> Iterator[ScanPart]:
        """Yield the parts of the snapshot that have to be read to decide whether, and how, values can be converted."""
        operator, uid_hash = self.source.operator, self.identifier.uid_hash
        to_read = self._to_be_read(self._keyed_states())
        if any(to_read):
            for keyed_split in plan_splits(self.source.handles):
                yield ScanPart(uid_hash, keyed_split, *to_read)
        to_read = self._to_be_read(self.first.operator)
        for subtask in operator.subtasks if any(to_read) else ():
            if subtask.managed_operator is not None:
                split = OperatorSplit(subtask.managed_operator, subtask.index, subtask_label(operator, subtask))
                yield ScanPart(uid_hash, split, *to_read)

    def _to_be_read(self, names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the states whose values are read, and the states whose entries are counted: empty states are left out."""
        read, counted = [], []
        for name in names:
            state = self.first.states[name]
            if state.problems:
                counted.append(name)
            elif state.is_changed:
                read.append(name)
        return tuple(read), tuple(counted)

    def take(self, results: Mapping[str, Scanned]) -> None:
        """Add the results for a part."""
        for name, scanned in results.items():
            self._scanned.setdefault(name, Scanned()).add(scanned)

    def settled(self) -> OperatorMigration:
        """Return the migration with the types that were found."""
        if self.problem:
            identifier = (self.identifier.uid, self.identifier.uid_hash)
            report = StateReport(*identifier, "", "all states", IMPOSSIBLE, (), (self.problem,))
            return OperatorMigration(reports=(report,))
        types = map_values(dict, self.types)
        problems: dict[str, list[str]] = {}
        for name in self.first.states:
            problems[name] = list(self._problems(name, types))
        final = self._migrate(types)
        reports = [self._report(final, name, problems[name]) for name in problems]
        return OperatorMigration(final.keyed, final.operator, types, tuple(reports))

    def _problems(self, name: str, types: dict[str, dict[str, TypeSerializer]]) -> Iterator[str]:
        """Yield the reasons why a state can't be migrated; add the types of its collections to ``types`` if they are known."""
        state, scanned = self.first.states[name], self._scanned.get(name, Scanned())
        if state.problems:
            for note in state.problems:
                yield f"{note}; {note.advice}"
            return
        if scanned.problem:
            yield scanned.problem
        for path, declared in state.undecided.items():
            elements = scanned.elements_by_path.get(path)
            decided = elements.decide() if elements is not None else "no value of it was written"
            if isinstance(decided, TypeSerializer):
                types.setdefault(name, {})[path] = decided
            elif not scanned.problem:
                yield self._unknown(name, path, declared, decided)

    def _unknown(self, name: str, path: str, declared: str, reason: str) -> str:
        uid, uid_hash = self.identifier.uid, self.identifier.uid_hash
        operator = repr(uid) if uid else f"OperatorIdentifier.for_uid_hash({uid_hash!r})"
        example = _EXAMPLES[declared]
        return (
            f"{path or 'the value'} is a {declared}, and {reason}; name the type that the new job declares: "
            f"types={{{operator}: {{{name!r}: {{{path!r}: {example}}}}}}}, or Types.KRYO({declared!r}) where the declaration "
            "has no plain classes as type arguments"
        )

    def _report(self, final: OperatorMigration, name: str, problems: Sequence[str]) -> StateReport:
        state = final.states[name]
        outcome = IMPOSSIBLE if problems else CONVERTED if state.is_changed else UNCHANGED
        if state.problems and not self._scanned.get(name, Scanned()).entries:
            outcome = LEFT_OUT
        changes = tuple(map(str, dict.fromkeys(state.changes)))
        identifier = (self.identifier.uid, self.identifier.uid_hash)
        return StateReport(*identifier, name, self._kind(name), outcome, changes, tuple(problems))

    def _kind(self, name: str) -> str:
        if name in self.metas:
            return describe_operator_state(self.metas[name]).kind
        assert self.header is not None
        return describe_keyed(self.header, index_by_name(self.header.states)[name]).kind


_LIST: Final = "Types.LIST(Types.STRING())"
_EXAMPLES: Final = {
    "java.util.List": _LIST,
    "java.util.Collection": _LIST,
    "java.lang.Iterable": _LIST,
    "java.util.Set": "Types.SET(Types.STRING())",
    "java.util.Map": "Types.MAP(Types.STRING(), Types.STRING())",
}
