"""The command ``state-processor``, which shows, compares and rewrites savepoints and checkpoints without Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from state_processor import __version__
from state_processor.commands import (
    analysing,
    completing,
    exporting,
    finding,
    history,
    jobs,
    listing,
    queries,
    reporting,
    retaining,
    rewriting,
    serving,
    showing,
    sinks,
    sql,
    syncing,
    validating,
    warming,
)
from state_processor.commands.parser import BAD_INPUT, Parser
from state_processor.commands.terminal import complain, escape_in_help, printed_log
from state_processor.serializers.doors import Door, entered
from state_processor.serializers.errors import StateProcessorError

INTERRUPTED: Final = 130
"""What shells report of a process that Ctrl-C ended."""
EXIT_CODES: Final = {
    0: "success",
    1: "an answer for scripts, which the help of the command describes",
    BAD_INPUT: "an error, with a message on standard error",
    INTERRUPTED: "interrupted by Ctrl-C",
}

_GROUPS: Final = (
    listing,
    history,
    showing,
    analysing,
    finding,
    reporting,
    exporting,
    rewriting,
    sinks,
    validating,
    jobs,
    retaining,
    syncing,
    queries,
    sql,
    serving,
    warming,
)


def command_parser() -> Parser:
    """Return the parser of all commands."""
    codes = "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())
    parser = Parser(
        prog="state-processor",
        description="Show, compare and rewrite savepoints and checkpoints of Flink, without Spark.",
        epilog=f"Exit codes: {codes}.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}", help="print the version")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for group in _GROUPS:
        group.add_commands(commands)
    completing.add_command(commands, parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return one of :data:`EXIT_CODES`."""
    parser = command_parser()
    escape_in_help()
    options = parser.parse_args(arguments)
    try:
        with entered(Door.COMMAND_LINE), printed_log():
            code = options.run(options)
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
    return code or 0


def _discard_output() -> None:
    """Drop output that is still buffered, so that the end of the process does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    raise SystemExit(main())
