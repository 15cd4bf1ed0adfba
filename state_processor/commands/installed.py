"""Commands of installed packages, which their entry points name."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from state_processor.commands.command import Command
from state_processor.commands.terminal import complain
from state_processor.serializers.registry import entry_points
from state_processor.support.errors import describe

ENTRY_POINT_GROUP: Final = "state_processor.commands"


def installed_commands(built_in: Collection[str]) -> Iterator[Command]:
    """Yield the commands of installed packages. Their names are not those of built-in commands.

    A package that fails is named on standard error; other commands work without it.
    """
    for entry_point in entry_points(ENTRY_POINT_GROUP):
        try:
            command: Any = entry_point.load()
            problem = _problem(entry_point.name, command, built_in)
        except Exception as error:  # of another package
            problem = f"failed with {describe(error)}"
        if problem:
            place = f"{entry_point.name} ({entry_point.value})"
            complain(f"the installed entry point {place} {problem}; the command is not known")
        else:
            yield command


def _problem(name: str, command: object, built_in: Collection[str]) -> str:
    if not isinstance(command, Command):
        return f"is of type {type(command).__name__}, not a function with the decorator command of state_processor.command_line"
    if command.name != name:
        return f"has another name than its command, {command.name}"
    return "has the name of a command of this package" if name in built_in else ""
