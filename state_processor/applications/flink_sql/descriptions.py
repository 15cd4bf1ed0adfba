"""Descriptions of queries for reading and writing: what :mod:`state_processor.backends.metadata.queries` asks.

Without a plan, the kinds of operators follow from their names, or from the names and types of their states.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from state_processor.applications.flink_sql.operators.registry import OPERATORS, has_state
from state_processor.applications.flink_sql.plan import CompiledPlan
from state_processor.applications.flink_sql.query_operators import with_query
from state_processor.snapshots import QueryDescriptions, Snapshot
from state_processor.states import StateDescription

_UPPER: Final = re.compile(r"(?<!^)([A-Z])")


def kind_of_states(states: Mapping[str, StateDescription]) -> str | None:
    """Return the kind of an operator with some states by name; several kinds with the same states are separated by ``or``."""
    operators = [o for o in OPERATORS if o.state_names and any(re.fullmatch(o.state_names, name) for name in states)]
    if len(operators) != 1:
        operators = [o for o in OPERATORS if o.has_states is not None and o.has_states(states)]
    return " or ".join(operator.kind or operator.names[0] for operator in operators) or None


def kind_of_name(name: str) -> str | None:
    """Return the kind of an operator by its name in snapshots of Flink 2, such as ``GlobalGroupAggregate``."""
    kind = _UPPER.sub(r"-\1", name).lower()
    kind = "upsert-materialize" if kind == "sink-materializer" else kind
    return kind if has_state(kind) else None


def _with_plan(snapshot: Snapshot, text: str) -> Snapshot:
    return with_query(snapshot, CompiledPlan.parse(text))


DESCRIPTIONS: Final = QueryDescriptions(_with_plan, kind_of_name, kind_of_states)
