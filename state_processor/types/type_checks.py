"""Checks that arguments are types of ``Types``: a name without its parentheses is a frequent mistake."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Final

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.errors import OptionError
from state_processor.types.durations import duration_ms

_TYPES: Final = "Types."


def check_type(where: str, given: Any) -> None:
    """Check that an argument is a type.

    Parameters
    ----------
    where
        What has the type, for the message.
    given
        The argument.

    Raises
    ------
    OptionError
        If it is not a type; the message has the call that is meant, where this is known.
    """
    if not isinstance(given, TypeSerializer):
        raise OptionError(f"{where}: expected a type such as Types.LONG(), found {found(given)}")


def found(given: Any) -> str:
    """Return how a message shows an argument that is not a type."""
    name = getattr(given, "__qualname__", None)
    if isinstance(name, str):
        return f"{name} without parentheses; write {name}()" if name.startswith(_TYPES) else f"the class {name}"
    if isinstance(given, str) and re.fullmatch("[A-Z_]+", given):
        return f"the text {given!r}; write {_TYPES}{given}()"
    return f"{given!r} of type {type(given).__name__}"


def check_ttl(ttl: bool | timedelta | str | None) -> None:
    """Check that a time-to-live is a flag or a positive duration.

    Raises
    ------
    OptionError
        If it is not.
    """
    if ttl is None or isinstance(ttl, bool):
        return
    if duration_ms(ttl) <= 0:
        raise OptionError(f"ttl={ttl!r}: expected a positive duration, or True: savepoints do not contain the duration")
