"""Rules and traces: which rule fits an exception, and the facts of its message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from state_processor.applications.explain.kinds import Kind
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


RULES: Final = (*RESTORE_RULES, *SURROUNDING_RULES)
"""Rules, the specific ones first."""
_JOB_RULES: Final = (
    rule(Kind.LINKAGE, r"^(?P<name>[\w$./]+)$", "java.lang.ClassLoader", classes="ClassNotFoundException"),
    *SURROUNDING_RULES,
)
"""Rules about exceptions that the code of the job throws: it does not read the snapshot."""
_OF_JOB: Final = rule(Kind.JOB_CODE, "", "the job")


def sightings(traces: Iterable[Trace], flink: str | None = None) -> Iterator[Sighting]:
    """Yield the rules that fit traces: for each trace the first rule that fits its innermost exception, or one around it.

    ``flink``: the version of Flink, if it is known.
    """
    for trace in traces:
        yield from _of_trace(trace, flink)


def _of_trace(trace: Trace, flink: str | None) -> Iterator[Sighting]:
    for throwable in reversed(trace.throwables):
        text = f"{throwable.class_name}: {throwable.message}"
        for candidate in _JOB_RULES if trace.is_of_job(throwable) else RULES:
            match = candidate.message.search(throwable.message)
            if match is None or not _is_in_release(candidate, flink):
                continue
            if candidate.classes is not None and not candidate.classes.search(text):
                continue
            facts = {name.rstrip("2"): value.strip() for name, value in match.groupdict().items() if value}
            if not _is_thrown(candidate, throwable, trace, facts):
                continue
            operators = frozenset({*_SUBTASK.findall(trace.text), *filter(None, (facts.get("operator"),))})
            yield Sighting(candidate, trace, str(throwable), facts, operators, frozenset(_VERTEX.findall(trace.entry)))
            return
    root = trace.throwables[-1]
    if trace.is_of_job(root):
        facts = {"name": root.class_name.rpartition(".")[2], "method": root.thrower}
        yield Sighting(_OF_JOB, trace, str(root), facts, tasks=frozenset(_VERTEX.findall(trace.entry)))


def _is_thrown(candidate: Rule, throwable: Throwable, trace: Trace, facts: Mapping[str, str]) -> bool:
    """Return whether the methods of a trace are those of a rule. A trace without methods is known by a field that it names."""
    if candidate.thrown_in is not None and not candidate.thrown_in.search(throwable.thrower):
        return False
    if candidate.frames is None or (not trace.frames and "field" in facts):
        return True
    return any(map(candidate.frames.search, trace.frames))


def _is_in_release(rule: Rule, flink: str | None) -> bool:
    if flink is None or flink.endswith("x"):
        return True
    version = tuple(map(int, flink.split(".")[:2]))
    since, until = (tuple(map(int, text.split("."))) if text else None for text in rule.releases)
    return (since is None or since <= version) and (until is None or version <= until)
