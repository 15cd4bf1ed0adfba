"""Log of types whose values the kernels do not handle: Python decodes, encodes or hashes them one by one, many times slower."""

from __future__ import annotations

from logging import getLogger
from typing import Final

_LOG: Final = getLogger("state_processor")
_LOGGED: Final[set[tuple[str, str]]] = set()
"""Actions and types that this process has logged."""


def log_fallback(action: str, type_: object, column: str = "") -> None:
    """Log that Python handles values of a type, once per process, action and type.

    ``action``: ``decoded``, ``encoded`` or ``hashed``. ``type_``: the serializer, or its name. ``column``: the first column with
    the type, if known.
    """
    if (action, str(type_)) not in _LOGGED:
        _LOGGED.add((action, str(type_)))
        place = f" in column {column}" if column else ""
        _LOG.warning("values of type %s%s are %s one by one in Python, not by the kernel", type_, place, action)
