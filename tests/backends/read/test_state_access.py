from __future__ import annotations

import pytest

from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.support.errors import NotFoundError
from tests.backends import state_files as f
from tests.backends.state_files import LONG, STRING

EVENT = "_timer_state/event_t"
KEYED = f.operator(f.canonical(f.keyed_header(STRING, [f.keyed("total", LONG), f.timers(EVENT, STRING)]), (0, 127), {}).handle())
LISTS = f.operator_header(
    [f.operator_list("split", LONG), f.operator_list("all", LONG, "UNION")], [f.broadcast("rules", STRING, LONG)]
)
OPERATOR = f.operator(f.operator_handle(LISTS + b"\0\0\0\0", {"split": (0, []), "all": (1, []), "rules": (2, [len(LISTS)])}))


@pytest.mark.parametrize(
    ("operator", "state", "kind", "columns"),
    [
        (KEYED, "total", None, ["key", "value"]),
        (KEYED, "total", "KEYED", ["key", "value"]),
        (KEYED, None, None, ["key", "total"]),
        (KEYED, None, "KEYED", ["key", "total"]),
        (KEYED, EVENT, "TIMER", ["key", "namespace", "timestamp", "fires_at", "domain", "service"]),
        (KEYED, EVENT, "KEYED", ["key", "namespace", "timestamp", "fires_at", "domain", "service"]),
        (KEYED, None, "TIMER", ["key", "namespace", "timestamp", "fires_at", "domain", "service"]),
        (OPERATOR, "split", "OPERATOR_LIST", ["value"]),
        (OPERATOR, "all", "UNION_LIST", ["value"]),
        (OPERATOR, "rules", "BROADCAST", ["key", "value"]),
        (OPERATOR, "rules", None, ["key", "value"]),
    ],
)
def test_every_kind_of_state_through_one_door(operator, state, kind, columns) -> None:
    assert open_state(StoredOperator(f.snapshot(operator), operator), state, kind).schema.names == columns
    assert f.read_rows(operator, state, kind) == []


@pytest.mark.parametrize(
    ("operator", "state", "kind", "hint"),
    [
        (KEYED, "total", "UNION_LIST", "'total' of operator 'op' is VALUE; read it with read_keyed_state"),
        (KEYED, "total", "TIMER", "'total' of operator 'op' is VALUE"),
        (KEYED, EVENT, "BROADCAST", "is EVENT_TIMER; read it with read_timers"),
        (OPERATOR, "split", "UNION_LIST", "is OPERATOR_LIST; read it with read_list_state"),
        (OPERATOR, "all", "OPERATOR_LIST", "is UNION_LIST; read it with read_union_state"),
        (OPERATOR, "rules", "KEYED", "is BROADCAST; read it with read_broadcast_state"),
        (KEYED, "totl", None, r"no state 'totl' in operator 'op'. Did you mean 'total'"),
        (OPERATOR, None, "TIMER", "operator 'op' has no timers"),
        (OPERATOR, None, None, "operator 'op' does not have keyed state"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(operator, state, kind, hint) -> None:
    with pytest.raises(NotFoundError, match=hint):
        open_state(StoredOperator(f.snapshot(operator), operator), state, kind)
