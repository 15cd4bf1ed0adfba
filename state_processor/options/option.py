"""Options that dataclasses declare, with the values that users may pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, get_args

from state_processor.backends.read.option import Declaration, Kind, declarations
from state_processor.options.values import VALUES, ValueKind, one_of
from state_processor.serializers.doors import flag_name, text_name


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
