"""Kinds of reads, and the refusal of options that do not apply to one.

An entry of ``READ_OPTIONS`` names the kinds that the option acts on (``on``) and the options that it needs (``needs``).
:func:`check_effects` refuses every other use, whichever way the option was given.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import TYPE_CHECKING, Final

from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from state_processor.options.option import Option


class Kind(Enum):
    """What is read; the value is its name in messages and documentation."""

    KEYED = "keyed state"
    WINDOW = "window state"
    WHOLE = "all keyed states side by side"
    LOOKUP = "look-ups"
    TIMERS = "timers"
    LIST = "list state"
    UNION = "union list state"
    BROADCAST = "broadcast state"
    RAW = "raw state"
    DIFF = "differences"


ALL: Final = frozenset(Kind)
VALUES: Final = ALL - {Kind.RAW}
"""Reads that decode values or keys."""
NAMED: Final = frozenset({Kind.KEYED, Kind.WINDOW})
"""Keyed state that is read by its name."""
KEYED: Final = NAMED | {Kind.WHOLE, Kind.LOOKUP}
"""Keyed state, by name or not."""
OPERATOR: Final = frozenset({Kind.LIST, Kind.UNION, Kind.BROADCAST})
"""Operator state."""
PYTHON: Final = NAMED | {Kind.LOOKUP, Kind.BROADCAST}
"""State that may have a type of PyFlink."""


def check_effects(given: Collection[str], kind: Kind, options: Iterable[Option], where: str) -> None:
    """Check that every option that is given has an effect.

    Parameters
    ----------
    given
        The options that are given, as keyword arguments.
    kind
        What is read.
    options
        Entries of the table of options.
    where
        The operator and the state, for messages.

    Raises
    ------
    OptionError
        If one does not act on this kind, or needs another option. The message says so, and what to do.
    """
    for option in options:
        if option.argument not in given:
            continue
        name = spelled(option.argument)
        if kind not in option.on | option.holds_on:
            applies = ", ".join(k.value for k in Kind if k in option.on)
            way = "Name one state, or leave" if kind is Kind.WHOLE and Kind.KEYED in option.on else "Leave"
            raise OptionError(f"{name} does not apply to {where}, a read of {kind.value}: it is for {applies}. {way} {name} out")
        if option.needs and not any(need in given for need in option.needs):
            raise OptionError(f"{name} needs {' or '.join(map(spelled, option.needs))}: give it too, or leave {name} out")


def check_time_to_live(given: Collection[str], where: str, *, has_ttl: bool) -> None:
    """Check that values have times of last access where an option needs them.

    Raises
    ------
    OptionError
        If they do not.
    """
    if "ttl" in given and not has_ttl:
        name = spelled("ttl")
        raise OptionError(f"{name} does not apply to {where}, declared without time-to-live. Leave {name} out")
