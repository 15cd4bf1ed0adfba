"""The parser of the command line: its messages show the mistake and the most similar name, not all flags of a command."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from state_processor.commands.terminal import complain

BAD_INPUT: Final = 2
_CUTOFF: Final = 0.6
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
            self.error(f"there is no flag {flag}{did_you_mean(flag, flags)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = [str(choice) for choice in action.choices or ()]
        if choices and str(value) not in choices:
            near = did_you_mean(str(value), choices) or f"; choose {', '.join(choices)}"
            raise argparse.ArgumentError(action, f"{value!r} is unknown{near}")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of a message with the most similar name; empty if no name is similar."""
    near = get_close_matches(name, list(names), n=1, cutoff=_CUTOFF)
    return f"; did you mean {near[0]}?" if near else ""
