"""Uids from the user. Snapshots of Flink 1.x record only the hashes of operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from state_processor.backends.metadata.operator_id import operator_id, uids_of_sink
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import LAYOUTS
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import OptionError

_SHOWN: Final = 5


def with_uids(snapshot: Snapshot, uids: Sequence[str]) -> Snapshot:
    """Give operators the uids with matching hashes. The other uids become ``unmatched_uids`` of the snapshot.

    The uid of a sink also matches the committers of the sink.

    ``snapshot``: the snapshot. Its recorded uids are preserved. ``uids``: the uids that the job may use.
    """
    operators = snapshot.metadata.operators
    uids_by_hash = {operator_id(uid): uid for uid in uids}
    derived = {operator_id(name): name for uid in uids for name in uids_of_sink(uid)}
    uids_by_id = {
        o.operator_id: name for o in operators if (name := uids_by_hash.get(o.operator_id) or derived.get(o.operator_id))
    }
    if operators and not uids_by_id:
        labels = some_of([o.label for o in operators])
        raise OptionError(
            f"{spelled('uids')}: expected uids of operators of {snapshot.directory}, found {some_of(uids)}\n"
            f"The operators are {labels}; pass the uids of the job that wrote the snapshot"
        )
    named = tuple(replace(o, uid=o.uid or uids_by_id.get(o.operator_id)) for o in operators)
    unmatched = tuple(uid for uid in uids if not uids_by_id.keys() & {operator_id(uid), *map(operator_id, uids_of_sink(uid))})
    return replace(snapshot, metadata=replace(snapshot.metadata, operators=named), unmatched_uids=unmatched)


def uids_hint(snapshot: Snapshot) -> str:
    """Return how to name the operators of a snapshot that records only hashes of uids; empty if operators have uids."""
    operators = snapshot.metadata.operators
    if LAYOUTS[snapshot.metadata.version].names or not operators or any(o.uid for o in operators):
        return ""
    return (
        "This snapshot records hashes of uids, as Flink 1.x does. A uid that you name finds its operator. To see uids here, pass "
        f"the uids of the job by {spelled('uids')}."
    )


def some_of(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    omitted = len(names) - _SHOWN
    return ", ".join(map(repr, names[:_SHOWN])) + (f" and {omitted:,} more" if omitted > 0 else "")
