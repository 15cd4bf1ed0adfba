"""Migration of ``OVER`` aggregates to another plan: their accumulators, and the rows that they keep.

States of unbounded windows by row time have two versions. Both keep accumulators, and rows by their times. The first version
has one timer per key, for the next watermark (Flink: ``AbstractRowTimeUnboundedPrecedingOver``). The second version has a
timer for each time of waiting rows, and loses rows without a timer (``RowTimeUnboundedPrecedingOverFunctionV2``). The first
version also works with the timers of the second version: each timer processes all rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from state_processor.backends.sql.accumulator_changes import Calls, changed_calls
from state_processor.backends.sql.calls import AggregateCall
from state_processor.backends.sql.plan import PlanNode
from state_processor.backends.sql.row_changes import (
    VALUE,
    ChangedNode,
    StateChange,
    StateChanges,
    Successor,
    changed_row,
    label,
    same_types,
)
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
    """Return the changes of an ``OVER`` aggregate with the same windows in both plans.

    Raises
    ------
    StateMigrationError
        If a version is not known, or a new call would retract kept rows that it has not counted.
    """
    before, after = old.inputs[0], new.inputs[0]
    order = [int(f["index"]) for group in old.node.at("overSpec", "groups", default=()) for f in _order(group)]
    same_types(before, after, before.picked(order))
    rows = StateChange({VALUE: changed_row(before, after)})
    added = set(after.columns) - set(before.columns)

    def is_inert(call: AggregateCall) -> bool:
        """Return whether a call ignores all kept rows: a column that is null in them is its argument or filter."""
        return call.function in _IGNORING_NULL and bool(added & {*call.arguments, call.filter})

    calls = changed_calls("accState", Calls.of_over(old), Calls.of_over(new), (before, after), is_inert)
    if not (rows.is_same and calls["accState"].is_same) and not _is_by_time(old.node):
        raise StateMigrationError(
            f"{label(new.node)} orders rows by other columns than time, and computes its calls again for later rows if a row "
            "comes in between; its calls and columns have to stay unchanged"
        )
    timers = _new_timers(old, new)
    return {**calls, "inputState": replace(rows, successor=timers)}


_IGNORING_NULL: Final = frozenset(("count", "sum", "sum0", "avg"))


def _order(group: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (group.get("orderBy") or {}).get("fields") or ()


def _is_by_time(node: PlanNode) -> bool:
    """Return whether rows are ordered by a time attribute."""
    groups = node.at("overSpec", "groups", default=())
    types = [node.left[int(f["index"])].type for group in groups for f in _order(group)]
    return all(isinstance(type_, TimestampType) and type_.kind in ("ROWTIME", "PROCTIME") for type_ in types)


def _new_timers(old: ChangedNode, new: ChangedNode) -> Successor | None:
    """Return the timers that the second version of the states needs."""
    versions = [_unbounded_version(side.node) for side in (old, new)]
    for side, version in zip((old, new), versions, strict=True):
        if version not in (None, _FIRST, _SECOND) and versions[0] != versions[1]:
            raise StateMigrationError(f"{label(side.node)} has unboundedOverVersion {version}, expected {_FIRST} or {_SECOND}")
    return _TIMERS if versions == [_FIRST, _SECOND] else None


def _unbounded_version(node: PlanNode) -> int | None:
    """Return the version of the states of an unbounded ``OVER`` by row time. The states of other aggregates do not differ."""
    for group in node.at("overSpec", "groups", default=()):
        if (group.get("lowerBound") or {}).get("kind") != "UNBOUNDED_PRECEDING":
            continue
        times = [node.left[int(f["index"])].type for f in _order(group)]
        if any(isinstance(time, TimestampType) and time.kind == "ROWTIME" for time in times):
            return int(node.at("unboundedOverVersion", default=_FIRST))
    return None
