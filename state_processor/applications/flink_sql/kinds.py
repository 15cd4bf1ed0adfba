"""Kinds of operators, from their names, or from the names and types of their states alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from state_processor.applications.flink_sql.operators.registry import OPERATORS, has_state

if TYPE_CHECKING:
    from state_processor.backends.state.descriptions import StateDescription

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
