"""Options as arguments of the command line."""

from __future__ import annotations

import argparse
from typing import Any, Final

from state_processor.options.table import READ_OPTIONS, SNAPSHOT_OPTIONS
from state_processor.serializers.errors import OptionError

_READING: Final = tuple(option for option in READ_OPTIONS if option.flag)
"""Options of reading state that have a flag."""


def add_flags(parser: argparse.ArgumentParser, *, reading: bool = False) -> None:
    """Add the options of opening a snapshot that have a flag and, on request, those of reading state."""
    for option in (*SNAPSHOT_OPTIONS, *(_READING if reading else ())):
        flag, operand = option.flag.split()
        text = option.doc.replace("`", "")
        if "=" in operand or operand.endswith("..."):
            name = operand.removesuffix("...")
            parser.add_argument(flag, dest=option.argument, metavar=name, action="append", help=f"{text} May be repeated.")
        else:
            parser.add_argument(flag, dest=option.argument, metavar=operand, help=text)


def flag_values(given: argparse.Namespace, *, reading: bool = True) -> dict[str, Any]:
    """Return the keyword arguments that the flags stand for, on request only those of opening a snapshot.

    Raises
    ------
    OptionError
        If a flag has an operand of another form.
    """
    values = ((o, getattr(given, o.argument, None)) for o in (*SNAPSHOT_OPTIONS, *(_READING if reading else ())))
    return {o.argument: _pairs(o.flag, v, o.kind.is_secret) if "=" in o.flag else v for o, v in values if v is not None}


def _pairs(flag: str, given: list[str], is_secret: bool) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for text, (name, _, value) in zip(given, pairs, strict=True):
        if not name or not value:
            shown = "" if is_secret else f" {text}"
            raise OptionError(f"{flag.split()[0]}{shown}: expected {flag.split()[1]}")
    return {name: value for name, _, value in pairs}
