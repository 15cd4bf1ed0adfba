"""Options that dataclasses declare, with the values that users may pass, and the refusal of options without effect.

An option declares the kinds of reads that it acts on (``on``), the kinds whose rows are as it asks anyway (``holds_on``), and the
options that it needs (``needs``). Signatures and flags follow the declaration. One call may read several kinds, so
:func:`check_effects` refuses every other use, whichever way the option was given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from state_processor.backends.read.option import Declaration, Kind, declarations
from state_processor.options.values import VALUES, ValueKind, one_of
from state_processor.support.doors import flag_name, spelled, text_name
from state_processor.support.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Option(Declaration):
    """An option: its declaration, and its keyword argument (the name of the field)."""

    argument: str = ""

    @property
    def kind(self) -> ValueKind:
        """The values that users may pass."""
        return value_kind(self.values, self.least)

    @property
    def applies_to(self) -> frozenset[Kind]:
        """The kinds of reads that accept it."""
        return self.on | self.holds_on

    @property
    def flag(self) -> str:
        """Its flag on the command line with the operand; empty without a flag."""
        return "" if self.operand is None else f"{flag_name(self.argument)} {self.operand}".rstrip()

    @property
    def is_repeated(self) -> bool:
        """Whether its flag may be repeated: for each entry of a mapping, or each element."""
        return "=" in (self.operand or "") or (self.operand or "").endswith("...")

    @property
    def name(self) -> str:
        """Name as an option of the data source, in camel case."""
        return text_name(self.argument)


@cache
def value_kind(values: Any, least: int | None = None) -> ValueKind:
    """Return the kind of values that a declaration names: an entry of ``VALUES``, or the choices of a ``Literal``."""
    kind = VALUES[values] if isinstance(values, str) else one_of(*get_args(values))
    return kind if least is None else kind.of_at_least(least)


def options_of(holder: type) -> tuple[Option, ...]:
    """Return the options that a dataclass declares."""
    declared = declarations(holder).items()
    return tuple(Option(**{f.name: getattr(d, f.name) for f in fields(d)}, argument=argument) for argument, d in declared)


def values_of(options: Iterable[Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of some options."""
    return {o.argument: values[o.argument] for o in options if o.argument in values}


def checked(options: Iterable[Option], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the normal forms of keyword arguments. Arguments that are ``None`` are left out."""
    return {
        o.argument: o.kind.of_argument(o.argument, arguments[o.argument])
        for o in options
        if arguments.get(o.argument) is not None
    }


UID = Option("text", "The operator, by uid.", argument="uid")
UID_HASH = Option("text", "The operator, by the hash of its uid.", argument="uid_hash")


def check_effects(arguments: Collection[str], kind: Kind, options: Iterable[Option], subject: str) -> None:
    """Check that every option that is given has an effect.

    ``arguments``: the options that are given, as keyword arguments. ``kind``: what is read. ``options``: entries of the table of
    options. ``subject``: the operator and the state, for messages.
    """
    for option in options:
        if option.argument not in arguments:
            continue
        name = spelled(option.argument)
        if kind not in option.applies_to:
            applies = ", ".join(k.value for k in Kind if k in option.on)
            way = "Name one state, or leave" if kind is Kind.WHOLE and Kind.KEYED in option.on else "Leave"
            raise OptionError(
                f"{name} does not apply to {subject}, a read of {kind.value}: it is for {applies}. {way} {name} out"
            )
        if option.needs and not any(need in arguments for need in option.needs):
            raise OptionError(f"{name} needs {' or '.join(map(spelled, option.needs))}: give it too, or leave {name} out")


def check_given(values: Mapping[str, Any], options: Iterable[str], condition: str) -> None:
    """Refuse options that act only with a value of another argument that the user did not give.

    ``values``: the arguments. An argument that is ``None`` is not given. ``condition``: when they act, and what to do: ``with
    --check: add that``.
    """
    for name in options:
        if values.get(name) is not None:
            raise OptionError(f"{spelled(name)} acts only {condition}, or leave {spelled(name)} out")


def check_time_to_live(arguments: Collection[str], subject: str, *, has_ttl: bool) -> None:
    """Check that values have times of last access where an option needs them."""
    if "ttl" in arguments and not has_ttl:
        name = spelled("ttl")
        raise OptionError(f"{name} does not apply to {subject}, declared without time-to-live. Leave {name} out")
