"""An entry of the table of options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from state_processor.options.effects import ALL, Kind
from state_processor.options.values import ValueKind
from state_processor.serializers.doors import text_name


@dataclass(frozen=True, slots=True)
class Option:
    """An option.

    Parameters
    ----------
    argument
        The keyword argument.
    kind
        What values it has.
    doc
        What it is for.
    default
        The normal form of its value where it is not given.
    field
        The field of ``ReadOptions`` or ``SnapshotAccess`` that has the value, if its name is another.
    flag
        The argument of the command line and its operand: ``--scratch DIR``. With ``=`` in the operand it may be repeated, and
        the value is a mapping; with ``...`` the value is a list. Without an operand it inverts the default.
    prefix
        For a mapping whose entries are options of the data source: what their names begin with.
    on
        The kinds of reads that it acts on. Others refuse it: see :mod:`~state_processor.options.effects`.
    holds_on
        The kinds whose rows are as the option asks, whatever its value is.
    needs
        Other options, one of which is required with it.
    """

    argument: str
    kind: ValueKind
    doc: str
    default: Any = None
    field: str = ""
    flag: str = ""
    prefix: str = ""
    on: frozenset[Kind] = ALL
    holds_on: frozenset[Kind] = frozenset()
    needs: tuple[str, ...] = ()

    @property
    def applies_to(self) -> frozenset[Kind]:
        """The kinds of reads that accept it."""
        return self.on | self.holds_on

    @property
    def name(self) -> str:
        """Name as an option of the data source, in camel case."""
        return text_name(self.argument)
