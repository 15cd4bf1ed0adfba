"""Declarations of options: a field of a dataclass, with documentation, flag and the kinds of reads that it acts on.

A class whose fields are made by :func:`option` declares options. Keyword arguments, options of data sources, flags of the
command line, the table of the kinds of reads and the documentation follow from the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, Final, TypeVar

Holder = TypeVar("Holder")


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
"""Reads that open a snapshot. A list of snapshots only looks at files."""
PYTHON: Final = NAMED | {Kind.LOOKUP, Kind.BROADCAST}
"""State that may have a type of PyFlink."""


@dataclass(frozen=True)
class Declaration:
    """What a field declares about its option."""

    # the values that users pass: a name in the table ``VALUES`` of :mod:`state_processor.options.option`, or the ``Literal`` of
    # the choices
    values: Any
    doc: str  # the sentence for documentation and help
    default: Any = None  # the normal form of the value if the option is not given
    least: int | None = None  # the smallest number that is accepted; ``None`` for any number of the kind
    # what follows its flag on the command line, such as ``ZONE``; ``None`` without a flag. A flag with ``=`` in its operand
    # may be repeated, and the value is a mapping. With ``...`` the value is a list. With an empty operand the flag inverts the
    # default.
    operand: str | None = None
    prefix: str = ""  # for a mapping whose entries are options of the data source: the prefix of their names
    on: frozenset[Kind] = ALL  # the kinds of reads that the option acts on. Reads of other kinds refuse it.
    holds_on: frozenset[Kind] = frozenset()  # the kinds whose rows are as the option asks, whatever its value is
    needs: tuple[str, ...] = ()  # other options. The option needs one of them.
    code_only: bool = False  # true if data sources don't have the option


def option(values: Any, doc: str, default: Any = None, *, in_repr: bool = True, **declaration: Any) -> Any:
    """Return a field of a dataclass that declares an option.

    ``values``, ``doc``, ``default`` and ``**declaration``: see :class:`Declaration`. ``in_repr``: false to leave the value out of
    the object's ``repr``.
    """
    metadata = {_DECLARATION: Declaration(values, doc, default, **declaration)}
    if isinstance(default, dict):
        return field(default_factory=default.copy, repr=in_repr, metadata=metadata)
    return field(default=default, repr=in_repr, metadata=metadata)


def part(holder: Callable[[], Any], **options: Any) -> Any:
    """Return a field of a dataclass that holds a value of another class with options.

    ``**options``: the fields of that class that are options, as :func:`option` makes them; the class sets their defaults.
    """
    defaults = holder()
    declared = {name: replace(o.metadata[_DECLARATION], default=getattr(defaults, name)) for name, o in options.items()}
    return field(default_factory=holder, metadata={_PART: declared})


def declarations(holder: type) -> Mapping[str, Declaration]:
    """Return the options that a dataclass and its parts declare, by the names of their fields."""
    declared: dict[str, Declaration] = {}
    for f in fields(holder):
        declared |= {f.name: f.metadata[_DECLARATION]} if _DECLARATION in f.metadata else f.metadata.get(_PART, {})
    return declared


def option_values(holder: Any) -> dict[str, Any]:
    """Return the values of the options that an object and its parts have."""
    values: dict[str, Any] = {}
    for f in fields(holder):
        value, names = getattr(holder, f.name), f.metadata.get(_PART, ())
        values |= {f.name: value} if _DECLARATION in f.metadata else {name: getattr(value, name) for name in names}
    return values


def of_options(holder: type[Holder], values: Mapping[str, Any]) -> Holder:
    """Return an object with the values of its options, and of the options of its parts."""
    arguments = dict(values)
    for f in fields(holder):  # type: ignore[arg-type]
        of_part = {}
        for name in f.metadata.get(_PART, ()):
            if name in arguments:
                of_part[name] = arguments.pop(name)
        if of_part:  # after the loop, as a part may have the name of one of its options
            arguments[f.name] = f.default_factory(**of_part)  # type: ignore[operator]
    return holder(**arguments)


_DECLARATION: Final = "declaration"
_PART: Final = "options of the part"
