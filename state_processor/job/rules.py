"""Flink's rules for restoring a state into a job that declares another one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from state_processor.backends.state.descriptions import BROADCAST, OPERATOR_KINDS
from state_processor.job.signature import KEY, MAP_KEY, NAMESPACE, ROLES, VALUE, StateSignature
from state_processor.job.verdicts import Outcome, StateVerdict
from state_processor.serializers.base import TypeSerializer, TypeSerializerSnapshot
from state_processor.serializers.compatibility import SchemaCompatibility, Verdict
from state_processor.serializers.runtime.ttl import TtlAwareSerializerSnapshot, TtlSerializer

HASHMAP: Final = "hashmap"
_FIRST_CHANGE_OF_TTL: Final = (2, 2)
"""The first Flink whose backends add time-to-live to a restored state, or take it away (``TtlAwareSerializer``)."""

_PARTS: Final = {KEY: "key", NAMESPACE: "namespace", MAP_KEY: "key of the map", VALUE: "value"}


@dataclass(frozen=True, slots=True)
class Target:
    """The job that restores: Flink version and state backend, ``None`` if unknown."""

    flink: str | None = None
    backend: str | None = None

    @property
    def version(self) -> tuple[int, int] | None:
        """Major and minor version; ``None`` if the minor version is unknown."""
        match = re.match(r"(\d+)\.(\d+)", self.flink or "")
        return None if match is None else (int(match[1]), int(match[2]))


def state_verdict(old: StateSignature, new: StateSignature | None, target: Target, drop: str) -> StateVerdict:
    """Return the outcome for a state of the snapshot.

    Parameters
    ----------
    old, new
        The state in the snapshot, and in the job; ``None`` if the job does not register it.
    target
        The job that restores.
    drop
        The command that drops the state.
    """
    if new is None:
        text = "the new job does not register the state; Flink keeps it in later savepoints"
        return StateVerdict(old.name, Outcome.UNUSED, text, () if old.is_timer else (drop,))
    if old.unread or new.unread:
        return StateVerdict(old.name, Outcome.UNKNOWN, old.unread or new.unread)
    if old.kind != new.kind:
        return _other_kind(old, new, drop)
    found = [one for part in ROLES for one in _part_verdict(part, old, new, target)]
    worst = max(found, key=lambda one: one[0].severity, default=(Outcome.RESTORES, ""))
    outcome = worst[0]
    reasons = "; ".join(reason for one, reason in found if one is outcome and reason)
    return StateVerdict(old.name, outcome, reasons, (drop,) if outcome is Outcome.REFUSED else ())


def _other_kind(old: StateSignature, new: StateSignature, drop: str) -> StateVerdict:
    """Return the outcome for a state of another kind (Flink: ``RegisteredKeyValueStateBackendMetaInfo.checkStateMetaInfo``)."""
    if old.is_keyed != new.is_keyed:
        kept = "keyed" if new.is_keyed else "operator"
        text = f"was {old.kind} and is {new.kind}: Flink does not find it as {kept} state, and starts with an empty state"
        return StateVerdict(old.name, Outcome.LOST, text, (drop,))
    if old.kind in OPERATOR_KINDS and BROADCAST in (old.kind, new.kind):
        text = f"was {old.kind} and is {new.kind}: Flink keeps lists and broadcast state apart, and starts with an empty state"
        return StateVerdict(old.name, Outcome.LOST, text, (drop,))
    text = f"was {old.kind} and is {new.kind}: Flink refuses another kind of state"
    return StateVerdict(old.name, Outcome.REFUSED, text, (drop,))


def _part_verdict(part: str, old: StateSignature, new: StateSignature, target: Target) -> Iterator[tuple[Outcome, str]]:
    """Yield the outcome for a part of a state, with the reason."""
    written, wanted = old.snapshots.get(part), new.snapshots.get(part)
    if written is None or wanted is None:
        return
    serializer = wanted.restore_serializer()
    before, after = old.type_text(part), new.type_text(part)
    change = f"{_PARTS[part]} was {before} and is {after}" if before != after else f"{_PARTS[part]} {after} has changed"
    if part == VALUE and old.ttl != new.ttl:
        yield _changed_ttl(old, new, target)
    verdict = _compatibility(written, serializer)
    if verdict.is_incompatible:
        yield Outcome.REFUSED, f"{change}: {verdict.reason}"
    elif verdict.verdict is Verdict.COMPATIBLE_AFTER_MIGRATION:
        yield _migration(part, old, change, target)
    else:
        yield Outcome.RESTORES, ""


def _migration(part: str, old: StateSignature, change: str, target: Target) -> tuple[Outcome, str]:
    """Return the outcome for a part that has to be migrated."""
    if part == VALUE or not old.is_keyed:
        return Outcome.MIGRATES, change
    if part == MAP_KEY and target.backend == HASHMAP:
        return Outcome.MIGRATES, change
    where = "" if part != MAP_KEY else " in RocksDB and ForSt"
    return Outcome.REFUSED, f"{change}: Flink does not migrate this part of a state{where}"


def _changed_ttl(old: StateSignature, new: StateSignature, target: Target) -> tuple[Outcome, str]:
    change = "the new job adds time-to-live" if new.ttl else "the new job drops time-to-live"
    version = target.version
    since = ".".join(map(str, _FIRST_CHANGE_OF_TTL))
    if version is None:
        return Outcome.REFUSED, f"{change}: Flink before {since} refuses this; name the version of the new job to check it"
    if version < _FIRST_CHANGE_OF_TTL:
        return Outcome.REFUSED, f"{change}: Flink before {since} refuses this"
    return Outcome.MIGRATES, change


def _compatibility(written: TypeSerializerSnapshot, wanted: TypeSerializer) -> SchemaCompatibility:
    was_timed = isinstance(written.restore_serializer(), TtlSerializer)
    if was_timed == isinstance(wanted, TtlSerializer):
        return written.resolve_schema_compatibility(wanted)
    aware = TtlAwareSerializerSnapshot.of(written)
    return aware.resolve_schema_compatibility(TtlAwareSerializerSnapshot.of(wanted.snapshot()))
