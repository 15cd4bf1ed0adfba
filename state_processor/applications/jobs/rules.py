"""Flink's rules for restoring a state into a job that declares another one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from state_processor.applications.jobs.lost_values import lost_values
from state_processor.applications.jobs.signature import KEY, MAP_KEY, NAMESPACE, ROLES, VALUE, StateSignature
from state_processor.applications.jobs.undescribed import moved_fields, undescribed_parts
from state_processor.applications.jobs.verdicts import Cause, Outcome, StateVerdict
from state_processor.errors import UnknownSerializerError
from state_processor.serializers import KryoSerializer, SchemaCompatibility, TypeSerializer, TypeSerializerSnapshot
from state_processor.snapshots import RELEASES, Release
from state_processor.states import BROADCAST, OPERATOR_KINDS
from state_processor.types import (
    AsynchronousTtlSerializer,
    TtlAwareSerializerSnapshot,
    TtlSerializer,
    Verdict,
    is_described_by_kryo,
    is_same_in_kryo_2_and_5,
    state_obstacles,
    walk,
)

HASHMAP: Final = "hashmap"
_FIRST_CHANGE_OF_TTL: Final = (2, 2)
"""The first Flink whose backends add time-to-live to a restored state, or take it away (``TtlAwareSerializer``)."""

_ASYNCHRONOUS: Final = "ForSt does not migrate asynchronous state"
_PARTS: Final = {KEY: "key", NAMESPACE: "namespace", MAP_KEY: "key of the map", VALUE: "value"}


@dataclass(frozen=True, slots=True)
class RestoringJob:
    """The job that restores.

    ``flink`` and ``backend``: Flink version and state backend; ``None`` if unknown.
    """

    flink: str | None = None
    backend: str | None = None
    # classes, and operators by uid, hash or name, whose code the user declares to be unchanged
    unchanged: frozenset[str] = frozenset()
    changes_kryo: bool = False  # whether the snapshot and the job are of different major versions of Flink
    is_unchanged: bool = False  # whether the operator is declared to be unchanged
    migrates: bool = True  # whether the backend changes values to another type. ForSt does not for asynchronous state.
    starts_asynchronous: bool = False  # whether ForSt restores synchronous state for the asynchronous API
    may_ignore_timers: bool = False  # whether timers are in files that a job with timers on the heap does not look at

    @property
    def version(self) -> tuple[int, int] | None:
        """Major and minor version; ``None`` if the minor version is unknown."""
        match = re.match(r"(\d+)\.(\d+)", self.flink or "")
        return None if match is None else (int(match[1]), int(match[2]))

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases that the job may have: one, or the first and the last of a major version, or none if it is unknown."""
        if self.version is not None:
            return (self.version,)
        releases = [release for release in RELEASES if str(release[0]) == (self.flink or "").partition(".")[0]]
        return (releases[0], releases[-1]) if releases else ()


def state_verdict(old: StateSignature, new: StateSignature | None, target: RestoringJob) -> StateVerdict:
    """Return the outcome for a state of the snapshot.

    ``old`` and ``new``: the state in the snapshot, and in the job; ``None`` if the job does not register it. ``target``: the job
    that restores.
    """
    verdicts = list(_release_verdicts(old, target))
    if new is None:
        text = "the new job does not register the state; Flink keeps it in later savepoints"
        verdicts.append(StateVerdict(old.name, Outcome.UNUSED, text, cause=Cause.STATE_UNUSED))
    elif old.unread or new.unread:
        verdicts.append(StateVerdict(old.name, Outcome.UNKNOWN, old.unread or new.unread, cause=Cause.CODE))
    elif old.kind != new.kind:
        verdicts.append(_other_kind(old, new))
    else:
        verdicts += [verdict for part in ROLES for verdict in _part_verdicts(part, old, new, target)]
    return worst_of(old.name, verdicts)


def _release_verdicts(state: StateSignature, target: RestoringJob) -> Iterator[StateVerdict]:
    """Yield verdicts on serializers that the Flink of the new job does not read: those that no possible release reads."""
    notes_of_releases = [
        dict.fromkeys(state_obstacles(state.snapshots, state.kind, release, kryo=False)) for release in target.releases
    ]
    for note in notes_of_releases[0] if notes_of_releases else ():
        if all(note in notes for notes in notes_of_releases):
            yield StateVerdict(state.name, Outcome.REFUSED, f"{note}; {note.advice}", cause=Cause.VERSION)


def worst_of(name: str, verdicts: Sequence[StateVerdict]) -> StateVerdict:
    """Return the worst of the verdicts on a state, with the reasons of all that are as bad."""
    worst = max(verdicts, key=lambda verdict: verdict.outcome.severity, default=StateVerdict(name, Outcome.RESTORES))
    reasons = (verdict.reason for verdict in verdicts if verdict.outcome is worst.outcome and verdict.reason)
    return replace(worst, state=name, reason="; ".join(dict.fromkeys(reasons)))


def _other_kind(old: StateSignature, new: StateSignature) -> StateVerdict:
    """Return the outcome for a state of another kind (Flink: ``RegisteredKeyValueStateBackendMetaInfo.checkStateMetaInfo``)."""
    change, outcome = f"was {old.kind} and is {new.kind}", Outcome.LOST
    if old.is_keyed != new.is_keyed:
        api = "keyed" if new.is_keyed else "operator"
        text = f"{change}: Flink does not find it as {api} state, and starts with an empty state"
    elif old.kind in OPERATOR_KINDS and BROADCAST in (old.kind, new.kind):
        text = f"{change}: Flink keeps lists and broadcast state apart, and starts with an empty state"
    else:
        text, outcome = f"{change}: Flink refuses another kind of state", Outcome.REFUSED
    return StateVerdict(old.name, outcome, text, cause=Cause.KIND)


