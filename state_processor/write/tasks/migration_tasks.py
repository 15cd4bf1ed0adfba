"""Tasks of a migration to Flink 2.x: scan values, and convert them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from state_processor.backends.formats.operator_file import operator_header
from state_processor.backends.formats.serialized_entries import serialized_entries
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.read.keyed_splits import KeyedSplit
from state_processor.backends.read.operator_state import OperatorSplit, raw_elements
from state_processor.backends.state.descriptions import BROADCAST, describe_operator_state
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
from state_processor.serializers.evolution.migrated_values import Found, Observations
from state_processor.serializers.evolution.portable_type import PortableType
from state_processor.support.errors import StateProcessorError
from state_processor.write.tasks.keyed_tasks import PassThroughEntries
from state_processor.write.tasks.operator_state_tasks import PassThroughElements

PortableTypes = Mapping[str, Mapping[str, PortableType]]
"""New types by state and path, in a form that can be pickled."""


def portable(types: TypesByPath) -> PortableTypes:
    """Return types in a form that can be pickled."""
    return {state: {path: PortableType.of(type_) for path, type_ in paths.items()} for state, paths in types.items()}


def restored(types: PortableTypes) -> TypesByPath:
    """Invert :func:`portable`."""
    return {state: {path: type_.restore() for path, type_ in paths.items()} for state, paths in types.items()}


@dataclass
class Scanned:
    """Results of a scan of a state's values: elements of collections by path, and the reason why a value can't be converted.

    ``entries`` are counted for states that can't be migrated if they have any.
    """

    found: dict[str, Found] = field(default_factory=dict)
    problem: str = ""
    entries: int = 0

    def add(self, scanned: Scanned) -> None:
        """Add the results for another part."""
        for path, elements in scanned.found.items():
            if path in self.found:
                self.found[path].add(elements)
            else:
                self.found[path] = elements
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
        return Scanned(seen.found, problem)

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
