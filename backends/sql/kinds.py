"""Kinds of operators, from the names and types of their states alone. Operators of Flink SQL have rows as keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from state_processor.backends.sql.meaning import has_state
from state_processor.backends.state.descriptions import StateDescription
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.serializers.traversal import walk

_OF_QUERIES: Final[tuple[tuple[str, str], ...]] = (
    (r"multi-join-input-\d+", "multi-join"),
    (r"IntervalJoin(Left|Right)(Cache|TimerState)", "interval-join"),
    (r"next-index", "temporal-join"),
    (r"window-aggs", "window-aggregate"),
    (r"window_rank", "window-rank"),
    (r"window_deduplicate", "window-deduplicate"),
    (r"data-state(-with-append|-with-update)?|sorted-map|Top1-Rank-State|rankEnd", "rank"),
    (r"nfaStateName|sharedBuffer-.*|eventQueuesStateName", "match"),
    (r"session-window-tvf-.*", "window-table-function"),
    (r"already-emitted-state-boolean|waiting-to-emit-on-timer", "deduplicate"),
    (r"dataState|sortState", "temporal-sort"),
    (r"rowToSqnState|sqnToNodeState|highestSqnState", "upsert-materialize"),
    (r"inputState|accMapState|valueMapState|sortedListState|idState|processedCountState|lastTriggeringTsState", "over-aggregate"),
)
"""Names of states that one kind of operators has. Other names are shared."""
_CONNECTORS: Final[Mapping[str, str]] = {
    "SourceReaderState": "source",
    "writer_raw_states": "sink writer",
    "streaming_committer_raw_states": "sink committer",
    "bucket-states": "file writer",
}
_NAME: Final = re.compile(r"([A-Za-z]+)\[\d+\]")
_PLACE: Final = re.compile(r"(Source|Sink): .+\[\d+\].*")
_UPPER: Final = re.compile(r"(?<!^)([A-Z])")
_NAMES: Final = tuple((re.compile(pattern), kind) for pattern, kind in _OF_QUERIES)


def kind_of(states: Iterable[StateDescription], name: str | None = None) -> str | None:
    """Return the kind of an operator, such as ``join``; several kinds with the same states are separated by ``or``.

    ``name``: the name of the operator, if it is known. Flink SQL has names such as ``GlobalGroupAggregate[5]``.

    Returns: ``None`` for an unknown kind, such as an operator of the DataStream API.
    """
    named = _kind_in(name)
    if named is not None:
        return named
    by_name = {state.name: state for state in states}
    keyed = [state for state in by_name.values() if state.is_keyed]
    if not keyed:
        return next((kind for name, kind in _CONNECTORS.items() if name in by_name), None)
    if not all(isinstance(state.serializers.get("key"), RowDataSerializer) for state in keyed):
        return None
    kinds = {kind for state in by_name for pattern, kind in _NAMES if pattern.fullmatch(state)}
    if len(kinds) == 1:
        return kinds.pop()
    return next((kind for name, decide in _SHARED.items() if name in by_name and (kind := decide(by_name))), None)


def _kind_in(name: str | None) -> str | None:
    """Return the kind in a name of Flink 2, such as ``Join[7]``."""
    place = _PLACE.fullmatch(name or "")
    if place is not None:
        return place[1].lower()
    match = _NAME.fullmatch(name or "")
    kind = _UPPER.sub(r"-\1", match[1]).lower() if match is not None else ""
    kind = "upsert-materialize" if kind == "sink-materializer" else kind
    return kind if has_state(kind) else None


_States = Mapping[str, StateDescription]


def _join(states: _States) -> str | None:
    if "right-records" not in states and "left-records" not in states:
        return None
    state = states.get("left-records") or states["right-records"]
    return "join" if isinstance(state.serializers.get("namespace"), VoidNamespaceSerializer) else "window-join"


def _aggregate(states: _States) -> str:
    return "over-aggregate" if "cleanupTsState" in states else "group-aggregate"


def _deduplicate(states: _States) -> str:
    has_rows = any(isinstance(part, RowDataSerializer) for part in walk(states["deduplicate-state"].value))
    return "deduplicate or changelog-normalize" if has_rows else "deduplicate"


_SHARED: Final[Mapping[str, Callable[[_States], str | None]]] = {
    "left-records": _join,
    "right-records": _join,
    "left": lambda states: "temporal-join" if "right" in states else None,
    "right": lambda states: "temporal-join" if "left" in states else None,
    "accState": _aggregate,
    **dict.fromkeys(("distinctAcc_0", "distinctAcc_0_null_state"), lambda _: "group-aggregate"),
    "deduplicate-state": _deduplicate,
    "list": lambda _: "upsert-materialize",
    "values": lambda _: "upsert-materialize",
}
"""Decisions by the names of states that several kinds of operators have."""