def _part_verdicts(part: str, old: StateSignature, new: StateSignature, target: RestoringJob) -> Iterator[StateVerdict]:
    """Yield the verdicts on a part of a state."""
    written, required = old.snapshots.get(part), new.snapshots.get(part)
    if written is None or required is None:
        return
    before, after = old.type_text(part), new.type_text(part)
    change = f"{_PARTS[part]} was {before} and is {after}" if before != after else f"{_PARTS[part]} {after} has changed"
    if part == VALUE and old.ttl != new.ttl:
        outcome, text = _changed_ttl(new, target)
        yield StateVerdict(old.name, outcome, text, cause=Cause.TIME_TO_LIVE, part=part)
    serializer = required.restore_serializer()
    try:
        verdict = _compatibility(written, serializer)
    except UnknownSerializerError as error:
        yield StateVerdict(old.name, Outcome.UNKNOWN, str(error), cause=Cause.CODE, part=part)
        return
    if verdict.is_incompatible:
        apis = {_is_of_api(written.restore_serializer()), _is_of_api(serializer)}
        cause = Cause.ASYNCHRONOUS if apis == {True, False} else Cause.TYPE
        yield StateVerdict(old.name, Outcome.REFUSED, f"{change}: {verdict.reason}", cause=cause, part=part)
    elif verdict.verdict is Verdict.COMPATIBLE_AFTER_MIGRATION:
        outcome, text = _migration(part, old, change, target)
        yield StateVerdict(old.name, outcome, text, cause=Cause.TYPE, part=part)
        lost = dict.fromkeys(lost_values(_without_ttl(written.restore_serializer()), _without_ttl(serializer)))
        if lost:
            yield StateVerdict(old.name, Outcome.CHANGED, "; ".join(lost), cause=Cause.FIELDS, part=part)
    if not verdict.is_incompatible:
        yield from _unseen(part, old, serializer, target)


def _unseen(part: str, old: StateSignature, serializer: TypeSerializer, target: RestoringJob) -> Iterator[StateVerdict]:
    """Yield the verdicts on parts of equal types that depend on code, or on the version of Kryo."""
    if target.changes_kryo:
        for inner in walk(serializer):
            if isinstance(inner, KryoSerializer) and is_described_by_kryo(inner) and not is_same_in_kryo_2_and_5(inner):
                text = f"{inner} has other bytes in Kryo 2 of Flink 1.x than in Kryo 5 of Flink 2.x; migrate converts 1.x to 2.x"
                yield StateVerdict(old.name, Outcome.CHANGED, text, cause=Cause.KRYO_VERSION, part=part)
    written = old.serializer(part)
    moved = () if written is None else moved_fields(written, serializer)
    for unseen in (*undescribed_parts(serializer, is_key=part == KEY), *moved):
        is_declared = unseen.subject in target.unchanged if unseen.subject else target.is_unchanged
        if not is_declared or (target.changes_kryo and unseen.is_kryo):
            yield StateVerdict(*(old.name, Outcome.UNKNOWN, unseen.reason), cause=unseen.cause, part=part, subject=unseen.subject)


def _migration(part: str, old: StateSignature, change: str, target: RestoringJob) -> tuple[Outcome, str]:
    """Return the outcome for a part that has to be migrated."""
    if part == VALUE and old.is_keyed and not target.migrates:
        return Outcome.REFUSED, f"{change}: {_ASYNCHRONOUS}"
    if part == VALUE or not old.is_keyed:
        return Outcome.MIGRATES, change
    if part == MAP_KEY and target.backend == HASHMAP:
        return Outcome.MIGRATES, change
    backends = "" if part != MAP_KEY else " in RocksDB and ForSt"
    return Outcome.REFUSED, f"{change}: Flink does not migrate this part of a state{backends}"


def _changed_ttl(new: StateSignature, target: RestoringJob) -> tuple[Outcome, str]:
    change = "the new job adds time-to-live" if new.ttl else "the new job drops time-to-live"
    version = target.version
    since = ".".join(map(str, _FIRST_CHANGE_OF_TTL))
    if version is None:
        return Outcome.REFUSED, f"{change}: Flink before {since} refuses this; name the version of the new job to check it"
    if version < _FIRST_CHANGE_OF_TTL:
        return Outcome.REFUSED, f"{change}: Flink before {since} refuses this"
    if not target.migrates:
        return Outcome.REFUSED, f"{change}: {_ASYNCHRONOUS}"
    return Outcome.MIGRATES, change


def _is_of_api(serializer: TypeSerializer) -> bool | None:
    """Return whether values with time-to-live belong to the asynchronous API; ``None`` without time-to-live."""
    return isinstance(serializer, AsynchronousTtlSerializer) if isinstance(serializer, TtlSerializer) else None


def _without_ttl(serializer: TypeSerializer) -> TypeSerializer:
    return serializer.value if isinstance(serializer, TtlSerializer) else serializer


def _compatibility(written: TypeSerializerSnapshot, required: TypeSerializer) -> SchemaCompatibility:
    was_timed = isinstance(written.restore_serializer(), TtlSerializer)
    if was_timed == isinstance(required, TtlSerializer):
        return written.resolve_schema_compatibility(required)
    aware = TtlAwareSerializerSnapshot.of(written)
    return aware.resolve_schema_compatibility(TtlAwareSerializerSnapshot.of(required.snapshot()))
