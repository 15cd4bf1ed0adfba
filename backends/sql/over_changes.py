"""Migration of ``OVER`` aggregates to another plan: states of unbounded windows by row time have two versions.

Both versions keep accumulators, and rows by their times. The first version has one timer per key, for the next watermark (Flink:
``AbstractRowTimeUnboundedPrecedingOver``). The second version has a timer for each time of waiting rows, and loses rows without a
timer (``RowTimeUnboundedPrecedingOverFunctionV2``). The first version also works with the timers of the second version: each
timer processes all rows.
"""

from __future__ import annotations

from typing import Final

from state_processor.backends.sql.plan import PlanNode
from state_processor.backends.sql.row_changes import ChangedNode, StateChange, StateChanges, Successor, label
from state_processor.backends.state.descriptions import EVENT_PREFIX, EVENT_TIMER
from state_processor.serializers.errors import StateMigrationError
from state_processor.serializers.table.logical_types import TimestampType

_FIRST, _SECOND = 1, 2

_TIMERS: Final = Successor(
    f"{EVENT_PREFIX}user-timers",
    EVENT_TIMER,
    {"timestamp": "map_key"},
    "a timer for each time of rows that wait for the watermark",
)


def changed_over(old: ChangedNode, new: ChangedNode) -> StateChanges:
    """Return the changes of an ``OVER`` aggregate with the same function in both plans.

    Raises
    ------
    StateMigrationError
        If a version is not known.
    """
    versions = [_unbounded_version(side.node) for side in (old, new)]
    for side, version in zip((old, new), versions, strict=True):
        if version not in (None, _FIRST, _SECOND) and versions[0] != versions[1]:
            raise StateMigrationError(f"{label(side.node)} has unboundedOverVersion {version}, expected {_FIRST} or {_SECOND}")
    return {"inputState": StateChange(successor=_TIMERS)} if versions == [_FIRST, _SECOND] else {}


def _unbounded_version(node: PlanNode) -> int | None:
    """Return the version of the states of an unbounded ``OVER`` by row time. The states of other aggregates do not differ."""
    for group in node.at("overSpec", "groups", default=()):
        if (group.get("lowerBound") or {}).get("kind") != "UNBOUNDED_PRECEDING":
            continue
        times = [node.left[int(f["index"])].type for f in (group.get("orderBy") or {}).get("fields") or ()]
        if any(isinstance(time, TimestampType) and time.kind == "ROWTIME" for time in times):
            return int(node.at("unboundedOverVersion", default=_FIRST))
    return None
