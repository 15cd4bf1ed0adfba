"""The views of a snapshot and their names.

An operator of a plan has the views under its label, too, such as ``group-aggregate[5]``.
An operator is a view of all its keyed states side by side, and a schema that has a view for each of its states and one of its
timers. Databases ignore case in names: a name that is taken gets a number at its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Final

import pyarrow as pa

from state_processor import OperatorIdentifier
from state_processor.snapshots import TABLES, Snapshot, operator_of_query
from state_processor.states import (
    TIMER_KIND,
    KeyedDescription,
    StateRequest,
    StateScan,
    StoredOperator,
    Survey,
    shown_name,
    surveys,
)

TIMERS: Final = "timers"
"""The view of an operator's timers."""
_RESERVED: Final = ("information_schema", "main", "pg_catalog", "system", "temp")
"""Schemas that databases have themselves."""
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS: Final = """
all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast check collate collation
column columns concurrently constraint create cross default deferrable desc describe distinct do else end except false fetch for
foreign freeze from full generated glob group having ilike in initially inner intersect into is isnull join lambda lateral
leading left like limit map natural not notnull null offset on only or order outer overlaps pivot pivot_longer pivot_wider
placing positional primary qualify references returning right select semi show similar some struct summarize symmetric table
tablesample then to trailing true try_cast tuple union unique unpack unpivot using variadic verbose when where window with
"""
_KEYWORDS: Final = frozenset(_WORDS.split())
"""Words that are names in quotes only."""


@dataclass(frozen=True)
class View:
    """A view of a state, of all keyed states of an operator, of its timers, or of a table about the snapshot.

    ``operator``, ``state`` and ``kind``: where the state is; ``None`` for a table about the snapshot.
    """

    schema: str | None  # the operator's name; ``None`` for views of operators and tables
    name: str
    open: Callable[[], StateScan | pa.Table]  # opens the state, or makes the table about the snapshot
    operator: OperatorIdentifier | None = None
    state: str | None = None
    kind: str | None = None

    @property
    def label(self) -> str:
        """The name as queries have it, in quotes where it needs them."""
        return ".".join(quoted(part) for part in (self.schema, self.name) if part is not None)


def quoted(name: str) -> str:
    """Return a name as SQL has it: in double quotes, unless it is a plain word."""
    is_plain = _PLAIN.fullmatch(name) and name.lower() not in _KEYWORDS
    return name if is_plain else '"' + name.replace('"', '""') + '"'


def views_of(snapshot: Snapshot, options: Mapping[str, Any]) -> list[View]:
    """Return the views of a snapshot: tables about it, then the views of each operator.

    The headers of all states are read. States that can't be read have views, whose scans raise the reason.

    ``snapshot``: the open snapshot. ``options``: keyword arguments of reading and opening.
    """
    names: set[str] = set()
    schemas = set(_RESERVED)
    views = [View(None, free_name(name, names), partial(table, snapshot)) for name, table in TABLES.items()]
    operators = snapshot.metadata.operators
    for operator, surveyed in zip(operators, surveys(snapshot, operators), strict=True):
        if surveyed[0] or surveyed[1]:
            opened = _Opener(StoredOperator(snapshot, operator, surveyed), options)
            planned = operator_of_query(snapshot, operator)
            for name in dict.fromkeys((operator.label, operator.label if planned is None else planned.label)):
                views += _views_of_operator(surveyed, opened, free_name(name, schemas), partial(free_name, name, names))
    return views


@dataclass(frozen=True)
class _Opener:
    """Opens states of an operator whose headers were read."""

    stored: StoredOperator
    options: Mapping[str, Any]

    def view(self, schema: str | None, name: str, state: str | None, kind: str | None = None) -> View:
        """Return a view of a state."""
        operator = OperatorIdentifier.for_uid_hash(self.stored.operator.operator_id)
        request = StateRequest(operator, state, kind, None, self.options)
        return View(schema, name, partial(request.open, self.stored), operator, state, kind)


def _views_of_operator(surveyed: Survey, opened: _Opener, schema: str, free: Callable[[], str]) -> Iterator[View]:
    states, unread = surveyed
    used: set[str] = set()
    plain = {name: variants[0] for name, variants in states.items() if not variants[0].is_timer}
    if any(isinstance(state, KeyedDescription) and state.in_void_namespace for state in plain.values()):
        yield opened.view(None, free(), None)
    names = [*plain, *(u.name for u in unread if u.name is not None and u.name not in states)]
    for name in sorted(names):
        yield opened.view(schema, free_name(shown_name(name), used), name)
    if len(plain) < len(states):
        yield opened.view(schema, free_name(TIMERS, used), None, TIMER_KIND)


def free_name(name: str, used: set[str]) -> str:
    """Return a name that is not taken, and take it."""
    numbers = count(2)
    free = name
    while free.casefold() in used:
        free = f"{name}_{next(numbers)}"
    used.add(free.casefold())
    return free
