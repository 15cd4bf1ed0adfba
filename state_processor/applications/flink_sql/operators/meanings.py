"""Meanings of states that several operators have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from state_processor.applications.flink_sql.nodes import Meaning, PlanNode
from state_processor.serializers import RowDataSerializer, TypeSerializer
from state_processor.states import StateDescription
from state_processor.types import walk

TIMES: Final = {
    "lastTriggeringTsState": "the time of the last processed rows, in epoch milliseconds",
    "cleanupTsState": "the time of the cleanup of state, in epoch milliseconds",
    "processedCountState": "the number of processed rows",
    "idState": "the number of the next row",
}
"""States of operators by time."""

WINDOWS: Final = {
    "session-window-mapping": "session windows: each window with rows, and the window with its state",
    "merging-window-set": "session windows: each window with rows, and the window with its state",
    "previous-aggs": "emitted results, for retractions",
    "watermark": "the watermark of the operator",
}
"""States of operators by window."""


def by_name(texts: Mapping[str, str], *rows: Mapping[str, str]) -> Callable[[PlanNode, StateDescription], Meaning | None]:
    """Return the meanings of states by their names. ``rows``: states whose values are rows of an input, for each input."""

    def find(node: PlanNode, state: StateDescription) -> Meaning | None:
        for at, texts_of_rows in enumerate(rows):
            if state.name in texts_of_rows:
                return Meaning(texts_of_rows[state.name], {"value": node.input_row(at)})
        return Meaning(texts[state.name]) if state.name in texts else None

    return find


def has_rows(part: TypeSerializer) -> bool:
    """Return whether a part of a state contains rows."""
    return any(isinstance(serializer, RowDataSerializer) for serializer in walk(part))
