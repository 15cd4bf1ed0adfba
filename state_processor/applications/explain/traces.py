"""Traces of Java exceptions in logs of Flink, in text and in JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from state_processor.serializers.json_text import parse_json

_NAME: Final = r"(?:[A-Za-z_$][\w$]*\.)+[A-Z_$][\w$]*"
_HEAD: Final = re.compile(
    rf"\s*(?P<lead>(?:Caused by|Wrapped by|Suppressed): )?(?:\[CIRCULAR REFERENCE: ?)?(?:Exception in thread \"[^\"]*\" )?"
    rf"(?P<name>{_NAME})(?:: (?P<message>.*))?\s*"
)
_THROWN: Final = re.compile(r"(Exception|Error|Throwable|Failure|Timeout|Interrupt)\w*$")
_FRAME: Final = re.compile(r"\s*at (?:[\w.@-]+/+)*(?P<method>[\w$.<>]+(?:\$\$?[\w$./<>]+)*)\([^)]*\)")
_MORE: Final = re.compile(r"\s*\.\.\. \d+ (more|common frames)")
_ENTRY: Final = re.compile(r"\s*\[?(\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d\b|\s*(TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")
_CONTAINER: Final = re.compile(r"^(?:\S+ (?:stdout|stderr) [FP] |[\w.-]+\s+\| )", re.MULTILINE)
"""What Kubernetes and Docker write before each line."""
_ESCAPED: Final = re.compile(r"\\n(?:\\t|\s*)at ")
_JAR: Final = re.compile(r"flink-(?:dist|runtime|core|streaming-java)[\w.-]*\.jar:(\d+\.\d+)[\w.-]*\]")
_STARTED: Final = re.compile(r"\bVersion: (\d+\.\d+)[\w.-]*, (?:Scala|Rev)")
_SECOND: Final = re.compile(r"\borg\.apache\.flink\.state\.(?:rocksdb|forst)\.|\bkryo\.kryo5\b")
"""Packages that Flink has since 2.0."""
_STORES: Final = (
    ("forst", re.compile(r"\borg\.apache\.flink\.state\.forst\.")),
    ("rocksdb", re.compile(r"\borg\.apache\.flink\.(?:contrib\.streaming\.state|state\.rocksdb)\.")),
    ("hashmap", re.compile(r"\borg\.apache\.flink\.runtime\.state\.heap\.Heap(?:Keyed|Restore|SavepointRestore|PriorityQueueS)")),
)
_JDK: Final = re.compile(r"(?:java|javax|jdk|sun|com\.sun)\.|.*\bPreconditions\.")
_LIBRARY: Final = re.compile(r"org\.apache\.|com\.esotericsoftware\.|org\.rocksdb\.|org\.forstdb\.|scala\.")
_CALLER: Final = re.compile(
    r"org\.apache\.flink\.(?:streaming|cep|client|table\.runtime|api\.common\.functions|"
    r".*state\.\w*\.?\w*(?:Reducing|Aggregating)State)\b(?!.*Serializer)"
)
"""Methods of Flink that call functions of the job. Serializers of the job are called by others."""
_LONGEST_ENTRY: Final = 2000


@dataclass(frozen=True, slots=True)
class Throwable:
    """An exception of a trace."""

    class_name: str  # the Java class; empty for a message without one
    message: str = ""
    frames: tuple[str, ...] = ()  # the methods that the trace shows of it, the innermost first

    @property
    def thrower(self) -> str:
        """The method that threw it, without those of the JDK; empty if the trace does not show it."""
        return next((frame for frame in self.frames if not _JDK.match(frame)), "")

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.class_name, self.message)))


@dataclass(frozen=True, slots=True)
class Trace:
    """An exception with its causes."""

    throwables: tuple[Throwable, ...]  # the exception and its causes, the outermost first
    entry: str = ""  # the entry of the log in front of it
    line: int = 0  # the number of the line of its head

    @property
    def text(self) -> str:
        """The entry and the messages."""
        return "\n".join((self.entry, *map(str, self.throwables)))

    @property
    def frames(self) -> tuple[str, ...]:
        """The methods of all exceptions."""
        return tuple(frame for throwable in self.throwables for frame in throwable.frames)

    def is_of_job(self, throwable: Throwable) -> bool:
        """Return whether a function of the job, or a library that it calls, threw an exception of the trace.

        Java leaves out the methods that an exception has in common with the exception around it.
        """
        around = self.throwables[: self.throwables.index(throwable) + 1]
        callers = (frame for outer in reversed(around) for frame in outer.frames if _LIBRARY.match(frame))
        thrower = throwable.thrower
        return bool(thrower) and not _LIBRARY.match(thrower) and _CALLER.match(next(callers, "")) is not None


@dataclass(frozen=True, slots=True)
class Log:
    """A log, or a single trace."""

    traces: tuple[Trace, ...] = ()  # the traces, without repetitions
    flink: str | None = None  # the version of the Flink that wrote it, such as ``1.20``, or ``2.x``; ``None`` if it does not show
    backend: str | None = None  # the state backend whose methods are in it; ``None`` if it does not show


@dataclass(slots=True)
class _Draft:
    name: str
    message: list[str]
    frames: list[str] = field(default_factory=list)

    def throwable(self) -> Throwable:
        return Throwable(self.name, "\n".join(self.message).strip(), tuple(self.frames))


def read_log(text: str) -> Log:
    """Return the traces of a log, or of an answer of the REST interface; without a trace, the text is a message."""
    plain = _plain(text)
    traces = list(_traces(plain.split("\n")))
    if not traces and plain.strip():
        traces = [Trace((Throwable("", plain.strip()),), line=1)]
    version = _JAR.search(plain) or _STARTED.search(plain)
    flink = version[1] if version is not None else "2.x" if _SECOND.search(plain) else None
    backend = next((name for name, pattern in _STORES if pattern.search(plain)), None)
    unique = {trace.throwables: trace for trace in reversed(traces)}
    return Log(tuple(sorted(unique.values(), key=lambda trace: trace.line)), flink, backend)


def _plain(text: str) -> str:
    """Return a log without what containers and JSON add to it."""
    text = _CONTAINER.sub("", text.replace("\r\n", "\n"))
    if text.lstrip().startswith(("{", "[{")):
        text = "\n".join(_of_json(text))
    return text.replace("\\r", "").replace("\\n", "\n").replace("\\t", "\t") if _ESCAPED.search(text) else text


def _of_json(text: str) -> Iterator[str]:
    """Yield the texts of a JSON document, or of a document in each line."""
    for document in (text,) if _parsed(text) is not None else text.split("\n"):
        value = _parsed(document)
        yield from (document,) if value is None else _texts(value)


def _parsed(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def _traces(lines: list[str]) -> Iterator[Trace]:
    entry, start = "", 0
    drafts: list[_Draft] = []
    for number, line in enumerate(lines, 1):
        head = _HEAD.fullmatch(line)
        if head is not None and not (head["lead"] or _THROWN.search(head["name"])):
            head = None
        if drafts and (frame := _FRAME.match(line)) is not None:
            drafts[-1].frames.append(frame["method"])
        elif head is not None:
            if drafts and head["lead"] is None:
                yield Trace(tuple(draft.throwable() for draft in drafts), entry, start)
                drafts = []
            start = start if drafts else number
            drafts.append(_Draft(head["name"], [head["message"] or ""]))
        elif drafts and not _MORE.match(line):
            if not drafts[-1].frames and line.strip() and not _ENTRY.match(line):
                drafts[-1].message.append(line.strip())
                continue
            yield Trace(tuple(draft.throwable() for draft in drafts), entry, start)
            drafts, entry = [], line[:_LONGEST_ENTRY]
        elif not drafts and line.strip():
            entry = line[:_LONGEST_ENTRY]
    if drafts:
        yield Trace(tuple(draft.throwable() for draft in drafts), entry, start)
