"""The states of a savepoint as a file of a project, and the changes that Flink refuses to restore."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final

from state_processor.backends.read.state_listing import surveys
from state_processor.backends.state.descriptions import StateDescription
from state_processor.backends.state.python_states import shown_name
from state_processor.options.access import SnapshotAccess
from state_processor.serializers import read_serializer_snapshot
from state_processor.serializers.base import TypeSerializer, write_versioned_snapshot
from state_processor.serializers.compatibility import SchemaCompatibility, Verdict
from state_processor.serializers.io import DataOutput
from state_processor.serializers.runtime.ttl import TtlAwareSerializerSnapshot, TtlSerializer
from state_processor.types.identifier import OperatorIdentifier

Schema = dict[str, dict[str, dict[str, Any]]]
"""States by operator and name: kind, types, TTL, and the snapshots of their serializers."""

_UNCHANGEABLE: Final = frozenset({"key", "namespace", "map_key"})
"""Parts of a state that Flink does not migrate."""
_SNAPSHOTS: Final = "serializers"


class StateSchemaError(AssertionError):
    """Flink would refuse to restore the states of a file into the job that wrote a savepoint."""


def states_of(path: str | PathLike[str], options: Mapping[str, Any]) -> tuple[Schema, dict[tuple[str, str], StateDescription]]:
    """Return the states of a savepoint, and their descriptions by operator and name."""
    snapshot = SnapshotAccess.among(options).open(path)
    operators = snapshot.metadata.operators
    schema: Schema = {}
    described: dict[tuple[str, str], StateDescription] = {}
    for operator, (states, unread) in zip(operators, surveys(snapshot, operators), strict=True):
        if unread:
            raise unread[0].error
        uid = operator.uid or operator.operator_id
        for name, (state, *_) in sorted(states.items()):
            schema.setdefault(uid, {})[shown_name(name)] = _entry(state)
            described[uid, shown_name(name)] = state
    return schema, described


def check_schema(path: str | PathLike[str], file: Path, options: Mapping[str, Any]) -> list[str]:
    """Compare a savepoint with the states of a file.

    Returns
    -------
    list of str
        Changes that Flink accepts.

    Raises
    ------
    StateSchemaError
        Flink would refuse the restore; the message lists the reasons.
    """
    written: Schema = json.loads(file.read_text("utf-8"))
    now, described = states_of(path, options)
    known = {OperatorIdentifier.of(uid).uid_hash: uid for uid in now}  # Flink 1.x records hashes only
    written = {known.get(OperatorIdentifier.of(uid).uid_hash, uid): states for uid, states in written.items()}
    refused = list(_refused(written, now, described))
    if refused:
        raise StateSchemaError(
            "\n".join(
                [f"Flink would refuse to restore the states of {file.name}:", *refused, "--update-state-schema accepts this"]
            )
        )
    return list(_accepted(written, now))


def write_schema(path: str | PathLike[str], file: Path, options: Mapping[str, Any]) -> None:
    """Write the states of a savepoint into a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(states_of(path, options)[0], indent=2, sort_keys=True) + "\n", "utf-8")


def _entry(state: StateDescription) -> dict[str, Any]:
    types = {f"{role}_type": str(serializer) for role, serializer in state.serializers.items()}
    snapshots = {role: _encoded(serializer) for role, serializer in state.serializers.items()}
    return {"kind": state.kind, **types, "ttl": state.has_ttl, _SNAPSHOTS: snapshots}


def _encoded(serializer: TypeSerializer) -> str:
    target = DataOutput()
    write_versioned_snapshot(serializer.snapshot(), target)
    return b64encode(target.to_bytes()).decode()


def _refused(written: Schema, now: Schema, described: Mapping[tuple[str, str], StateDescription]) -> Iterator[str]:
    for uid, states in written.items():
        if uid not in now:
            yield f"  operator {uid!r} is missing: Flink restores the others with --allowNonRestoredState only"
            continue
        for name, entry in states.items():
            where = f"  state {name!r} of operator {uid!r}"
            state = described.get((uid, name))
            if state is not None and state.kind != entry["kind"]:
                yield f"{where} was {entry['kind']} and is {state.kind}"
            elif state is not None:
                yield from (f"{where}: {reason}" for reason in _incompatible(entry, state))


def _incompatible(entry: Mapping[str, Any], state: StateDescription) -> Iterator[str]:
    for role, serializer in state.serializers.items():
        text = entry[_SNAPSHOTS].get(role)
        if text is None:
            continue
        verdict = _verdict(b64decode(text), serializer)
        change = f"{role} was {entry[f'{role}_type']} and is {serializer}"
        if verdict.is_incompatible:
            yield f"{change}: {verdict.reason}"
        elif role in _UNCHANGEABLE and verdict.verdict is Verdict.COMPATIBLE_AFTER_MIGRATION:
            yield f"{change}: Flink does not migrate this part of a state"


def _verdict(written: bytes, wanted: TypeSerializer) -> SchemaCompatibility:
    snapshot = read_serializer_snapshot(written, "state schema")
    was_timed = isinstance(snapshot.restore_serializer(), TtlSerializer)
    if was_timed == isinstance(wanted, TtlSerializer):
        return snapshot.resolve_schema_compatibility(wanted)
    aware = TtlAwareSerializerSnapshot.of(snapshot)
    return aware.resolve_schema_compatibility(TtlAwareSerializerSnapshot.of(wanted.snapshot()))


def _accepted(written: Schema, now: Schema) -> Iterator[str]:
    for uid in sorted({*written, *now}):
        before, after = written.get(uid, {}), now.get(uid, {})
        for name in sorted({*before, *after}):
            if name not in after:
                yield f"state {name!r} of operator {uid!r} is missing"
            elif name not in before:
                yield f"state {name!r} of operator {uid!r} is new"
            elif before[name] != after[name]:
                yield f"state {name!r} of operator {uid!r} has changed compatibly"
