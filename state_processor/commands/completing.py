"""The command ``completion``: print a script for command completion in a shell."""

from __future__ import annotations

import argparse
from typing import Any, Final

from state_processor.serializers.errors import OptionError

_SHELLS: Final = ("bash", "zsh", "tcsh")


def add_command(commands: Any, parser: argparse.ArgumentParser) -> None:
    """Add the command to the parsers of the command line; ``parser`` is the main parser."""
    text = 'Print a script that completes commands. In the profile of a shell: eval "$(state-processor completion bash)".'
    completion = commands.add_parser("completion", help="script for command completion in a shell", description=text)
    completion.add_argument("shell", choices=_SHELLS, metavar="SHELL", help="one of %(choices)s")
    completion.set_defaults(run=lambda options: _print_script(parser, options.shell))


def _print_script(parser: argparse.ArgumentParser, shell: str) -> None:
    try:
        import shtab
    except ImportError:
        raise OptionError("completion needs the package shtab: pip install 'state-processor[completion]'") from None
    print(shtab.complete(parser, shell))
