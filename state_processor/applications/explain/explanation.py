"""Explanations: causes of a failed restore with their repairs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from state_processor.applications.explain.kinds import Certainty, Kind
from state_processor.applications.jobs.verdicts import TARGET, command_name, placeholders
from state_processor.command_line import Answer, html_table, text_of

_NOTE: Final = "  # "
_COLUMNS: Final = ("kind", "certainty", "cause", "operator", "state", "field")


@dataclass(frozen=True, slots=True)
class Remedy:
    """A command that repairs a snapshot, or that shows how to go on.

    Attributes
    ----------
    command
        The command. ``OUT`` is the directory of the repaired savepoint.
    note
        A remark, such as the loss.
    loses_state
        Whether state is lost.
    """

    command: str
    note: str = ""
    loses_state: bool = False

    @classmethod
    def of(cls, line: str) -> Remedy:
        """Return the remedy of a line of :class:`~state_processor.applications.jobs.repairs.Repairs`."""
        command, _, note = line.partition(_NOTE)
        return cls(command, note, command_name(command) == "drop-state" or "--drop-field" in shlex.split(command))

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The words of the command that the user has to replace, such as ``MODULE``."""
        return placeholders(self.command)

    @property
    def keeps_state(self) -> bool:
        """Whether the repaired snapshot has all state."""
        return not self.loses_state and TARGET in shlex.split(self.command)

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands to paste: the preview, if the command has one, and the command."""
        return (f"{self.command} --dry-run", self.command) if TARGET in shlex.split(self.command) else (self.command,)

    def record(self) -> dict[str, Any]:
        """Return the remedy as a JSON object."""
        return asdict(self) | {"commands": list(self.commands), "placeholders": list(self.placeholders)}


@dataclass(frozen=True, slots=True)
class FailureCause:
    """A cause of a failed restore.

    Attributes
    ----------
    kind, certainty
        The kind, and whether the snapshot confirms it.
    sentence
        The cause in a sentence.
    operator, uid_hash
        The operator: its uid, or else its name, or else its hash; ``None`` if the cause is not about one operator.
    state, field
        The state, and the field of its values; ``None`` if the cause is not about one.
    written, required
        The type, kind or size in the snapshot and in the job; empty if it is unknown.
    repairs
        The repairs of the snapshot. Those that keep state come first.
    advice
        Other ways to go on, or the reason why no command repairs the snapshot.
    evidence
        Facts of the snapshot, and of the description of the job.
    message
        The message of Flink; empty if the cause does not come from a trace.
    """

    kind: Kind
    certainty: Certainty
    sentence: str
    operator: str | None = None
    uid_hash: str | None = None
    state: str | None = None
    field: str | None = None
    written: str = ""
    required: str = ""
    repairs: tuple[Remedy, ...] = ()
    advice: str = ""
    evidence: tuple[str, ...] = ()
    message: str = ""

    @property
    def loses_state(self) -> bool:
        """Whether the first repair loses state."""
        return bool(self.repairs) and self.repairs[0].loses_state

    def record(self) -> dict[str, Any]:
        """Return the cause as a JSON object."""
        repairs = [remedy.record() for remedy in self.repairs]
        return asdict(self) | {"repairs": repairs, "loses_state": self.loses_state}

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text."""
        yield f"{self.sentence} [{self.certainty}]"
        places = (("operator", self.operator), ("hash", self.uid_hash), ("state", self.state), ("field", self.field))
        facts = (("in the snapshot", self.written), ("in the job", self.required), ("message", self.message))
        for name, value in (*places, *facts):
            if value and (name != "hash" or value != self.operator):
                yield f"  {name + ':':<17}{text_of(value)}"
        for number, fact in enumerate(self.evidence):
            yield f"  {'checked:' if not number else '':<17}{text_of(fact)}"
        keeps = any(remedy.keeps_state for remedy in self.repairs)
        advice = f"  {'advice: ' if self.repairs else 'no repair of the snapshot: '}{text_of(self.advice)}"
        if self.advice and not keeps:
            yield advice
        for remedy in self.repairs:
            yield f"  repair: {text_of(remedy.note or ('loses state' if remedy.loses_state else 'keeps all state'))}"
            for command in remedy.commands:
                yield f"    {text_of(command)}"
        if self.advice and keeps:
            yield advice


@dataclass(frozen=True, slots=True)
class Explanation:
    """The causes of a failed restore. The text shows them with their repairs.

    Attributes
    ----------
    causes
        The causes, the most certain first.
    checked
        The things that were looked at.
    unexplained
        Exceptions that no rule knows.
    """

    causes: tuple[FailureCause, ...] = ()
    checked: tuple[str, ...] = ()
    unexplained: tuple[str, ...] = ()

    @property
    def answer(self) -> Answer:
        """Whether a cause was found, and the snapshot confirms the first one.

        A failed step alone, whose causes the snapshot contradicts, is not a cause.
        """
        contradicted = (Kind.STEP, Certainty.POSSIBLE)
        is_open = any(cause.certainty is not Certainty.CONFIRMED for cause in self.causes[:1])
        return Answer.of(wrong=all((cause.kind, cause.certainty) == contradicted for cause in self.causes), unchecked=is_open)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield each cause as JSON values, then exceptions without a cause, and the checks."""
        for cause in self.causes:
            yield cause.record()
        yield {"unexplained": list(self.unexplained), "checked": list(self.checked)}

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        parts = ["\n".join(cause.lines()) for cause in self.causes] or ["No cause is known."]
        if self.unexplained:
            parts.append("\n".join(("No rule knows these exceptions:", *(f"  {text_of(text)}" for text in self.unexplained))))
        parts.append("\n".join(("Checked:", *(f"  {text_of(text)}" for text in self.checked))))
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        return html_table(_COLUMNS, [cause.record() | {"cause": cause.sentence} for cause in self.causes])
