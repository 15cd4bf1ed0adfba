"""Kinds of operators, from the names and types of their states alone. Operators of Flink SQL have rows as keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from state_processor.serializers.table.rowdata import RowDataSerializer

if TYPE_CHECKING:
    from state_processor.backends.state.descriptions import StateDescription

_CONNECTORS: Final[Mapping[str, str]] = {
    "SourceReaderState": "source",
    "writer_raw_states": "sink writer",
    "streaming_committer_raw_states": "sink committer",
    "bucket-states": "file writer",
}
_NAME: Final = re.compile(r"([A-Za-z]+)\[\d+\]")
_PLACE: Final = re.compile(r"(Source|Sink): .+\[\d+\].*")
_UPPER: Final = re.compile(r"(?<!^)([A-Z])")


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
    from state_processor.backends.sql.operators.registry import OPERATORS  # most snapshots are not of a query

    operators = [o for o in OPERATORS if o.state_names and any(re.fullmatch(o.state_names, name) for name in by_name)]
    if len(operators) != 1:
        operators = [o for o in OPERATORS if o.has_states is not None and o.has_states(by_name)]
    return " or ".join(operator.kind or operator.names[0] for operator in operators) or None


def _kind_in(name: str | None) -> str | None:
    """Return the kind in a name of Flink 2, such as ``Join[7]``."""
    place = _PLACE.fullmatch(name or "")
    if place is not None:
        return place[1].lower()
    match = _NAME.fullmatch(name or "")
    if match is None:
        return None
    from state_processor.backends.sql.operators.registry import has_state

    kind = _UPPER.sub(r"-\1", match[1]).lower()
    kind = "upsert-materialize" if kind == "sink-materializer" else kind
    return kind if has_state(kind) else None
