"""Options as arguments of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from typing import Any, Final

from state_processor.backends.read.option import Kind
from state_processor.options.access import SNAPSHOT_OPTIONS, SnapshotAccess
from state_processor.options.data_sources import READ_OPTIONS
from state_processor.options.option import Option
from state_processor.options.values import FIELDS
from state_processor.support.doors import flag_name
from state_processor.support.errors import OptionError

_SHARED: Final = ("path_mapping", "allow_paths", "uids")
"""Options of opening a snapshot that every command with a snapshot has, and whose values are short."""
_READING: Final = tuple(option for option in READ_OPTIONS if option.operand is not None)
"""Options of reading state that have a flag."""


def add_flags(parser: argparse.ArgumentParser, kinds: Collection[Kind], *, without: Collection[str] = ()) -> None:
    """Add the flags of the options that apply to some kinds of reads.

    ``parser``: the parser of a command. ``kinds``: what the command reads. ``without``: options, as keyword arguments, that
    change nothing that the command shows.
    """
    of_reading = [o for o in _READING if o.on.intersection(kinds)]
    of_opening = [o for o in SNAPSHOT_OPTIONS if o.applies_to.intersection(kinds)]
    for title, options in (("options of reading state", of_reading), ("options of opening a snapshot", of_opening)):
        documented = [o for o in options if o.argument not in without]
        if documented:
            group = parser.add_argument_group(title)
            for option in documented:
                add_flag(group, option)


def add_flag(parser: argparse._ActionsContainer, option: Option, note: str = "") -> None:
    """Add the flag of an option; a note extends its help."""
    flag, operand = flag_name(option.argument), option.operand
    text = option.doc.replace("`", "") + note
    if not operand:
        parser.add_argument(flag, dest=option.argument, action="store_const", const=not option.default, help=text)
    elif _is_repeated(operand):
        name = operand.removesuffix("...")
        parser.add_argument(flag, dest=option.argument, metavar=name, action="append", help=f"{text} May be repeated.")
    else:
        parser.add_argument(flag, dest=option.argument, metavar=operand, help=text)


def _is_repeated(operand: str) -> bool:
    return "=" in operand or operand.endswith("...")


def flag_values(namespace: argparse.Namespace) -> dict[str, Any]:
    """Return the flags as keyword arguments."""
    values = ((o, getattr(namespace, o.argument, None)) for o in (*SNAPSHOT_OPTIONS, *_READING))
    return {o.argument: _pairs(o, v) if "=" in (o.operand or "") else v for o, v in values if v is not None}


def flag_words(access: SnapshotAccess) -> tuple[str, ...]:
    """Return the flags of a command that opens a snapshot with the same options; settings of storage may be secret."""
    words: list[str] = []
    for option in (option for option in SNAPSHOT_OPTIONS if option.argument in _SHARED):
        value = getattr(access, option.argument)
        if isinstance(value, Mapping):
            value = [f"{old}={new}" for old, new in value.items()]
        if not isinstance(value, str) and not _is_repeated(option.operand or ""):
            continue  # the flag takes the name of a file
        for text in [value] if isinstance(value, str) else value or ():
            words += [flag_name(option.argument), text]
    return tuple(words)


def _pairs(option: Option, texts: list[str]) -> dict[str, Any]:
    pairs = [text.partition("=") for text in texts]
    for text, (name, _, value) in zip(texts, pairs, strict=True):
        if not name or not value:
            excerpt = "" if option.kind.is_secret else f" {text}"
            raise OptionError(f"{flag_name(option.argument)}{excerpt}: expected {option.operand}")
    if option.kind is FIELDS:
        return {name: value.split(",") for name, _, value in pairs}
    return {name: value for name, _, value in pairs}
