"""The command ``state-processor``, which shows, compares and rewrites savepoints and checkpoints without Spark.

Shells complete its commands and flags by scripts, and uids and states of the snapshot on the line by a process of Python.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from state_processor import __version__
from state_processor.commands.terminal import complain, escape_in_help, printed_log, say
from state_processor.support.doors import Door, choice_of, entered
from state_processor.support.errors import StateProcessorError
from state_processor.support.late import require
from state_processor.support.mappings import index_by_name
from state_processor.types.answers import Answer

if TYPE_CHECKING:
    from state_processor.backends.metadata.snapshot import Snapshot
    from state_processor.commands.command import Command

BAD_INPUT: Final = 2
_CUTOFF: Final = 0.6
_COMMON: Final = 4
"""Number of commands with a flag from which on the flag says nothing about what a user wants to do."""
_VALUE: Final = re.compile(r"-|--|-\d+|-\d*\.\d+|-.* .*", re.DOTALL)
"""Arguments with a hyphen that argparse parses as values: numbers, and text with spaces."""


class Parser(argparse.ArgumentParser):
    """A parser that reports a mistake in one line, and refuses unknown arguments with the name of the command."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "allow_abbrev": False})  # --uid is not short for --uids

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse arguments. Unknown arguments are an error."""
        arguments = list(sys.argv[1:] if args is None else args)
        if self._subparsers is None:
            self._refuse_unknown_flags(arguments)
        parsed, extras = super().parse_known_args(arguments, namespace)
        if extras:
            quoted = "; quote a value with spaces" if not extras[0].startswith("-") else ""
            self.error(f"unexpected argument: {' '.join(extras)}{quoted}")
        return parsed, extras

    def error(self, message: str) -> NoReturn:
        """Report a mistake, and end the process."""
        end = "" if message.endswith("?") else "."
        complain(f"{message}{end} {self.prog} --help shows all arguments", name=self.prog)
        raise SystemExit(BAD_INPUT)

    def _refuse_unknown_flags(self, arguments: Sequence[str]) -> None:
        flags = self._option_string_actions
        for argument in arguments:
            flag = argument.partition("=")[0]
            if argument == "--":
                return
            if not flag.startswith("-") or _VALUE.fullmatch(argument) or {flag, flag[:2]}.intersection(flags):
                continue
            if not flag.startswith("--"):
                self.error(f"there is no flag {argument}; a value that begins with - needs an equals sign: --flag={argument}")
            of_python = [name for name, action in flags.items() if flag[2:].replace("-", "_") == action.dest]
            if of_python:
                self.error(f"there is no flag {flag}; did you mean {of_python[-1]}?")
            self.error(f"there is no flag {flag}{_related_command(self.prog, flag) or did_you_mean(flag, flags)}")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Return the value of an argument. Choices may be spelled as in Python or as flags are, in any case."""
        value = super()._get_value(action, arg_string)  # type: ignore[misc]
        choices = () if isinstance(action.choices, dict) else action.choices or ()
        return choice_of(value, filter(lambda choice: isinstance(choice, str), choices)) or value

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = list(map(str, action.choices or ()))
        if choices and str(value) not in choices:
            near = did_you_mean(str(value), choices) or f"; choose {', '.join(choices)}"
            raise argparse.ArgumentError(action, f"{value!r} is unknown{near}")


