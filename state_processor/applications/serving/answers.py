"""Answers of the server as values of JSON: operators, states, and the contents of a key."""

from __future__ import annotations

from typing import Any

from state_processor.applications.serving.following import ServedSnapshot
from state_processor.applications.serving.limits import Limits
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read import catalog
from state_processor.backends.read.state_listing import find_operator
from state_processor.display.text_tables import json_value
from state_processor.serializers.errors import NotFoundError
from state_processor.serializers.json_text import parse_json


def operators(served: ServedSnapshot) -> dict[str, Any]:
    """Return the operators of a snapshot."""
    return _answer(served, operators=catalog.operators(served.snapshot).to_pylist())


def states(served: ServedSnapshot, uid: str) -> dict[str, Any]:
    """Return the states of an operator."""
    operator = _found(served, uid)
    rows = [row for row in catalog.states(served.snapshot).to_pylist() if row["operator_uid_hash"] == operator.operator_id]
    return _answer(served, operator=uid, states=rows)


def contents(served: ServedSnapshot, uid: str, key: str, state: str | None, limits: Limits) -> dict[str, Any]:
    """Return the states and timers of a key in an operator.

    ``key``: the key as text: see :func:`key_of`. ``state``: one state; ``None`` for all, and the timers. ``limits``: the limit of
    rows.
    """
    parsed_key = key_of(served, uid, key)
    contents_of_key = served.look_up(uid, state).find(parsed_key)
    if not contents_of_key:
        subject = f"the operator {uid!r}" if state is None else f"the state {state!r} of the operator {uid!r}"
        raise NotFoundError(f"{subject} does not have the key {key} in checkpoint {served.checkpoint_id}")
    tables = contents_of_key.tables()
    limits.check_rows(sum(table.num_rows for table in tables.values()))
    rows = {name: table.drop_columns(["key"]).to_pylist() for name, table in tables.items()}
    timers = {"timers": rows.pop("timers", [])} if contents_of_key.timers is not None else {}
    return _answer(served, operator=uid, key=contents_of_key.key, states=rows, **timers)


def key_of(served: ServedSnapshot, uid: str, text: str) -> Any:
    """Return a key from its text in a path. Keys of text are the text. Other keys are JSON, or text such as a date."""
    if served.key_type(uid) == "STRING":
        return text
    try:
        return parse_json(text)
    except ValueError:
        return text


def _found(served: ServedSnapshot, uid: str) -> OperatorState:
    operator = served.operator(uid)
    return find_operator(served.snapshot, operator.uid, operator.uid_hash)


def _answer(served: ServedSnapshot, **content: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json_value({"checkpoint_id": served.checkpoint_id, **content})
    return answer
