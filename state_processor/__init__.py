"""Apache Flink savepoints and checkpoints as Spark DataFrames, from Python.

Spark is imported when something that needs it is used; :mod:`state_processor.arrow` does not.
"""

from __future__ import annotations

import ast
import pkgutil
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

__version__ = "1.0.0"


def stub_names(module: str, stub: str = "__init__.pyi") -> dict[str, str]:
    """Return the module of each name that a stub lists, for tools that check types as well. The stub is beside the module."""
    content = ast.parse(pkgutil.get_data(module, stub) or b"")
    modules: dict[str, str] = {}
    for node in content.body:
        if isinstance(node, ast.ImportFrom):
            modules |= dict.fromkeys((alias.name for alias in node.names), str(node.module))
    return modules


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


_MODULES = stub_names(__name__)
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(_MODULES[name])
        value = import_module(f"{__name__}.{name}") if module.__name__ == __name__ else getattr(module, name)
    except ModuleNotFoundError:
        from state_processor.support.late import requirement

        with requirement("spark", f"sp.{name} and other uses of Spark", "pyspark", "py4j"):
            raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
