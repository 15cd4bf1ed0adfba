"""Windows of a snapshot in another job: merging windows, and the kind of their time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from state_processor.applications.jobs.signature import NAMESPACE, OperatorSignature
from state_processor.applications.jobs.verdicts import Cause, Outcome, StateVerdict

MERGING: Final = "merging-window-set"
"""The state in which Flink keeps which windows were merged (``MergingWindowSet``). Session windows have it."""
_TIME_WINDOW: Final = "TIME_WINDOW"
_FIRE_TIME: Final = "fire-time"
"""The state of Flink's continuous triggers, which fire windows that were open, too."""
_TIME: Final = re.compile(r"(Event|Processing)Time")


def window_verdicts(old: OperatorSignature, new: OperatorSignature, *, is_unchanged: bool) -> Iterator[StateVerdict]:
    """Yield verdicts on the windows of an operator.

    ``old`` and ``new``: the operator in the snapshot and in the new job. ``is_unchanged``: whether the user declares that the
    code of the operator is unchanged.
    """
    if not (_window_states(old) and _window_states(new)) or old.states is None or new.states is None:
        return
    if (MERGING in old.states) != (MERGING in new.states):
        text = "windows that merge (sessions) became windows that do not" if MERGING in old.states else "windows became sessions"
        yield StateVerdict("", Outcome.LOST, f"{text}: Flink starts and never fires the open windows", cause=Cause.WINDOWS)
        return
    before, after = _time(old), _time(new)
    if before is not None and after is not None and before != after:
        text = f"windows of {before} became windows of {after}: Flink starts and never fires the open windows"
        yield StateVerdict("", Outcome.LOST, text, cause=Cause.WINDOWS)
    elif (before is None or after is None) and not is_unchanged:
        text = "names of operators do not show whether both have windows of event time or of processing time"
        yield StateVerdict("", Outcome.UNKNOWN, text, cause=Cause.WINDOWS)
    added = sorted(_window_states(new) - _window_states(old) - {_FIRE_TIME})
    if added and not is_unchanged:
        text = f"windows have the new state {', '.join(added)}: a trigger that counts elements never fires windows that were open"
        yield StateVerdict("", Outcome.UNKNOWN, text, cause=Cause.WINDOWS)


def _window_states(operator: OperatorSignature) -> set[str]:
    """Return the names of the states of single windows: their contents, and those of triggers and of functions."""
    states = (operator.states or {}).items()
    return {name for name, state in states if state.type_text(NAMESPACE) == _TIME_WINDOW and not state.is_timer}


def _time(operator: OperatorSignature) -> str | None:
    """Return the time of windows by the name that Flink gives to the operator."""
    match = _TIME.search(operator.name or "")
    return None if match is None else f"{match[1].lower()} time"
