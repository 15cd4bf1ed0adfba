"""The outcomes for the operators and states of a snapshot in another job, with the commands that repair it.

The repairs of a report are done one after the other: each command reads the snapshot of the one before.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import chain
from typing import Any, Final

from state_processor.command_line import Answer, html_table, render_records, text_of

_COLUMNS: Final = ("operator", "state", "outcome", "reason")


SNAPSHOT: Final = "(snapshot)"
"""The label of the verdict on a snapshot as a whole."""


class Outcome(StrEnum):
    """The outcome for an operator or a state."""

    RESTORES = "restores"
    MIGRATES = "restores after migration"
    NEW = "is new"
    UNUSED = "is not used"
    UNKNOWN = "can't be checked"
    CHANGED = "would change"
    LOST = "would be lost"
    REFUSED = "is refused"

    @property
    def severity(self) -> int:
        """The place in the order from harmless to fatal."""
        return list(Outcome).index(self)

    @property
    def is_bad(self) -> bool:
        """Whether Flink refuses to start, or values are lost or changed."""
        return self in (Outcome.CHANGED, Outcome.LOST, Outcome.REFUSED)


class Cause(StrEnum):
    """The rule that leads to an outcome. Repairs are chosen by it."""

    OPERATOR_MISSING = "operator-missing"
    OPERATORS_SWAPPED = "operators-swapped"
    NOT_KEYED = "not-keyed"
    STATE_UNUSED = "state-unused"
    STATE_RENAMED = "state-renamed"
    KIND = "kind"
    TYPE = "type"
    TIME_TO_LIVE = "time-to-live"
    FIELDS = "fields"
    CODE = "code"
    KRYO_VERSION = "kryo-version"
    WINDOWS = "windows"
    QUERY = "query"
    QUERY_TEXT = "query-text"
    PARALLELISM = "parallelism"
    MAX_PARALLELISM = "max-parallelism"
    FORMAT = "format"
    ASYNCHRONOUS = "asynchronous"
    TIMER_SERVICE = "timer-service"
    FILES = "files"
    MOVED = "moved"
    CLAIMED = "claimed"
    CLAIMED_MISSING = "claimed-missing"
    VERSION = "version"


@dataclass(frozen=True, slots=True)
class StateVerdict:
    """The outcome for a state.

    Attributes
    ----------
    state
        The name.
    outcome
        ``is not used``: the new job does not register the state; Flink keeps it in its next savepoints. ``would change``: the
        job starts, and some values differ from before, or parts of them are missing. ``can't be checked``: neither the
        snapshot nor the description of the job shows what happens; this is not a success.
    reason
        The rule of Flink that leads to the outcome; empty if the state restores unchanged.
    repair
        Commands that change the savepoint so that the job restores it.
    cause
        The kind of the reason; ``None`` if the state restores unchanged.
    part
        The part of the state that it applies to: ``key``, ``namespace``, ``map_key`` or ``value``; empty for the whole state.
    subject
        The Java class whose code decides; empty if it is not about a class.
    """

    state: str
    outcome: Outcome
    reason: str = ""
    repair: tuple[str, ...] = ()
    cause: Cause | None = None
    part: str = ""
    subject: str = ""


@dataclass(frozen=True, slots=True)
class OperatorVerdict:
    """The outcome for an operator. It is the worst outcome of the states, unless a rule applies to the whole operator.

    Attributes
    ----------
    operator, uid_hash
        The label: the uid, or else the name, or else the hash. The hash of the uid; ``None`` if it is unknown.
    outcome, reason, repair, cause
        As for states.
    states
        The outcome for each state of the snapshot and of the new job.
    rules
        The verdicts on the operator as a whole, each with its repair.
    """

    operator: str
    uid_hash: str | None
    outcome: Outcome
    reason: str = ""
    repair: tuple[str, ...] = ()
    states: tuple[StateVerdict, ...] = ()
    cause: Cause | None = None
    rules: tuple[StateVerdict, ...] = ()


@dataclass(frozen=True, slots=True)
class JobReport:
    """The outcomes for a snapshot in another job. Its text is a table of operators and states, and the commands that repair.

    Attributes
    ----------
    operators
        The outcome for each operator of the snapshot, and for new operators. Verdicts on the snapshot as a whole come first;
        their operator is ``(snapshot)``.
    notes
        Settings of the job that change the outcome, and hints about its description.
    """

    operators: tuple[OperatorVerdict, ...]
    notes: tuple[str, ...] = ()

    @property
    def answer(self) -> Answer:
        """Whether Flink restores every value as before. State that is refused, lost or changed outweighs the rest."""
        outcomes: set[Outcome] = set()
        for operator in self.operators:
            outcomes |= {operator.outcome, *(state.outcome for state in operator.states)}
        return Answer.of(wrong=any(outcome.is_bad for outcome in outcomes), unchecked=Outcome.UNKNOWN in outcomes)

    @property
    def restores(self) -> bool:
        """Whether Flink restores every value as before, without ``--allowNonRestoredState``, and all of this was checked."""
        return self.answer is Answer.YES

    @property
    def repair(self) -> tuple[str, ...]:
        """All commands that may repair, each once. A command that drops state comes after all others."""
        commands = dict.fromkeys(chain.from_iterable(verdict.repair for verdict in self._verdicts))
        return tuple(sorted(commands, key=drops))

    @property
    def steps(self) -> tuple[str, ...]:
        """The first repair of each verdict that is bad, to be executed one after the other. The last one writes ``OUT``."""
        commands: list[str] = []
        for verdict in self._verdicts:
            if verdict.outcome.is_bad:
                commands += until_written(verdict.repair)
        return steps(commands)

    @property
    def _verdicts(self) -> Iterator[StateVerdict]:
        for operator in self.operators:
            yield from operator.rules
            yield from operator.states

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each operator and each of its states."""
        for o in self.operators:
            yield {"operator": o.operator, "state": None, "outcome": str(o.outcome), "reason": o.reason}
            for s in o.states:
                yield {"operator": o.operator, "state": s.state, "outcome": str(s.outcome), "reason": s.reason}

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield each operator with its states as JSON values."""
        return map(asdict, self.operators)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        parts = [render_records(_COLUMNS, self.rows()), *map(text_of, self.notes)]
        further = [command for command in self.repair if command not in self.steps]
        for title, commands in (("To repair:", self.steps), ("Other repairs, each of the snapshot as it is:", further)):
            if commands:
                parts.append("\n".join((title, *(f"  {text_of(command)}" for command in commands))))
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        return html_table(_COLUMNS, list(self.rows()), caption="; ".join((*self.notes, *self.repair)))


TARGET: Final = "OUT"
"""The directory of the repaired savepoint in commands."""
PLACEHOLDERS: Final = frozenset({"MODULE", "OLD_PLAN", "NEW_PLAN", "DIR", "OLD=NEW", "NEW"})
"""Words of commands that stand for files, directories and modules of the user."""
_NOTE: Final = "  # "
_ORDER: Final = (
    "copy",
    "migrate",
    "migrate-query",
    "convert-state",
    "with-ttl",
    "drop-state",
    "rename-uid",
    "set-max-parallelism",
)
"""The order of steps: later ones need the uids and the format that earlier ones leave. Other commands come last."""


def command_name(command: str) -> str:
    """Return the name of a command."""
    return shlex.split(command, comments=True)[1]


def drops(command: str) -> bool:
    """Return whether a command drops state."""
    return command_name(command) == "drop-state"


def writes(command: str) -> bool:
    """Return whether a command writes a repaired savepoint; others only show or keep something."""
    return TARGET in shlex.split(command, comments=True)


def placeholders(command: str) -> tuple[str, ...]:
    """Return the words of a command that the user has to replace before it runs."""
    return tuple(word for word in shlex.split(command, comments=True) if word in PLACEHOLDERS)


def until_written(commands: Sequence[str]) -> tuple[str, ...]:
    """Return the first command that writes a repaired savepoint, and what comes before it; empty if no command does."""
    first = next((number for number, command in enumerate(commands) if writes(command)), -1)
    return tuple(commands[: first + 1])


def steps(commands: Sequence[str]) -> tuple[str, ...]:
    """Return commands that can be executed one after the other. The last one writes ``OUT``.

    ``commands``: the repairs of each mismatch. All read the snapshot, and those that repair write ``OUT``.
    """
    reads = [command for command in dict.fromkeys(commands) if not writes(command)]
    chosen = sorted(dict.fromkeys(filter(writes, commands)), key=_rank)
    if len(chosen) > 1 and command_name(chosen[0]) == "copy":  # each of the others writes a copy, too
        del chosen[0]
    result, source = reads, ""
    for number, command in enumerate(chosen, 1):
        text, _, note = command.partition(_NOTE)
        words = shlex.split(text)
        target = TARGET if number == len(chosen) else f"{TARGET}.{number}"
        words[2:4] = [source or words[2], target]
        source = target
        result.append(_NOTE.join(filter(None, (shlex.join(words), note))))
    return tuple(result)


def _rank(command: str) -> int:
    name = command_name(command)
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)
