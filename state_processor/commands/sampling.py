"""The command ``sample``, which copies the savepoint of the documentation."""

from __future__ import annotations

import argparse
import shutil

from state_processor.commands.command import argument, command
from state_processor.commands.terminal import say
from state_processor.samples import SHOP
from state_processor.support.errors import WriteError


@command(
    "sample",
    "the savepoint of a small shop, to try commands on",
    "Copy the savepoint of a small shop, which the documentation uses, into a new directory.",
    argument("target", metavar="DIR", help="a new directory"),
    python=("sp.sample_savepoint",),
)
def _sample(options: argparse.Namespace) -> None:
    try:
        shutil.copytree(SHOP, options.target)
    except FileExistsError:
        raise WriteError(f"{options.target} exists; name a new directory") from None
    say(f"{options.target} is the savepoint of a small shop. See its operators: state-processor inspect {options.target}")
