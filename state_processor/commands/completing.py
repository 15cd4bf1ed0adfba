"""Completion in shells: scripts for commands and flags, and the uids and states of the snapshot on the line."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.commands.terminal import say
from state_processor.support.errors import StateProcessorError
from state_processor.support.late import require

SHELLS: Final = ("bash", "zsh", "fish", "tcsh")
UIDS: Final = "uids"
STATES: Final = "states"
_KINDS: Final = {"--uid": UIDS, "--uid-hash": UIDS, "--state": STATES}
"""Flags whose operands are names of the snapshot, in all commands."""
_PATHS: Final = frozenset({"PATH", "DIR", "OLD", "NEW", "SNAPSHOT"})
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


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script that completes commands in a shell.

    Only names of a snapshot start a process of Python. In tcsh they are not completed.
    """
    shtab = require("shtab", "completion", "scripts that complete commands")
    for action in _actions(parser):
        kind = next((_KINDS[flag] for flag in action.option_strings if flag in _KINDS), None)
        if kind is not None:
            action.complete = _completion(kind, parser.prog)
        elif not action.option_strings and action.metavar in _PATHS:
            action.complete = shtab.FILE
    text: str = shtab.complete(parser, shell)
    return text


def print_names(kind: str, line: str) -> None:
    """Print the uids of the snapshot on a command line, or the names of states, of the operator on the line if there is one."""
    with suppress(StateProcessorError, OSError):
        for name in names(kind, line):
            say(name)


def names(kind: str, line: str) -> Iterator[str]:
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
    yield from dict.fromkeys(shown_name(name) for operator in chosen for name in StoredOperator(snapshot, operator).survey()[0])


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
            return [part for word in shlex.split(line + end)[1:] for part in _parts(word)]
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
