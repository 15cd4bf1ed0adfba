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
_TIME: Final = re.compile(r"(Event|Processing)Time")


def window_verdicts(old: OperatorSignature, new: OperatorSignature, *, is_unchanged: bool) -> Iterator[StateVerdict]:
    """Yield verdicts on the windows of an operator.

    Parameters
    ----------
    old, new
        The operator in the snapshot and in the new job.
    is_unchanged
        Whether the user declares that the code of the operator is unchanged.
    """
    if not (_has_windows(old) and _has_windows(new)) or old.states is None or new.states is None:
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


def _has_windows(operator: OperatorSignature) -> bool:
    states = (operator.states or {}).values()
    return any(state.type_text(NAMESPACE) == _TIME_WINDOW and not state.is_timer for state in states)


def _time(operator: OperatorSignature) -> str | None:
    """Return the time of windows by the name that Flink gives to the operator."""
    match = _TIME.search(operator.name or "")
    return None if match is None else f"{match[1].lower()} time"
