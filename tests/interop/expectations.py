"""What states hold after changes, worked out on the contents of expected.json: no other code has a part in it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

EVENT, PROCESSING = "EVENT_TIMER", "PROCESSING_TIMER"
_TIMER_STEPS = {"(event timer)": EVENT, "(processing timer)": PROCESSING}

Operators = list[dict[str, Any]]


def state_of(operators: Operators, uid: str, name: str, kind: str | None = None) -> Any:
    """A state of an operator; timers by kind."""
    (operator,) = (o for o in operators if o["uid"] == uid)
    (state,) = (s for s in operator["states"] if s["name"] == name and kind in (None, s["kind"]))
    return state


def changed(operators: Operators, uid: str, name: str, values: Mapping[Any, Any]) -> Operators:
    """The operators with other values for some keys of a state; None removes them."""
    result = copy.deepcopy(operators)
    state = state_of(result, uid, name)
    state["entries"] = [e for e in state["entries"] if e["key"] not in values]
    state["entries"] += [{"key": key, "value": value} for key, value in values.items() if value is not None]
    return result


def without_keys(
    operators: Operators, uid: str, keys: Iterable[Any], names: Iterable[str] | None = None, kinds: Iterable[str] | None = None
) -> Operators:
    """The operators without some keys in keyed states: in states with some names or kinds, or in all states."""
    result, gone = copy.deepcopy(operators), set(keys)
    for operator in result:
        for state in operator["states"]:
            chosen = (names is None or state["name"] in set(names)) and (kinds is None or state["kind"] in set(kinds))
            if operator["uid"] == uid and chosen:
                state["entries"] = [e for e in state["entries"] if e["key"] not in gone]
    return result


def with_states(operators: Operators, uid: str, states: Sequence[Mapping[str, Any]] = (), removed: str = "") -> Operators:
    """The operators with more states, and without one."""
    result = copy.deepcopy(operators)
    for operator in result:
        if operator["uid"] == uid:
            operator["states"] = [s for s in operator["states"] if s["name"] != removed] + [dict(s) for s in states]
    return result


def asynchronous(operators: Operators, uids: Iterable[str]) -> Operators:
    """The operators, some of them with keyed state in the asynchronous API of Flink 2."""
    return [{**operator, "asynchronous": True} if operator["uid"] in uids else operator for operator in operators]


def repeated(operators: Operators, kind: str, times: int) -> Operators:
    """The operators with the entries of a kind of state so many times over."""
    result = copy.deepcopy(operators)
    for operator in result:
        for state in operator["states"]:
            if state["kind"] == kind:
                state["entries"] = state["entries"] * times
    return result


def after(operators: Operators, steps: Sequence[Mapping[str, Any]]) -> Operators:
    """The operators after steps of the job that :func:`flink.request` describes."""
    result = copy.deepcopy(operators)
    for step in steps:
        value = step["value"]
        if step["state"] in _TIMER_STEPS:
            timers = state_of(result, step["operator"], "user-timers", _TIMER_STEPS[step["state"]])
            timers["entries"].append({"key": step["key"], "namespace": "VoidNamespace", "timestamp": value})
            continue
        state = state_of(result, step["operator"], step["state"])
        entries = state["entries"]
        if state["kind"] in ("OPERATOR_LIST", "UNION_LIST"):
            entries.append(value)
        elif state["kind"] == "BROADCAST":
            state["entries"] = [e for e in entries if e["key"] != value[0]] + [{"key": value[0], "value": value[1]}]
        else:
            before = next((e["value"] for e in entries if e["key"] == step["key"]), None)
            state["entries"] = [e for e in entries if e["key"] != step["key"]]
            if value is not None:
                state["entries"].append({"key": step["key"], "value": _AFTER[state["kind"]](before, value)})
    return result


_AFTER: dict[str, Callable[[Any, Any], Any]] = {
    "VALUE": lambda before, value: value,
    "LIST": lambda before, value: [*(before or []), value],
    "MAP": lambda before, value: [*(pair for pair in before or [] if pair[0] != value[0]), value],
    "REDUCING": lambda before, value: value + (before or 0),
    "AGGREGATING": lambda before, value: [value + (before or [0, 0])[0], 1 + (before or [0, 0])[1]],
}


def fired(operators: Operators, kind: str, until: int) -> tuple[Operators, list[Any]]:
    """The operators after the timers of process functions up to a time have fired, and Flink's record of these timers."""
    result, notes = copy.deepcopy(operators), []
    domain = {EVENT: "EVENT_TIME", PROCESSING: "PROCESSING_TIME"}[kind]
    for operator in result:
        for state in operator["states"]:
            if state["kind"] == kind:
                notes += [
                    [operator["uid"], e["key"], domain, e["timestamp"]] for e in state["entries"] if e["timestamp"] <= until
                ]
                state["entries"] = [e for e in state["entries"] if e["timestamp"] > until]
    return result, notes


def windows_after(operators: Operators, event: dict[str, Any], watermark: int) -> tuple[Operators, list[Any]]:
    """The job ``windows`` after one more event inside windows that are open, and a watermark; and which windows fired."""
    result, notes = copy.deepcopy(operators), []
    user, time = event["user"], event["time"]
    tumbling, session = (state_of(result, uid, "window-contents") for uid in ("tumbling-reduce", "session-process"))
    for entry in tumbling["entries"]:
        if entry["key"] == user and _covers(entry["namespace"], time):
            value = entry["value"]
            entry["value"] = value | {"amount": value["amount"] + event["amount"], "time": max(value["time"], time)}
    merged = state_of(result, "session-process", "merging-window-set")
    sessions = [(e["key"], window, kept) for e in merged["entries"] for window, kept in e["value"]]
    contents = {(e["key"], e["namespace"]["start"]): e for e in session["entries"]}
    for key, window, kept in sessions:
        entry = contents[key, kept["start"]]
        if key == user and _covers(window, time):
            entry["value"].append({"@class": entry["value"][0]["@class"], **event})
        if window["end"] - 1 <= watermark:
            notes.append(["session-process", key, window, entry["value"]])
            session["entries"].remove(entry)
    for entry in merged["entries"]:
        entry["value"] = [pair for pair in entry["value"] if pair[0]["end"] - 1 > watermark]
    merged["entries"] = [entry for entry in merged["entries"] if entry["value"]]
    over = [e for e in tumbling["entries"] if e["namespace"]["end"] - 1 <= watermark]
    notes += [["tumbling-reduce", e["key"], e["namespace"], [e["value"]]] for e in over]
    tumbling["entries"] = [e for e in tumbling["entries"] if e not in over]
    for uid in ("tumbling-reduce", "session-process"):
        timers = state_of(result, uid, "window-timers")
        timers["entries"] = [e for e in timers["entries"] if e["timestamp"] > watermark]
    return result, notes


def _covers(window: Mapping[str, int], time: int) -> bool:
    return window["start"] <= time < window["end"]
