"""Rules and traces: which rule fits an exception, and the facts of its message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from state_processor.applications.explain.kinds import Certainty, Kind
from state_processor.applications.explain.places import frames_of_places, kind_at, room_of
from state_processor.applications.explain.restore_rules import RESTORE_RULES
from state_processor.applications.explain.rule import Rule, rule
from state_processor.applications.explain.surrounding_rules import SURROUNDING_RULES
from state_processor.applications.explain.traces import Throwable, Trace

_SUBTASK: Final = re.compile(r"_([0-9a-f]{32})_\(\d+/\d+\)")
"""The identifier of a subtask in messages about its backends."""
_VERTEX: Final = re.compile(r"\([0-9a-f]{32}_([0-9a-f]{32})_\d+_\d+\)")
"""The execution attempt of a task, with the id of its first operator."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A rule that fits a trace."""

    rule: Rule
    trace: Trace
    message: str  # the exception that it fits, as text
    facts: Mapping[str, str] = field(default_factory=dict)  # the facts of the message
    operators: frozenset[str] = frozenset()  # hashes of operators that the trace names as the operator itself
    # hashes of the first operators of tasks: the failed operator is in the chain of one of them
    tasks: frozenset[str] = frozenset()

    @property
    def kind(self) -> Kind:
        """The kind of the cause."""
        return self.rule.kind

    @property
    def certainty(self) -> Certainty:
        """The certainty of the cause, if nothing confirms it."""
        return Certainty.TRACE if self.rule.plain else Certainty.LIKELY


RULES: Final = (*RESTORE_RULES, *SURROUNDING_RULES)
"""Rules, the specific ones first."""
_JOB_RULES: Final = (
    rule(Kind.LINKAGE, r"^(?P<name>[\w$./]+)$", "java.lang.ClassLoader", classes="ClassNotFoundException"),
    *SURROUNDING_RULES,
)
"""Rules about exceptions that the code of the job throws: it does not read the snapshot."""
_OF_JOB: Final = rule(Kind.JOB_CODE, "", "the job")
_FOR_ALL: Final = re.compile(r"java\.|$|org\.apache\.flink\.(?:util|runtime\.client|runtime\.JobException|client)\b")
"""Exceptions that do not tell where they come from."""
_OF_PLACE: Final = rule(Kind.CODE, "", "")
_LONG_MESSAGE: Final = 16
"""Characters of a message that hardly come from elsewhere."""


def sightings(traces: Iterable[Trace], flink: str | None = None) -> Iterator[Sighting]:
    """Yield what traces mean: for each trace the first rule that fits its innermost exception, or one around it.

    If no rule fits, the place that threw the exception tells what Flink was doing. ``flink``: the version of Flink, if it is
    known.
    """
    for trace in traces:
        sighting = _by_message(trace, trace.throwables, flink) or _of_job(trace) or _by_place(trace)
        sighting = sighting or _by_message(trace, trace.suppressed, flink)
        if sighting is not None:
            yield sighting


def _by_message(trace: Trace, throwables: Sequence[Throwable], flink: str | None) -> Sighting | None:
    for throwable in reversed(throwables):
        text = f"{throwable.class_name}: {throwable.message}"
        for candidate in _JOB_RULES if trace.is_of_job(throwable) else RULES:
            match = candidate.message.search(throwable.message)
            if match is None or not _is_in_release(candidate, flink):
                continue
            if candidate.classes is not None and not candidate.classes.search(text):
                continue
            facts = {name.rstrip("2"): value.strip() for name, value in match.groupdict().items() if value}
            if not _is_thrown(candidate, throwable, trace, match, facts):
                continue
            return _sighting(candidate, trace, throwable, facts)
    return None


def _sighting(rule: Rule, trace: Trace, throwable: Throwable, facts: Mapping[str, str]) -> Sighting:
    operators = frozenset({*_SUBTASK.findall(trace.text), *filter(None, (facts.get("operator"),))})
    return Sighting(rule, trace, str(throwable) or rule.thrown_by, facts, operators, frozenset(_VERTEX.findall(trace.entry)))


def _of_job(trace: Trace) -> Sighting | None:
    """Return the sighting of an exception that the code of the job threw."""
    root = trace.throwables[-1]
    if not trace.is_of_job(root):
        return None
    facts = {"name": root.class_name.rpartition(".")[2], "method": root.thrower}
    return Sighting(_OF_JOB, trace, str(root), facts, tasks=frozenset(_VERTEX.findall(trace.entry)))


def _by_place(trace: Trace) -> Sighting | None:
    """Return the sighting of an exception that no rule knows, by the method that threw it.

    The innermost method that is a place counts: libraries that no place knows were called by Flink. Without methods, the class of
    the exception tells where it comes from.
    """
    root = trace.throwables[-1]
    places = room_of([place for throwable in reversed(trace.throwables) for place in _places(throwable)])
    if places is None:
        return None
    room, frame = places
    kind = kind_at(room, root.original.class_name or root.class_name, is_foreign=trace.is_foreign(root) and root.thrower != frame)
    return _sighting(replace(_OF_PLACE, kind=kind, thrown_by=frame, doing=room.doing), trace, root, {})


def _places(throwable: Throwable) -> Iterator[str]:
    """Yield the class of an exception, if it is not one for all purposes, and the methods that it passed."""
    if not _FOR_ALL.match(throwable.original.class_name):
        yield throwable.original.class_name
    yield from frames_of_places(throwable.frames)


def _is_thrown(candidate: Rule, throwable: Throwable, trace: Trace, match: re.Match[str], facts: Mapping[str, str]) -> bool:
    """Return whether the methods of a trace are those of a rule.

    A trace without methods is known by a field that it names, or by a long message.
    """
    if candidate.thrown_in is not None and not candidate.thrown_in.search(throwable.thrower):
        return False
    if candidate.frames is None:
        return True
    if not trace.frames:
        return "field" in facts or len(match[0]) >= _LONG_MESSAGE
    return any(map(candidate.frames.search, trace.frames))


def _is_in_release(rule: Rule, flink: str | None) -> bool:
    if flink is None or flink.endswith("x"):
        return True
    version = tuple(map(int, flink.split(".")[:2]))
    since, until = (tuple(map(int, text.split("."))) if text else None for text in rule.releases)
    return (since is None or since <= version) and (until is None or version <= until)
