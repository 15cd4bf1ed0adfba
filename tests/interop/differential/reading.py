"""Reads the states of cases from snapshots with our reader."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import state_processor as sp
from tests.interop.differential.cases import LISTED, TIMERS, Entries, canonical
from tests.interop.differential.forms import Mapped, list_of, parse
from tests.interop.differential.scalars import Form, as_text, printed_of

_DOMAINS = {"EVENT_TIMER": "event_time", "PROCESSING_TIMER": "processing_time"}
_EPOCH = datetime.fromtimestamp(0, UTC)
_MILLISECOND = timedelta(milliseconds=1)


def read(path: Path | str, case: dict[str, Any], access: dict[str, dict[str, Any]] | None = None) -> Entries:
    """The entries of a case's states as a snapshot has them, in the form of :func:`canonical`.

    Into ``access`` go the times of last access, by state, and key with namespace.
    """
    states = [{**state, "entries": list(_entries(path, case, state, access))} for state in case["states"]]
    return canonical({**case, "states": states})


def _entries(path: Path | str, case: dict[str, Any], state: dict[str, Any], access: Any) -> Iterator[Any]:
    timers = state["kind"] in TIMERS
    options: dict[str, Any] = {"kind": "TIMER"} if timers else {"flatten": False, "metadata": True}
    name = None if timers else state["name"]
    batches = sp.arrow.read_state(path, case["uid"], name, nanos="string", row_kind=True, **options)
    for row in _rows(batches):
        if not timers:
            entry = _entry(case, state, row)
            if access is not None and state.get("ttl"):
                access.setdefault(state["name"], {})[slot_text(case, entry)] = row["_last_access"]
            yield entry
        elif (row["service"], row["domain"]) == (state["name"], _DOMAINS[state["kind"]]):
            key = parse(case["key_type"]).printed(row["key"])
            yield {"key": key, "namespace": _namespace(state, row), "timestamp": row["timestamp"]}


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def _namespace(state: dict[str, Any], row: dict[str, Any]) -> Any:
    if state["namespace_type"] == "TIME_WINDOW":
        return {name: millis(moment) for name, moment in row["window"].items()}
    return {"GLOBAL_WINDOW": "GlobalWindow", "VOID_NAMESPACE": "VoidNamespace"}[state["namespace_type"]]


def millis(moment: Any) -> int:
    found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return int((found - _EPOCH) // _MILLISECOND)


def _entry(case: dict[str, Any], state: dict[str, Any], row: dict[str, Any]) -> Any:
    value = parse(state["value_type"])
    if state["kind"] in LISTED:
        return printed_of(value, row["value"])
    if state["kind"] == "BROADCAST":
        return {"key": parse(state["map_key_type"]).printed(row["key"]), "value": printed_of(value, row["value"])}
    form: Form = value
    if state["kind"] == "LIST":
        form = list_of(value)
    elif state["kind"] == "MAP":
        form = Mapped(parse(state["map_key_type"]), value)
    entry = {"key": parse(case["key_type"]).printed(row["key"])}
    if state["namespace_type"] != "VOID_NAMESPACE":
        entry["namespace"] = _namespace(state, row)
    return entry | {"value": printed_of(form, row["value"])}


def slot_text(case: dict[str, Any], entry: dict[str, Any]) -> str:
    """What tells the entry of a keyed state from others."""
    return as_text([parse(case["key_type"]).canonical(entry["key"]), entry.get("namespace")])
