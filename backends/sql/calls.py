"""Aggregate calls of plans, and the fields of their accumulators (Flink: ``AggregateUtil``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from state_processor.backends.sql.plan import PlanField, PlanFields, distinct_names, plan_type
from state_processor.serializers.table.logical_types import AtomicType, LogicalType, TextType, TimestampType, TimeType

ROW_COUNT: Final = "row_count"
"""The field that counts rows of a key. Flink adds it if rows may be retracted, to detect empty groups."""

_WITH_DIGITS: Final = (2, 3)
_BIGINT: Final = AtomicType("BIGINT")
_INTERNAL: Final = re.compile(r"\$+(.+)\$\d+")
_COUNTED: Final = {"avg": "sum", "single_value": ""}
_WHOLE: Final = frozenset({"sum", "sum0", "min", "max", "count", "dense_rank", "row_number"})
"""Functions whose first field has the type of the result, if rows are not retracted."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call of an aggregate function."""

    function: str  # name of the function in lower case
    arguments: tuple[str, ...]  # the columns of the arguments
    distinct: bool  # whether each value counts once
    filter: str | None  # the column that selects rows, if any
    retracts: bool  # whether rows may be retracted
    type: LogicalType | None  # type of the result, nullable like accumulators
    # names of computed columns to their expressions; other columns are shown with their names
    texts: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    # whether accumulators keep the digits of ``TIME``, as since Flink 2.3; ``TIME(0)`` before
    has_digits: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        arguments = self.shown if self.arguments or self.function != "count" else "*"
        text = f"{self.function}({'distinct ' if self.distinct else ''}{arguments})"
        return text if self.filter is None else f"{text} filter {self.texts.get(self.filter, self.filter)}"

    @property
    def shown(self) -> str:
        """The columns of the arguments as text."""
        return ", ".join(self.texts.get(column, column) for column in self.arguments)

    @property
    def counts_rows(self) -> bool:
        """Whether this is ``count(*)``."""
        return str(self) == "count(*)"

    @property
    def has_view(self) -> bool:
        """Whether the accumulator has a view of the values."""
        return self.distinct and bool(self.arguments)

    def fields(self) -> Iterator[PlanField]:
        """Yield the fields of the accumulator. An object is one field; its class names its parts."""
        text = str(self)
        match self.function:
            case "avg" | "single_value":
                first = f"{text} {_COUNTED[self.function]}".strip()
                yield from (PlanField(first), PlanField(f"{text} count", None))
            case "sum" if self.retracts:
                yield from (PlanField(text, self.type), PlanField(f"{text} count", _BIGINT))
            case "listagg" if not self.retracts:
                yield from (PlanField(f"{text} delimiter"), PlanField(text, TextType()))  # whatever the argument is
            case "rank":
                yield from (PlanField(f"{text} row number", _BIGINT), PlanField(text, _BIGINT))
            case function if function in _WHOLE and not (self.retracts and function in ("min", "max")):
                yield PlanField(text, _kept_type(self.type))
            case _:
                yield PlanField(text)


def aggregate_calls(
    content: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
    retractions: Sequence[bool],
    texts: Mapping[str, str] | None = None,
    release: tuple[int, ...] = (),
) -> list[AggregateCall]:
    """Return calls from their JSON.

    ``content``: the JSON of each. ``columns``: the names of the columns that calls refer to. ``retractions``: whether rows may be
    retracted, for each call; the last value is for all further calls. ``texts``: see :class:`AggregateCall`. ``release``: the
    release of Flink that compiled the plan.
    """
    parsed = []
    for at, call in enumerate(content):
        filtered, result = int(call.get("filterArg", -1)), plan_type(call.get("type"))
        parsed.append(
            AggregateCall(
                function=_function(call),
                arguments=tuple(_column(columns, int(i)) for i in call.get("argList", ())),
                distinct=bool(call.get("distinct", False)),
                filter=None if filtered < 0 else _column(columns, filtered),
                retracts=bool(retractions[min(at, len(retractions) - 1)]) if retractions else False,
                type=None if result is None else replace(result, nullable=True),
                texts=texts or {},
                has_digits=release >= _WITH_DIGITS,
            )
        )
    return parsed


def _column(columns: Sequence[str], index: int) -> str:
    return columns[index] if index < len(columns) else f"#{index}"


def _kept_type(result: LogicalType | None) -> LogicalType | None:
    """Return the type of the first field of an accumulator, by the type of the result (Flink: ``MaxAggFunction``)."""
    match result:
        case TextType():
            return TextType()
        case TimeType():
            return None  # the Flink that runs the plan decides: see has_digits
        case TimestampType():
            return replace(result, kind="REGULAR")
        case _:
            return result


def _function(call: Mapping[str, Any]) -> str:
    internal = _INTERNAL.fullmatch(str(call.get("internalName", "")))
    if internal is not None:
        return internal[1].lower()
    catalog = str(call.get("catalogName", "")).rpartition(".")[2].strip("`")
    return (catalog or str(call.get("systemName", "")) or str(call.get("class", "")).rpartition(".")[2] or "aggregate").lower()


def accumulator(calls: Sequence[AggregateCall], *, counts_rows: bool) -> PlanFields:
    """Return the fields of the accumulators of some calls: fields of each call, row count, views of distinct values.

    ``counts_rows``: whether the operator needs the row count. A field is added unless ``count(*)`` is among the calls.
    """
    fields = [field for call in calls for field in call.fields()]
    if counts_rows and not any(call.counts_rows for call in calls):
        fields.append(PlanField(ROW_COUNT, _BIGINT))
    views = {call.arguments: call.shown for call in calls if call.has_view}
    fields += [PlanField(f"distinct({arguments})") for arguments in views.values()]
    return distinct_names(fields)


def distinct_views(calls: Sequence[AggregateCall]) -> list[tuple[str, ...]]:
    """Return the columns with views of distinct values, once for each view."""
    return list(dict.fromkeys(call.arguments for call in calls if call.has_view))
