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
    queries,
    reporting,
    rewriting,
    showing,
    sinks,
    validating,
    warming,
)
from state_processor.serializers.errors import StateProcessorError

BAD_INPUT: Final = 2

_GROUPS: Final = (showing, analysing, reporting, exporting, rewriting, sinks, validating, queries, warming)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, 1 for what ``validate`` or ``check-query`` refuse, or 2 for invalid input."""
    parser = argparse.ArgumentParser(prog="state-processor", description="Show and rewrite Flink savepoints and checkpoints.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for group in _GROUPS:
        group.add_commands(commands)
    completing.add_command(commands, parser)
    options = parser.parse_args(arguments)
    try:
        code = options.run(options)
        sys.stdout.flush()
    except StateProcessorError as error:
        print(f"state-processor: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:  # the reader of a pipe, such as head, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code or 0


if __name__ == "__main__":
    raise SystemExit(main())
