"""A rule about traces: a message of Flink, and the kind of the cause."""

from __future__ import annotations

import re
from dataclasses import dataclass

from state_processor.applications.explain.kinds import Kind


@dataclass(frozen=True, slots=True)
class Rule:
    """A message of Flink, and its meaning."""

    kind: Kind  # the kind of the cause
    # part of the message of an exception. Named groups are facts; a 2 at the end of a name stands for the same fact.
    message: re.Pattern[str]
    thrown_by: str  # the class of Flink, or of a library, that throws it
    classes: re.Pattern[str] | None = None  # part of the name of the exception
    frames: re.Pattern[str] | None = None  # part of a method of the trace
    thrown_in: re.Pattern[str] | None = None  # part of the method that threw it
    releases: tuple[str | None, str | None] = (None, None)  # the releases of Flink that have it; ``None`` for no limit
    plain: bool = False  # whether the message names the cause in so many words: nothing else makes Flink throw it
    says: str = ""  # the sentence of the cause, with facts in braces, if the kind has a vaguer one
    advice: str = ""  # the advice, if the kind has a vaguer one
    follows: bool = False  # whether it follows from another failure, of a task or of the job
    wraps: bool = False  # whether the exception reports another one: what is below it comes first
    doing: str = ""  # what the method was doing that threw it, if the place is all that is known
    usual: bool = False  # whether the kind is only the usual one of the place: the snapshot has to confirm it


def rule(
    kind: Kind,
    message: str,
    thrown_by: str,
    *,
    classes: str = "",
    frames: str = "",
    thrown_in: str = "",
    releases: str = "",
    plain: bool = False,
    says: str = "",
    advice: str = "",
    wraps: bool = False,
    follows: bool = False,
) -> Rule:
    """Return a rule.

    ``follows``: whether it follows from another failure.
    ``releases``: the first and the last release of Flink, such as ``1.9-1.16``; either may be absent. ``plain``: whether nothing
    else makes Flink throw it. ``says`` and ``advice``: more exact words than those of the kind. ``wraps``: whether it
    reports another one.
    """
    since, _, until = releases.partition("-")
    limits = (since or None, until or None)
    patterns = _pattern(classes), _pattern(frames), _pattern(thrown_in)
    return Rule(kind, re.compile(message, re.DOTALL), thrown_by, *patterns, limits, plain, says, advice, follows, wraps)


def _pattern(text: str) -> re.Pattern[str] | None:
    return re.compile(text) if text else None
