"""Kinds of reads, and the refusal of options that do not apply to one.

An entry of the table of options names the kinds that the option acts on (``on``), those where it holds in any case
(``holds_on``), and the options that it needs (``needs``). Signatures and flags follow from it. Where one call reads
several kinds, :func:`check_effects` refuses every other use, whichever way the option was given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

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
    COUNTS = "counts of differences"
    SIZES = "sizes"
    CHANNELS = "in-flight data"
    SPLITS = "source splits"
    SINK = "sink state"
    TABLES = "tables of metadata"
    SNAPSHOTS = "lists of snapshots"
    CHECKS = "checks"
    REPORTS = "reports"
    COPIES = "copies"


ALL: Final = frozenset(Kind)
NAMED: Final = frozenset({Kind.KEYED, Kind.WINDOW})
"""Keyed state that is read by its name."""
KEYED: Final = NAMED | {Kind.WHOLE, Kind.LOOKUP}
"""Keyed state, by name or not."""
OPERATOR: Final = frozenset({Kind.LIST, Kind.UNION, Kind.BROADCAST})
"""Operator state."""
ROWS: Final = NAMED | {Kind.WHOLE, Kind.TIMERS, Kind.RAW} | OPERATOR
"""Reads of rows of any state."""
DIFFERENCES: Final = frozenset({Kind.DIFF, Kind.COUNTS})
VALUES: Final = ROWS - {Kind.RAW} | {Kind.LOOKUP} | DIFFERENCES
"""Reads that decode values."""
OPENED: Final = ALL - {Kind.SNAPSHOTS}
"""Reads that open a snapshot: lists only look at files."""
STORES: Final = KEYED | DIFFERENCES | {Kind.TIMERS, Kind.SIZES, Kind.CHECKS, Kind.REPORTS, Kind.COPIES}
"""Reads of keyed state, which RocksDB may have written."""
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
        if kind not in option.applies_to:
            applies = ", ".join(k.value for k in Kind if k in option.on)
            way = "Name one state, or leave" if kind is Kind.WHOLE and Kind.KEYED in option.on else "Leave"
            raise OptionError(f"{name} does not apply to {where}, a read of {kind.value}: it is for {applies}. {way} {name} out")
        if option.needs and not any(need in given for need in option.needs):
            raise OptionError(f"{name} needs {' or '.join(map(spelled, option.needs))}: give it too, or leave {name} out")


def check_given(values: Mapping[str, Any], options: Iterable[str], condition: str) -> None:
    """Refuse options that act only if another argument has some value, which it has not.

    Parameters
    ----------
    values
        The arguments; those that are ``None`` are not given.
    options
        The options that would do nothing.
    condition
        When they act, and what to do: ``with --check: add that``.

    Raises
    ------
    OptionError
        If one is given.
    """
    for name in options:
        if values.get(name) is not None:
            raise OptionError(f"{spelled(name)} acts only {condition}, or leave {spelled(name)} out")


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
