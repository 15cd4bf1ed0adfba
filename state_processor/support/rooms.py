"""Modules that list the names of others: the module of a name is imported when the name is first used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from state_processor import stub_names


def lazy_names(room: str, stub: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a module whose stub lists its names, for tools that check types as well.

    ``room``: the name of the module. ``stub``: the file beside it.
    """
    names = cache(lambda: stub_names(room, stub))

    def find(name: str) -> Any:
        if name == "__all__":
            return sorted(names())
        if name.startswith("__") or name not in names():
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(import_module(names()[name]), name)
        setattr(sys.modules[room], name, value)
        return value

    return find, lambda: sorted(names())
