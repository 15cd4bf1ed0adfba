"""Traces of Java exceptions in logs of Flink, in text and in JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from state_processor.applications.explain.kinds import PatternTable
from state_processor.states import parse_json

_NAME: Final = r"(?:[A-Za-z_$][\w$]*\.)+[A-Z_$][\w$]*"
_HEAD: Final = re.compile(
    rf"\s*(?P<lead>(?:Caused by|Wrapped by|Suppressed): |: )?(?:\[CIRCULAR REFERENCE: ?)?(?:Exception in thread \"[^\"]*\" )?"
    rf"(?P<name>{_NAME})(?:: (?P<message>.*))?\s*"
)
_THROWN: Final = re.compile(r"(Exception|Error|Throwable|Failure|Timeout|Interrupt)\w*$")
_EMBEDDED: Final = re.compile(rf"(?:^|[\s:(\[\"'])(?P<name>{_NAME})(?:: (?P<message>.*))?")
"""An exception inside an entry of a log."""
_FRAME: Final = re.compile(r"\s*at\s+(?:[\w.@-]+/+)*(?P<method>[\w$.<>]+(?:\$\$?[\w$./<>]+)*)\([^)]*\)")
_BROKEN: Final = re.compile(
    r"^(?P<begin>\s*at\s+(?:[\w.@-]+/+)*[\w$.<>]+(?:\([^()\n]*)?)\n(?P<rest>[\w$.<>:]*(?:\([^()\n]*)?\))", re.MULTILINE
)
"""A method whose line is broken."""
_MORE: Final = re.compile(r"\s*\.\.\. \d+ (more|common frames)")
_ENTRY: Final = re.compile(r"\s*\[?(\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d\b|\s*(TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")
_CONTAINER: Final = re.compile(r"^(?:\S+ (?:stdout|stderr) [FP] |[\w.-]+\s+\| )", re.MULTILINE)
"""What Kubernetes and Docker write before each line."""
_PREFIX: Final = re.compile(r"(?P<prefix>\S.*?\s)(?=\s*at (?:[\w.@-]+/+)*[\w$.<>]+\.[\w$<>]+\([^()]*\)(?:\s|$))")
"""What a collector of logs writes before each line."""
_COLOR: Final = re.compile(r"\x1b\[[\d;]*m")
_ESCAPED: Final = re.compile(r"\\n(?:\\t|\s*)at ")
_JAR: Final = re.compile(r"flink-(?:dist|runtime|core|streaming-java)[\w.-]*\.jar:(\d+\.\d+)[\w.-]*\]")
_STARTED: Final = re.compile(r"\bVersion: (\d+\.\d+)[\w.-]*, (?:Scala|Rev)")
_SECOND: Final = re.compile(r"\borg\.apache\.flink\.state\.(?:rocksdb|forst)\.|\bkryo\.kryo5\b")
"""Packages that Flink has since 2.0."""
_STORES: Final = PatternTable(
    (
        ("forst", r"\borg\.apache\.flink\.state\.forst\."),
        ("rocksdb", r"\borg\.apache\.flink\.(?:contrib\.streaming\.state|state\.rocksdb)\."),
        ("hashmap", r"\borg\.apache\.flink\.runtime\.state\.heap\.Heap(?:Keyed|Restore|SavepointRestore|PriorityQueueS)"),
    )
)
_JDK: Final = re.compile(r"(?:java|javax|jdk|sun|com\.sun)\.|.*\bPreconditions\.")
_LIBRARY: Final = re.compile(
    r"org\.apache\.|com\.esotericsoftware\.|org\.rocksdb\.|org\.forstdb\.|scala\.|com\.amazonaws\.|software\.amazon\.|"
    r"io\.debezium\.|com\.ververica\.|io\.confluent\.|com\.mongodb\.|com\.mysql\.|org\.postgresql\.|com\.zaxxer\.|"
    r"io\.fabric8\.|"
    r"com\.google\.cloud\.|com\.azure\.|org\.elasticsearch\.|org\.opensearch\.|io\.netty\."
)
_CALLER: Final = re.compile(
    r"org\.apache\.flink\.(?:streaming(?!\.runtime\.operators\.sink|\.connectors)|cep|client|table\.runtime|"
    r"api\.common\.functions|"
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

    @property
    def original(self) -> Throwable:
        """The exception that the message repeats; without one, the exception itself."""
        return _embedded(self.message) or self

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.class_name, self.message)))


@dataclass(frozen=True, slots=True)
class Trace:
    """An exception with its causes."""

    throwables: tuple[Throwable, ...]  # the exception and its causes, the outermost first
    entry: str = ""  # the entry of the log in front of it
    line: int = 0  # the number of the line of its head
    suppressed: tuple[Throwable, ...] = ()  # exceptions that followed while resources were closed

    @property
    def text(self) -> str:
        """The entry and the messages."""
        return "\n".join((self.entry, *map(str, self.throwables)))

    @property
    def has_head(self) -> bool:
        """Whether an exception is in it, not only methods."""
        return any(map(str, self.throwables))

    @property
    def frames(self) -> tuple[str, ...]:
        """The methods of all exceptions."""
        return tuple(chain.from_iterable(throwable.frames for throwable in self.throwables))

    def is_foreign(self, throwable: Throwable) -> bool:
        """Return whether neither Flink nor a library threw an exception of the trace."""
        return bool(throwable.thrower) and not _LIBRARY.match(throwable.thrower)

    @staticmethod
    def is_of_user(frame: str) -> bool:
        """Return whether a method is neither of Flink, nor of a library, nor of the JDK."""
        return not _LIBRARY.match(frame) and not _JDK.match(frame)

    def is_of_job(self, throwable: Throwable) -> bool:
        """Return whether a function of the job, or a library that it calls, threw an exception of the trace."""
        return self.is_foreign(throwable) and _CALLER.match(self.caller_of(throwable)) is not None

    def caller_of(self, throwable: Throwable) -> str:
        """Return the innermost method of Flink or a library that an exception passed; empty if the trace has none.

        Java leaves out the methods that an exception has in common with the exception around it.
        """
        outer_throwables = self.throwables[: self.throwables.index(throwable) + 1]
        frames = chain.from_iterable(outer.frames for outer in reversed(outer_throwables))
        return next(filter(_LIBRARY.match, frames), "")


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
        traces = [*_messages(plain.strip())]
    version = _JAR.search(plain) or _STARTED.search(plain)
    flink = version[1] if version is not None else "2.x" if _SECOND.search(plain) else None
    backend = _STORES.first(plain)
    if any(trace.has_head for trace in traces):  # other methods are those of threads
        traces = [trace for trace in traces if trace.has_head]
    unique = {trace.throwables: trace for trace in reversed(traces)}
    return Log(tuple(sorted(unique.values(), key=lambda trace: trace.line)), flink, backend)


def _plain(text: str) -> str:
    """Return a log without what containers and JSON add to it."""
    text = _CONTAINER.sub("", _COLOR.sub("", text.replace("\r\n", "\n")))
    if text.lstrip().startswith(("{", "[{")):
        text = "\n".join(_of_json(text))
    return _unbroken(
        _unprefixed(text.replace("\\r", "").replace("\\n", "\n").replace("\\t", "\t") if _ESCAPED.search(text) else text)
    )


def _unbroken(text: str) -> str:
    """Return a log with whole methods: a terminal or a form may have broken their lines."""
    return _BROKEN.sub(r"\g<begin>\g<rest>", text)


def _unprefixed(text: str) -> str:
    """Return a log without the prefix that a collector wrote before each line. Prefixes differ in digits alone."""
    lines = text.split("\n")
    shapes: Counter[str] = Counter()
    for line in lines:
        match = _PREFIX.match(line)
        if match is not None and not _FRAME.match(match[0]):
            shapes[_shape(match["prefix"].rstrip())] += 1
    if not shapes or shapes.most_common(1)[0][1] < 2:
        return text
    shape = shapes.most_common(1)[0][0]
    return "\n".join(line[len(shape) :] if _shape(line[: len(shape)]) == shape else line for line in lines)


def _shape(prefix: str) -> str:
    return re.sub(r"\d", "0", prefix)


def _messages(text: str) -> Iterator[Trace]:
    """Yield the exceptions of a text without methods; without an exception, the text itself."""
    whole = Throwable("", text)
    has_embedded = False
    for number, line in enumerate(text.split("\n"), 1):
        throwable = _embedded(line)
        if throwable is not None:
            has_embedded = True
            yield Trace((whole, throwable), line=number)
    if not has_embedded:
        yield Trace((whole,), line=1)


def _embedded(line: str) -> Throwable | None:
    """Return the last exception that an entry of a log, or a message, has in itself."""
    throwable = None
    while match := _EMBEDDED.search(line):
        if _THROWN.search(match["name"]):
            throwable = Throwable(match["name"], match["message"] or "")
        line = match["message"] or line[match.end() :]
    return throwable


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


@dataclass(slots=True)
class _DraftTrace:
    """A trace that is read: the chain of causes, and the suppressed exceptions, which have causes of their own."""

    entry: str = ""
    start: int = 0
    chain: list[_Draft] = field(default_factory=list)
    suppressed: list[_Draft] = field(default_factory=list)
    indent: int | None = None  # of the suppressed exception whose lines are read
    current: _Draft | None = None

    def add(self, head: re.Match[str], line: str) -> None:
        draft = self.current = _Draft(head["name"], [head["message"] or ""])
        indent = len(line) - len(line.lstrip())
        lead = head["lead"] or ""
        if lead.startswith("Suppressed") and self.chain:
            self.indent = indent
        elif self.indent is not None and (indent < self.indent or not indent):
            self.indent = None
        if self.indent is not None:
            self.suppressed.append(draft)
        elif lead.startswith("Wrapped"):
            self.chain.insert(0, draft)
        else:
            self.chain.append(draft)

    def trace(self) -> Trace:
        return Trace(_throwables(self.chain), self.entry, self.start, _throwables(self.suppressed))


def _throwables(drafts: Iterable[_Draft]) -> tuple[Throwable, ...]:
    return tuple(draft.throwable() for draft in drafts)


def _traces(lines: list[str]) -> Iterator[Trace]:
    entry, read = "", _DraftTrace()
    for number, line in enumerate(lines, 1):
        head = _HEAD.fullmatch(line)
        if head is not None and not (head["lead"] or _THROWN.search(head["name"])):
            head = None
        frame = _FRAME.match(line)
        if frame is not None or (head is not None and (head["lead"] or "").startswith(("Caused", "Wrapped", "Suppressed"))):
            if read.current is None and (frame is not None or _embedded(entry) is not None):
                read = _begun(entry, number)
            if frame is not None:
                assert read.current is not None
                read.current.frames.append(frame["method"])
                continue
        if head is not None:
            if read.chain and head["lead"] is None:
                yield read.trace()
                read = _DraftTrace(entry, number)
            read.start = read.start or number
            read.entry = read.entry or entry
            read.add(head, line)
        elif read.current is not None and not _MORE.match(line):
            if not read.current.frames and line.strip() and not _ENTRY.match(line):
                read.current.message.append(line.strip())
                continue
            yield read.trace()
            read, entry = _DraftTrace(), line[:_LONGEST_ENTRY]
        elif read.current is None and line.strip():
            entry = line[:_LONGEST_ENTRY]
    if read.chain:
        yield read.trace()


def _begun(entry: str, number: int) -> _DraftTrace:
    """Return a trace whose head is in an entry of the log, or missing: the log begins inside of the trace."""
    read = _DraftTrace(entry, number)
    throwable = _embedded(entry)
    read.current = _Draft("", []) if throwable is None else _Draft(throwable.class_name, [throwable.message])
    read.chain.append(read.current)
    return read
