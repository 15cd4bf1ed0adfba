"""The operators of Flink SQL: one table. To add an operator, describe it in a module of its family, and list the family here."""

from __future__ import annotations

import copyreg
from itertools import chain
from typing import Final

from state_processor.applications.flink_sql.bootstrap import History
from state_processor.applications.flink_sql.nodes import Operator, PlanOperator, kind_of_type
from state_processor.applications.flink_sql.operators import aggregates, joins, kept_rows, over, sinks, stateless, timed
from state_processor.errors import OptionError
from state_processor.support import by_each_key

_FAMILIES: Final = (aggregates, timed, over, kept_rows, joins, sinks, stateless)
OPERATORS: Final[tuple[Operator, ...]] = tuple(chain.from_iterable(family.OPERATORS for family in _FAMILIES))
_BY_KIND: Final = by_each_key((operator.kinds, operator) for operator in OPERATORS)
_WITH_STATE: Final = by_each_key((operator.names, operator) for operator in OPERATORS if operator.meaning is not None)
_WITH_HISTORY: Final = by_each_key((operator.names, operator) for operator in OPERATORS if operator.history is not None)


def operator_of(node_type: str) -> Operator:
    """Return the description of the operator of a type of nodes; an unknown operator has a description without fields."""
    kind = kind_of_type(node_type)
    return _BY_KIND.get(kind) or Operator(names=(kind,))


copyreg.pickle(Operator, lambda operator: (operator_of, operator.kinds[:1]))  # by its kind, for plans in tasks


def has_state(transformation: str) -> bool:
    """Return whether operators with this name are known to have state."""
    return transformation in _WITH_STATE


def history_of(operator: PlanOperator) -> History:
    """Return the content of an operator's state after some rows."""
    described = operator.operator or Operator(names=(operator.transformation,))
    try:
        if described.history is None:
            raise OptionError(f"{described.no_history}; supported are {', '.join(_WITH_HISTORY)}")
        return described.history(operator.node)
    except OptionError as error:
        raise OptionError(f"{operator.label}: {error}") from None
