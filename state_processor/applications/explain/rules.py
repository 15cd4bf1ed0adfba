"""Rules and traces: which rule fits an exception, and the facts of its message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from state_processor.applications.explain.kinds import Certainty, Kind, PatternTable, Rule, rule
from state_processor.applications.explain.places import frames_of_places, is_usual, kind_at, room_of
from state_processor.applications.explain.restore_rules import RESTORE_RULES
from state_processor.applications.explain.surrounding_rules import SURROUNDING_RULES, TOLD_RULES
from state_processor.applications.explain.traces import Throwable, Trace

_SUBTASK: Final = re.compile(r"_([0-9a-f]{32})_\(\d+/\d+\)")
"""The identifier of a subtask in messages about its backends."""
_VERTEX: Final = re.compile(r"\([0-9a-f]{32}_([0-9a-f]{32})_\d+_\d+\)")
"""The execution attempt of a task, with the id of its first operator."""


_TASK: Final = re.compile(
    r"for operator (?P<operator>[^\n]+?) \(\d+/\d+\)|"
    r"\] - (?P<task>[^\n\[\]]+?) \(\d+/\d+\)[^\n]*(?:switched from|part of checkpoint)"
)
"""The name of the operator, or of the task, that failed."""
_WARNED: Final = re.compile(r"[^\n]{0,60}?\b(?:WARN|INFO|DEBUG|TRACE)\b")
_ENDED: Final = re.compile(
    r"switched from|FAILED|FAILING|fail(?:ed|ure)|Fatal|terminat|discard|exception in|[Cc]ould not (?:complete|perform|start)|"
    r"could not be completed|declin"
)


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
    task: str = ""  # the name of the task, or of the operator, that the trace is of

    @property
    def is_aside(self) -> bool:
        """Whether the log goes on after the exception: its entry is a warning, and no task, job or process ended by it."""
        return _WARNED.match(self.trace.entry) is not None and not _ENDED.search(self.trace.entry)

    @property
    def kind(self) -> Kind:
        """The kind of the cause."""
        return self.rule.kind

    def told(self, kind: Kind) -> Mapping[str, str]:
        """Return the facts, with the sentence of the rule if the cause is of its kind."""
        return {**self.facts, "says": self.rule.says} if self.rule.says and kind is self.kind else self.facts

    @property
    def certainty(self) -> Certainty:
        """The certainty of the cause, if nothing confirms it."""
        return Certainty.TRACE if self.rule.plain else Certainty.LIKELY


RULES: Final = (*TOLD_RULES, *RESTORE_RULES, *SURROUNDING_RULES)
"""Rules, the specific ones first."""
_WRAPPERS: Final = tuple(candidate for candidate in RULES if candidate.wraps)
_CAUSES: Final = tuple(candidate for candidate in RULES if not candidate.wraps and candidate not in TOLD_RULES)
_OF_JOB_CODE: Final = (
    rule(Kind.LINKAGE, r"^(?P<name>[\w$./]+)$", "java.lang.ClassLoader", classes="ClassNotFoundException"),
    *(candidate for candidate in SURROUNDING_RULES if not candidate.wraps),
)
"""Rules about exceptions that the code of the job throws: it does not read the snapshot."""
_OF_JOB: Final = rule(Kind.JOB_CODE, "", "the job")
_OF_CHECKPOINT: Final = rule(
    Kind.JOB_CODE,
    "",
    "the job",
    says="The code of the job threw {name} in {method}, so that a checkpoint was not completed ({what}).",
    advice="Correct this method of the job, or what it calls. The snapshot need not change.",
)
_OF_SNAPSHOT: Final = rule(
    Kind.SERIALIZER,
    "",
    "the job",
    says="{method}, of a serializer of the job, refused what wrote {state}: {what}.",
    advice="Use the version of this class that wrote the snapshot, or let it read the former version: nothing is lost then.",
)
_OF_VALUES: Final = rule(
    Kind.SERIALIZER,
    "",
    "the job",
    says="{method}, of a serializer of the job, threw {name}: {what}.",
    advice="Use the version of this class that wrote the values, or let it read and write them: nothing is lost then.",
)
_OF_SNAPSHOT_WRITES: Final = rule(
    Kind.SERIALIZER,
    "",
    "the job",
    says="{method}, of a serializer of the job, threw {name} when a checkpoint or savepoint was written: {what}.",
    advice="Correct this method. The snapshot need not change.",
)
_OF_WRITES: Final = rule(
    Kind.SERIALIZER,
    "",
    "the job",
    says="{method}, of a serializer of the job, threw {name} when a checkpoint wrote a value of a source or sink: {what}.",
    advice="Correct this method. The snapshot need not change.",
)
_OF_INITIALIZER: Final = rule(
    Kind.LINKAGE,
    "",
    "the job",
    says="The static code of class {name} threw {exception}, so that Java can't load the class ({what}).",
    advice="Correct the static code of the class, or set what it reads. The snapshot need not change.",
)
_INITIALIZER: Final = re.compile(r"(?P<name>.+)\.<clinit>$")
_SNAPSHOT_WRITE: Final = re.compile(r"\.(?:writeSnapshot|snapshotConfiguration)$")
_SNAPSHOT_METHOD: Final = re.compile(r"\.(?:readSnapshot|resolveSchemaCompatibility|restoreSerializer|getCurrentVersion)$")
"""Methods of serializer snapshots."""
_VALUE_METHOD: Final = re.compile(r"\.(?:serialize|deserialize|copy|duplicate|createInstance)$")
"""Methods of serializers that read, write and copy values. Formats of connectors have methods of these names too."""
_OF_CONNECTOR: Final = rule(Kind.CONNECTOR, "", "the job")
_VALUES_BY_CALLER: Final = PatternTable(
    (
        (_OF_CONNECTOR, r"^org\.apache\.flink\.(?:core\.io\.SimpleVersioned|runtime\.source\.coordinator\.)"),
        (
            _OF_VALUES,
            r"^org\.apache\.flink\.(?:runtime\.state|contrib\.streaming\.state|state\.(?:rocksdb|forst|changelog)|"
            r"api\.(?:common|java)\.typeutils)\b",
        ),
    )
)
"""Classes of Flink that call methods of values: for sources and sinks, and for state."""
_FOR_ALL: Final = re.compile(r"java\.|$|org\.apache\.flink\.(?:util|runtime\.client|runtime\.JobException|client)\b")
"""Exceptions that do not tell where they come from."""
_OF_PLACE: Final = rule(Kind.CODE, "", "")
_OF_VALUE: Final = (Kind.VALUE_TYPE, Kind.FIELD_TYPE, Kind.KRYO_CLASS, Kind.PROGRAM)
"""The usual kinds of places that read, write and copy values."""
_SERIALIZER: Final = re.compile(r"[sS]erializer\w*\.(?:serialize|deserialize|copy)$")
_WRITTEN_TO: Final = re.compile(r"java\.|jdk\.|org\.apache\.flink\.core\.memory\.Data")
"""Streams that values are written to."""
_STATE: Final = re.compile(r"\.(?:state|streaming\.state)\.")
_LONG_MESSAGE: Final = 16
"""Characters of a message that hardly come from elsewhere."""


def sightings(traces: Iterable[Trace], flink: str | None = None) -> Iterator[Sighting]:
    """Yield what traces mean: for each trace the first rule that fits its innermost exception, or one around it.

    If no rule fits, the place that threw the exception tells what Flink was doing. ``flink``: the version of Flink, if it is
    known.
    """
    for trace in traces:
        sighting = (
            _by_message(trace, trace.throwables, flink, TOLD_RULES)
            or _of_initializer(trace)
            or _of_serializer(trace)
            or _by_message(trace, trace.throwables, flink)
            or _of_job(trace)
            or _by_message(trace, trace.throwables, flink, _WRAPPERS)
            or _by_place(trace)
            or _by_message(trace, trace.suppressed, flink)
        )
        if sighting is not None:
            yield sighting


def _by_message(trace: Trace, throwables: Sequence[Throwable], flink: str | None, rules: Sequence[Rule] = ()) -> Sighting | None:
    """Return the sighting of the innermost exception that a rule fits: by default of those rules that fit causes."""
    for throwable in reversed(throwables):
        text = f"{throwable.class_name}: {throwable.message}"
        for candidate in rules or (_OF_JOB_CODE if trace.is_of_job(throwable) else _CAUSES):
            match = candidate.message.search(throwable.message) or candidate.message.search(_in_one_line(throwable.message))
            if match is None or not _is_in_release(candidate, flink):
                continue
            if candidate.classes is not None and not candidate.classes.search(text):
                continue
            facts = {name.rstrip("2"): value.strip() for name, value in match.groupdict().items() if value}
            if not _is_thrown(candidate, throwable, trace, match, facts):
                continue
            return _sighting(candidate, trace, throwable, facts)
    return None


def _in_one_line(message: str) -> str:
    """Return a message in one line: a terminal or a form may have broken it."""
    return re.sub(r"\s*\n\s*", " ", message)


def _sighting(rule: Rule, trace: Trace, throwable: Throwable, facts: Mapping[str, str]) -> Sighting:
    operators = frozenset({*_SUBTASK.findall(trace.text), *filter(None, (facts.get("operator"),))})
    root = trace.throwables[-1]
    # below a wrapper is the cause, which no rule knows
    message = str(root.original) if rule.wraps and root is not throwable else str(throwable) or rule.thrown_by
    return Sighting(rule, trace, message, facts, operators, frozenset(_VERTEX.findall(trace.entry)), _task(trace))


def _task(trace: Trace) -> str:
    """Return the name of the task, or of the operator, that a trace is of; empty if it does not show it."""
    match = _TASK.search(trace.text)
    return "" if match is None else match["operator"] or match["task"]


def _is_wrapper(throwable: Throwable) -> bool:
    return any(candidate.message.search(str(throwable)) for candidate in _WRAPPERS)


def _of_job(trace: Trace) -> Sighting | None:
    """Return the sighting of an exception that the code of the job threw."""
    root = trace.throwables[-1]
    wrapped = any(map(_is_wrapper, trace.throwables[:-1]))
    if not trace.is_of_job(root) and not (wrapped and trace.is_foreign(root)):
        return None
    facts = {"name": _simple_name(root), "method": root.thrower}
    tasks = frozenset(_VERTEX.findall(trace.entry))
    rule = _OF_CHECKPOINT if wrapped else _OF_JOB
    return Sighting(rule, trace, str(root.original), facts, tasks=tasks, task=_task(trace))


def _of_initializer(trace: Trace) -> Sighting | None:
    """Return the sighting of an exception that the static code of a class of the job threw."""
    is_error = any("ExceptionInInitializerError" in str(throwable) for throwable in trace.throwables)
    root = trace.throwables[-1]
    frames = (frame for frame in root.frames if trace.is_of_user(frame))
    match = next(filter(None, map(_INITIALIZER.match, frames)), None) if is_error else None
    if match is None:
        return None
    return _sighting(_OF_INITIALIZER, trace, root, {"name": match["name"], "exception": _simple_name(root)})


def _simple_name(throwable: Throwable) -> str:
    return throwable.original.class_name.rpartition(".")[2]


def _of_serializer(trace: Trace) -> Sighting | None:
    """Return the sighting of an exception that a serializer of the job, or the snapshot of one, threw."""
    root = trace.throwables[-1]
    if not trace.is_foreign(root):
        return _of_long_value(trace, root)
    if _SNAPSHOT_METHOD.search(root.thrower):
        return _sighting(_OF_SNAPSHOT, trace, root, {"method": root.thrower})
    name = _simple_name(root)
    if _SNAPSHOT_WRITE.search(root.thrower):
        return _sighting(_OF_SNAPSHOT_WRITES, trace, root, {"method": root.thrower, "name": name})
    reads_on = root.frames[0] != root.thrower  # a stream that ended threw it: the file, or the serializer, is wrong
    if reads_on or not _VALUE_METHOD.search(root.thrower):
        return None
    facts = {"method": root.thrower, "name": name}
    rule = _VALUES_BY_CALLER.first(trace.caller_of(root))
    if rule is _OF_CONNECTOR and root.thrower.endswith(".serialize"):
        rule = _OF_WRITES
    return None if rule is None else _sighting(rule, trace, root, facts)


def _of_long_value(trace: Trace, root: Throwable) -> Sighting | None:
    """Return the sighting of a value that a serializer of the job can't write, such as a text that is too long."""
    writer = next((frame for frame in root.frames if not _WRITTEN_TO.match(frame)), "")
    if not trace.is_of_user(writer) or not writer.endswith(".serialize") or writer == next(iter(root.frames), ""):
        return None
    return _sighting(_OF_VALUES, trace, root, {"method": writer, "name": _simple_name(root)})


def _by_place(trace: Trace) -> Sighting | None:
    """Return the sighting of an exception that no rule knows, by the method that threw it.

    The innermost method that is a place counts: libraries that no place knows were called by Flink. Without methods, the class of
    the exception tells where it comes from.
    """
    root = trace.throwables[-1]
    places = room_of(list(chain.from_iterable(map(_places, reversed(trace.throwables)))))
    if places is None:
        return None
    room, frame = places
    name = root.original.class_name or root.class_name
    kind = kind_at(room, name, is_foreign=trace.is_foreign(root) and root.thrower != frame)
    if room.kind in _OF_VALUE and _is_of_record(trace):
        kind = Kind.PROGRAM
    place = replace(_OF_PLACE, kind=kind, thrown_by=frame, doing=room.doing, usual=is_usual(room, name, kind))
    return _sighting(place, trace, root, {})


def _is_of_record(trace: Trace) -> bool:
    """Return whether a value that the job made was written or copied: it does not come from the snapshot."""
    methods = [frame for frame in trace.frames if _SERIALIZER.search(frame)]
    if not methods or methods[0].endswith(".deserialize"):
        return False
    return methods[0].endswith(".serialize") or not any(map(_STATE.search, trace.frames))


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
