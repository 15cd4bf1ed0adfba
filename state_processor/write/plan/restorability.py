"""Releases of Flink that restore states unchanged, by their serializer snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.state import state_headers
from state_processor.serializers.base import TypeSerializerSnapshot
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.evolution.migration import MIGRATE, Note, is_checked, state_obstacles
from state_processor.serializers.format_versions import Release
from state_processor.support.errors import StateProcessorError
from state_processor.write.plan.draft import OperatorDraft
from state_processor.write.plan.reports import IMPOSSIBLE, UNCHANGED, StateReport
from state_processor.write.plan.source_operator import SourceOperator

_LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A state that a release does not restore unchanged, and the reason.

    ``operator`` and ``state``: uid or hash, and name.
    """

    operator: str
    state: str
    note: Note  # the part of the state, the reason, and what to do

    def __str__(self) -> str:
        return f"{self.operator}/{self.state}: {self.note}; {self.note.advice}"


@dataclass(frozen=True, slots=True)
class RegisteredState:
    """A state and its serializer snapshots.

    ``name`` and ``kind``: name, and kind as Flink registers it.
    """

    operator: str  # uid or hash
    name: str
    kind: str
    snapshots: Mapping[str, TypeSerializerSnapshot]  # the serializer snapshots by their part of the state

    @classmethod
    def of(cls, operator: str, meta: state_headers.StateMetaInfo, key: TypeSerializerSnapshot | None = None) -> RegisteredState:
        """Return a state from its registration, and the serializer snapshot of the key of keyed state."""
        roles = {**({state_headers.KEY: key} if key is not None else {}), **meta.serializers}
        parts = {role.removesuffix("_SERIALIZER").lower(): snapshot for role, snapshot in roles.items()}
        return cls(operator, meta.name, meta.options.get(state_headers.KEYED_STATE_TYPE, meta.backend_type), parts)

    @property
    def has_only_bytes(self) -> bool:
        """True if values are bytes: code of a connector made them."""
        value = self.snapshots.get("value")
        return value is not None and isinstance(value.restore_serializer(), BytesSerializer)

    @property
    def is_checked(self) -> bool:
        """True if all serializers are known."""
        return all(map(is_checked, self.snapshots.values()))

    def obstacles(self, release: Release) -> Iterator[Obstacle]:
        """Yield the reasons why a release does not restore the state."""
        for note in state_obstacles(self.snapshots, self.kind, release):
            yield Obstacle(self.operator, self.name, note)


@dataclass(frozen=True, slots=True)
class RegisteredStates:
    """The states of a snapshot."""

    states: Sequence[RegisteredState]  # states whose headers were read
    unread: Sequence[str]  # a message for each operator whose states can't be read
    opaque: Sequence[str]  # coordinators and raw state: bytes of the code of the job

    @classmethod
    def of(cls, snapshot: Snapshot) -> RegisteredStates:
        """Read the headers of all operators."""
        return cls._of((SourceOperator(snapshot, operator), None) for operator in snapshot.metadata.operators)

    @classmethod
    def carried(cls, drafts: Iterable[OperatorDraft]) -> RegisteredStates:
        """Return the states of the source savepoint that a write keeps, as a migration converts them."""
        return cls._of((draft.source, draft) for draft in drafts if draft.source is not None)

    @classmethod
    def of_savepoint(cls, drafts: Sequence[OperatorDraft]) -> RegisteredStates:
        """Return the states of a savepoint that is written: states that it keeps, and new ones."""
        carried = cls.carried(drafts)
        return replace(carried, states=(*carried.states, *chain.from_iterable(map(_added, drafts))))

    @classmethod
    def _of(cls, sources: Iterable[tuple[SourceOperator, OperatorDraft | None]]) -> RegisteredStates:
        states, unread, opaque = [], [], []
        for source, draft in sources:
            opaque += list(_opaque(source.operator))
            try:
                states += list(_states(source, draft))
            except StateProcessorError as problem:
                unread.append(str(problem))
        return cls(states, unread, opaque)

    def obstacles(self, release: Release) -> list[Obstacle]:
        """Return the reasons why a release does not restore the states."""
        obstacles: list[Obstacle] = []
        for state in self.states:
            obstacles += state.obstacles(release)
        return obstacles

    @property
    def unchecked(self) -> tuple[str, ...]:
        """What only the code of the job reads: serializers that are not Flink's, bytes of connectors, coordinators, raw state."""
        unchecked = (f"{s.operator}/{s.name}" for s in self.states if not s.is_checked or s.has_only_bytes)
        return (*unchecked, *self.opaque, *self.unread)


def _opaque(operator: OperatorState) -> Iterator[str]:
    if operator.coordinator_state is not None:
        yield f"the coordinator of {operator.label}"
    if any(subtask.raw_keyed is not None or subtask.raw_operator is not None for subtask in operator.subtasks):
        yield f"the raw state of {operator.label}"


def _added(draft: OperatorDraft) -> Iterator[RegisteredState]:
    """Yield the states that are rewritten."""
    changes = draft.changes
    for name, state in (changes.added | changes.operator_descriptions).items():
        parts = {part: serializer.snapshot() for part, serializer in state.serializers.items()}
        yield RegisteredState(draft.label, name, state.kind, parts)


def _states(source: SourceOperator, draft: OperatorDraft | None) -> Iterator[RegisteredState]:
    operator = source.operator.label
    migration = draft.migration if draft is not None else None
    header = migration.keyed.new if migration is not None and migration.keyed is not None else source.header
    migrated: Mapping[str, state_headers.StateMetaInfo] = (
        {name: state.new for name, state in migration.operator.items()} if migration is not None else {}
    )
    for meta in header.states if header is not None else ():
        if draft is None or draft.keeps(meta.name):
            assert header is not None
            yield RegisteredState.of(operator, meta, header.key)
    for name, meta in source.operator_metas.items():
        if draft is None or draft.keeps(name):
            yield RegisteredState.of(operator, migrated.get(name, meta))


def refusal(obstacles: Sequence[Obstacle], flink_version: str, *, is_label: bool) -> str:
    """Return the message about states that a release does not restore; the label is the user's, or of the source savepoint."""
    convertible = any(obstacle.note.advice == MIGRATE for obstacle in obstacles)
    advice = f"call migrate({flink_version!r}), which converts what it can" if convertible else "do what each line says"
    lines = list(map(str, obstacles[:_LISTED]))
    rest = [f"and {len(obstacles) - _LISTED} more"] if len(obstacles) > _LISTED else []
    subject = "the savepoint as they are" if is_label else "copied operators as they are, and the source savepoint is for it"
    remedy = f"{advice}, or leave flink_version out" if is_label else advice
    return "\n".join(
        [
            f"flink_version={flink_version!r}: Flink {flink_version} does not restore {len(obstacles)} parts of the states of "
            f"{subject}; {remedy}:",
            *lines,
            *rest,
        ]
    )


def return_reports(draft: OperatorDraft, release: Release) -> tuple[StateReport, ...]:
    """Return whether each state of an operator goes back to an older release: unchanged, or not at all."""
    registered = RegisteredStates.carried([draft])
    identifier = (draft.identifier.uid, draft.identifier.uid_hash)
    reports = []
    for state in registered.states:
        problems = tuple(f"{o.note}; {o.note.advice}" for o in state.obstacles(release))
        reports.append(StateReport(*identifier, state.name, state.kind, IMPOSSIBLE if problems else UNCHANGED, (), problems))
    unread = (StateReport(*identifier, "", "all states", IMPOSSIBLE, (), (message,)) for message in registered.unread)
    return (*reports, *unread)