def _related_command(program: str, flag: str) -> str:
    """Return the end of a message about a flag that only a command with a similar name has: ``set-offsets`` for ``offsets``."""
    command = program.rpartition(" ")[2]
    parsers: dict[str, Parser] = next(a.choices for a in command_parser()._actions if isinstance(a.choices, dict))
    matching = [n for n, parser in parsers.items() if flag in parser._option_string_actions]
    related = [n for n in matching if set(n.split("-")) & set(command.split("-"))]
    return f"; the command {related[0]} has it" if len(related) == 1 and len(matching) < _COMMON else ""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of a message with the most similar name; empty if no name is similar."""
    near = get_close_matches(name, list(names), n=1, cutoff=_CUTOFF)
    return f"; did you mean {near[0]}?" if near else ""


NO: Final = Answer.NO.exit_code
"""What a command with an answer for scripts returns if the answer is no."""
INTERRUPTED: Final = 130
"""What shells report of a process that Ctrl-C ended."""
EXIT_CODES: Final = {
    0: "success, or the answer yes",
    NO: "the answer no, which the help of the command describes",
    BAD_INPUT: "an error, with a message on standard error",
    Answer.UNCHECKED.exit_code: "the answer that not everything could be checked, which the help of the command describes",
    INTERRUPTED: "interrupted by Ctrl-C",
}

_COMPLETION: Final = "completion"
_MODULES: Final = {
    "list": "applications.listing",
    "latest": "applications.listing",
    "history": "applications.history.commands",
    "fleet": "applications.fleet.commands",
    "inspect": "commands.showing",
    "states": "commands.showing",
    "show": "commands.showing",
    "get": "commands.showing",
    "sizes": "commands.showing",
    "diff": "applications.changes.commands",
    "find": "applications.fleet.finding_commands",
    "erase": "applications.fleet.finding_commands",
    "report": "applications.report.page",
    "count": "applications.row_files.exporting",
    "export": "applications.row_files.exporting",
    "copy": "commands.rewriting",
    "convert": "commands.rewriting",
    "rename-uid": "commands.rewriting",
    "copy-operator": "commands.rewriting",
    "drop-state": "commands.rewriting",
    "convert-state": "applications.jobs.commands",
    "migrate": "commands.rewriting",
    "migrate-query": "commands.rewriting",
    "expire": "commands.rewriting",
    "with-ttl": "commands.rewriting",
    "touch": "commands.rewriting",
    "set-max-parallelism": "commands.rewriting",
    "update": "applications.row_files.changing",
    "new": "applications.row_files.changing",
    "offsets": "applications.connector_state",
    "set-offsets": "applications.connector_state",
    "sink-state": "applications.connector_state",
    "change-sink": "applications.connector_state",
    "validate": "applications.report.validating",
    "explain": "applications.explain.commands",
    "signature": "applications.jobs.commands",
    "check": "applications.jobs.commands",
    "match": "applications.jobs.commands",
    "compile-plan": "applications.jobs.commands",
    "check-query": "applications.jobs.commands",
    "files": "applications.retention.housekeeping",
    "orphans": "applications.retention.housekeeping",
    "dispose": "applications.retention.housekeeping",
    "retain": "applications.retention.housekeeping",
    "sync": "applications.lake.sync",
    "sql": "applications.sql.commands",
    "serve": "applications.serving.server",
    "browse": "applications.serving.server",
    "mcp": "applications.mcp.commands",
    "warm-up": "commands.setting_up",
    "sample": "commands.setting_up",
}
"""The module of each command, in this package and in the order of the help. A process imports only the module of its command."""


def command_parser(command_name: str | None = None) -> Parser:
    """Return the parser of all commands, or of a known command and few others."""
    codes = "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())
    parser = Parser(
        prog="state-processor",
        description="Show, compare and rewrite savepoints and checkpoints of Flink, without Spark.",
        epilog=f"Exit codes: {codes}.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}", help="print the version")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _commands(command_name):
        command.add_to(commands)

    text = "Print a script that completes commands, and the uids and states of a snapshot. In the profile of bash or zsh:"
    text = f'{text} eval "$(state-processor completion bash)"; of fish: state-processor completion fish | source.'
    completion = commands.add_parser(_COMPLETION, help="script for command completion in a shell", description=text)
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help="one of %(choices)s")
    completion.add_argument("--names", choices=(UIDS, STATES), help=argparse.SUPPRESS)
    completion.add_argument("--line", default="", help=argparse.SUPPRESS)
    completion.set_defaults(run=_complete)
    return parser


def _commands(command_name: str | None) -> Iterator[Command]:
    """Yield a built-in command, or the commands of packages for one of theirs, none for completion; otherwise all."""
    if command_name == _COMPLETION:
        return
    if command_name in _MODULES:
        yield from (command for command in _commands_of([_MODULES[command_name]]) if command.name == command_name)
        return
    from state_processor.commands.command import installed_commands

    installed = index_by_name(installed_commands({*_MODULES, _COMPLETION}))
    if command_name not in installed:
        yield from _commands_of(dict.fromkeys(_MODULES.values()))
    yield from installed.values()


def _commands_of(modules: Iterable[str]) -> Iterator[Command]:
    """Yield the commands of modules, in the order of the help."""
    from state_processor.commands.command import commands_of

    loaded = [import_module(f"state_processor.{module}") for module in modules]
    commands = {command.name: command for module in loaded for command in commands_of(module)}
    yield from (commands[name] for name in _MODULES if name in commands)


def _complete(options: argparse.Namespace) -> None:
    if options.names is None:
        print(completion_script(command_parser(), options.shell))
    else:
        print_names(options.names, options.line)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return one of :data:`EXIT_CODES`."""
    arguments = sys.argv[1:] if arguments is None else arguments
    return _run(command_parser(arguments[0] if arguments else None), arguments)


