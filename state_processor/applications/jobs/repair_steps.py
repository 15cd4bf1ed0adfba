"""Repairs one after the other: each command reads the snapshot of the one before."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

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
