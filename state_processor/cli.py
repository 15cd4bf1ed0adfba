"""The command ``state-processor``, which shows, compares and rewrites savepoints and checkpoints without Spark."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from state_processor import __version__
from state_processor.commands import (
    analysing,
    completing,
    exporting,
    listing,
    queries,
    reporting,
    rewriting,
    showing,
    sinks,
    validating,
    warming,
)
from state_processor.commands.terminal import complain, escape_in_help, printed_log
from state_processor.serializers.doors import Door, entered
from state_processor.serializers.errors import StateProcessorError

BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
"""What shells report of a process that Ctrl-C ended."""

_GROUPS: Final = (listing, showing, analysing, reporting, exporting, rewriting, sinks, validating, queries, warming)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, 1 if a command refuses its input or finds nothing, or 2 for invalid input."""
    parser = argparse.ArgumentParser(prog="state-processor", description="Show and rewrite Flink savepoints and checkpoints.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for group in _GROUPS:
        group.add_commands(commands)
    completing.add_command(commands, parser)
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
