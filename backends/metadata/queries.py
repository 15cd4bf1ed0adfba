"""The interface to the descriptions of queries of Flink SQL.

Reading and writing know that a snapshot may have the compiled plan of a query, and ask it for names and descriptions of states.
The application that describes operators is imported when a snapshot has a plan or an operator of a query.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol

from state_processor.serializers.table.rowdata import RowDataSerializer
from state_processor.support.mappings import index_by_name

if TYPE_CHECKING:
    from state_processor.backends.metadata.snapshot import Snapshot
    from state_processor.backends.metadata.snapshot_metadata import OperatorState
    from state_processor.backends.state.column_types import DeclaredNames
    from state_processor.backends.state.descriptions import StateDescription

_PROVIDER: Final = "state_processor.applications.flink_sql.descriptions"
"""The module that describes queries: its ``DESCRIPTIONS`` is a :class:`QueryDescriptions`."""

_CONNECTORS: Final[Mapping[str, str]] = {
    "SourceReaderState": "source",
    "writer_raw_states": "sink writer",
    "streaming_committer_raw_states": "sink committer",
    "bucket-states": "file writer",
}
_NAME: Final = re.compile(r"([A-Za-z]+)\[\d+\]")
_PLACE: Final = re.compile(r"(Source|Sink): .+\[\d+\].*")


class QueryOperator(Protocol):
    """An operator of a query."""

    @property
    def label(self) -> str:
        """The name of the operator, and its number in the plan: ``group-aggregate[5]``."""

    @property
    def transformation(self) -> str:
        """The kind of the operator: ``group-aggregate``."""

    def names(self, state: StateDescription) -> DeclaredNames:
        """Return the names of rows, by part of a state; parts without names are omitted."""

    def description(self, state: StateDescription) -> str | None:
        """Return a description of a state for users; ``None`` for an unknown state."""


class QueryPlan(Protocol):
    """The compiled plan of the query that wrote a snapshot."""

    def operator(self, operator_id: str) -> QueryOperator | None:
        """Return the operator with an id; ``None`` if the query does not have it."""

    def find(self, label: str, among: Iterable[str]) -> str | None:
        """Return the id of the operator with a label such as ``group-aggregate[5]``, from some ids.

        Returns: ``None`` if the text is not a label.
        """


@dataclass(frozen=True, slots=True)
class QueryDescriptions:
    """What describes queries and their operators."""

    with_plan: Callable[[Snapshot, str], Snapshot]  # the snapshot with a plan, from the text of the plan
    kind_of_name: Callable[[str], str | None]  # the kind of an operator by the name that Flink 2 records: ``Join``
    # the kind of an operator whose keys are rows, by its states
    kind_of_states: Callable[[Mapping[str, StateDescription]], str | None]


def query_descriptions() -> QueryDescriptions:
    """Return the descriptions of queries; they are imported here."""
    descriptions: QueryDescriptions = import_module(_PROVIDER).DESCRIPTIONS
    return descriptions


def operator_of_query(snapshot: Snapshot, operator: OperatorState) -> QueryOperator | None:
    """Return an operator as the plan of the snapshot has it; ``None`` without a plan, or if the plan does not have it."""
    return None if snapshot.query_plan is None else snapshot.query_plan.operator(operator.operator_id)


def kind_of_operator(states: Iterable[StateDescription], name: str | None = None) -> str | None:
    """Return the kind of an operator, such as ``join``; several kinds with the same states are separated by ``or``.

    Operators of Flink SQL have rows as keys.

    ``name``: the name of the operator, if it is known. Flink SQL has names such as ``GlobalGroupAggregate[5]``.

    Returns: ``None`` for an unknown kind, such as an operator of the DataStream API.
    """
    named = _kind_in(name)
    if named is not None:
        return named
    by_name = index_by_name(states)
    keyed = [state for state in by_name.values() if state.is_keyed]
    if not keyed:
        return next((kind for name, kind in _CONNECTORS.items() if name in by_name), None)
    if not all(isinstance(state.serializers.get("key"), RowDataSerializer) for state in keyed):
        return None
    return query_descriptions().kind_of_states(by_name)


def _kind_in(name: str | None) -> str | None:
    """Return the kind in a name of Flink 2, such as ``Join[7]``."""
    place = _PLACE.fullmatch(name or "")
    if place is not None:
        return place[1].lower()
    match = _NAME.fullmatch(name or "")
    return None if match is None else query_descriptions().kind_of_name(match[1])
