"""Classes serialized by Kryo without a description of their fields; their values are bytes."""

from __future__ import annotations

from collections.abc import Iterable
from logging import getLogger
from typing import TYPE_CHECKING, Any, Final

from state_processor.serializers.doors import registering
from state_processor.serializers.late import imported_class
from state_processor.serializers.traversal import outermost_of

if TYPE_CHECKING:
    from state_processor.serializers.kryo.serializer import KryoSerializer

_LOG: Final = getLogger("state_processor")
_LOGGED: Final[set[str]] = set()
"""Classes that this process has logged."""


def undescribed_classes(*parts: Any) -> tuple[str, ...]:
    """Return the names of the classes in serializers that are neither built in nor described.

    Parameters
    ----------
    parts
        As for :func:`~state_processor.serializers.traversal.outermost_of`.
    """
    found: list[KryoSerializer] = outermost_of(imported_class("kryo.serializer", "KryoSerializer"), *parts)
    return tuple(dict.fromkeys(s.type_class for s in found if not s.self_delimiting))


def calls(classes: Iterable[str]) -> str:
    """Return the calls that describe classes; the user has to complete the fields."""
    return registering("; ".join(f"register_kryo_class({name!r}, {{'field': 'java.lang.String', …}})" for name in classes))


def log_undescribed(classes: Iterable[str]) -> None:
    """Log that values of classes are bytes, once per process and class.

    Parameters
    ----------
    classes
        Their names.
    """
    new = dict.fromkeys(name for name in classes if name not in _LOGGED)
    if new:
        _LOGGED.update(new)
        _LOG.warning(
            "Kryo wrote values of %s without names of fields: they are read as bytes or not at all; describe the classes: %s",
            " and ".join(new),
            calls(new),
        )
