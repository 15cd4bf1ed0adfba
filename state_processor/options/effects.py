"""Refusal of options without effect.

An option declares the kinds of reads that it acts on (``on``), the kinds whose rows are as it asks anyway (``holds_on``), and the
options that it needs (``needs``). Signatures and flags follow the declaration. One call may read several kinds, so
:func:`check_effects` refuses every other use, whichever way the option was given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from state_processor.backends.read.option import Kind
from state_processor.serializers.doors import spelled
from state_processor.serializers.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from state_processor.options.option import Option


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