def _run(parser: Parser, arguments: Sequence[str]) -> int:
    escape_in_help()
    options = parser.parse_args(arguments)
    try:
        with entered(Door.COMMAND_LINE), printed_log():
            answer: bool | Answer | None = options.run(options)
        sys.stdout.flush()
    except StateProcessorError as error:
        complain(str(error))
        return BAD_INPUT
    except BrokenPipeError:  # the reader of a pipe, such as head, has closed it
        _discard_output()
        return 0
    except OSError as problem:  # such as a full disk behind standard output
        _discard_output()
        complain(str(problem))
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    if answer is None or isinstance(answer, bool):
        return NO if answer is False else 0
    return answer.exit_code


def _discard_output() -> None:
    """Drop output that is still buffered, so that the end of the process does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


SHELLS: Final = ("bash", "zsh", "fish", "tcsh")
UIDS: Final = "uids"
STATES: Final = "states"
_KINDS: Final = {"--uid": UIDS, "--uid-hash": UIDS, "--state": STATES}
"""Flags whose operands are names of the snapshot, in all commands."""
_TEXTS: Final = frozenset({"KEY", "QUERY"})
"""Positional arguments that are texts. Without a type and choices, the others are paths."""
_BASH: Final = """
_state_processor_{kind}() {{
  local name
  while IFS= read -r name; do
    [[ $name == "$1"* ]] && printf '%q\\n' "$name"
  done < <({prog} completion bash --names {kind} --line="$COMP_LINE" 2>/dev/null)
}}
"""
_ZSH: Final = """
_state_processor_{kind}() {{
  local -a names
  names=("${{(@f)$({prog} completion zsh --names {kind} --line="${{words[*]}}" 2>/dev/null)}}")
  compadd -a names
}}
"""
_FISH: Final = """
function _state_processor_{kind}
  {prog} completion fish --names {kind} --line=(commandline -cp) 2>/dev/null
end
"""


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script that completes commands in a shell.

    Only names of a snapshot start a process of Python. In tcsh they are not completed.
    """
    shtab = require("shtab", "completion", "scripts that complete commands")
    for action in _actions(parser):
        kind = next((_KINDS[flag] for flag in action.option_strings if flag in _KINDS), None)
        if kind is not None:
            action.complete = _completion(kind, parser.prog)
        elif not (action.option_strings or action.choices or action.type or action.metavar in _TEXTS):
            action.complete = shtab.FILE
    text: str = shtab.complete(parser, shell)
    return text


def print_names(kind: str, line: str) -> None:
    """Print the uids of the snapshot on a command line, or the names of states, of the operator on the line if there is one."""
    with suppress(StateProcessorError, OSError):
        for name in names_on_line(kind, line):
            say(name)


def names_on_line(kind: str, line: str) -> Iterator[str]:
    """Yield the uids (or hashes) of the snapshot on a command line, or the names of states."""
    words = _words(line)
    snapshot = next(filter(None, map(_opened, words)), None)
    if snapshot is None:
        return
    operators = snapshot.metadata.operators
    if kind == UIDS:
        yield from (operator.uid or operator.operator_id for operator in operators if operator.subtasks)
        return
    from state_processor.backends.read.stored_operator import StoredOperator
    from state_processor.backends.state.python_states import shown_name

    uid = next((value for flag, value in pairwise(words) if flag in ("--uid", "--uid-hash")), None)
    chosen = [operator for operator in operators if uid in (None, operator.uid, operator.operator_id)]
    yield from dict.fromkeys(shown_name(name) for operator in chosen for name in StoredOperator(snapshot, operator).surveyed[0])


def _actions(parser: argparse.ArgumentParser) -> Iterator[Any]:
    for action in parser._actions:
        if isinstance(action.choices, Mapping):  # commands
            for command in action.choices.values():
                yield from _actions(command)
        else:
            yield action


def _completion(kind: str, prog: str) -> dict[str, Any]:
    preambles = {shell: text.format(kind=kind, prog=prog) for shell, text in (("bash", _BASH), ("zsh", _ZSH), ("fish", _FISH))}
    function = f"_state_processor_{kind}"
    return {"bash": function, "zsh": function, "fish": f"({function})", "preamble": preambles}


def _words(line: str) -> list[str]:
    """Return the words of a line, which may end inside of quotes."""
    for end in ("", "'", '"'):
        with suppress(ValueError):
            return list(chain.from_iterable(map(_parts, shlex.split(line + end)[1:])))
    return []


def _parts(word: str) -> list[str]:
    return word.split("=", 1) if word.startswith("--") else [str(Path(word).expanduser()) if word.startswith("~") else word]


def _opened(word: str) -> Snapshot | None:
    from state_processor.options.access import SnapshotAccess

    if word.startswith("-") or not word:
        return None
    with suppress(StateProcessorError, OSError):
        return SnapshotAccess().open(word)
    return None


if __name__ == "__main__":
    raise SystemExit(main())
