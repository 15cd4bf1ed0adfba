"""Apache Flink savepoints and checkpoints as Spark DataFrames, from Python.

Spark is imported when something that needs it is used; :mod:`state_processor.arrow` does not.
"""

from __future__ import annotations

import ast
import pkgutil
from importlib import import_module
from typing import Any

__version__ = "1.0.0"


def stub_names(module: str, stub: str = "__init__.pyi") -> dict[str, str]:
    """Return the module of each name that a stub lists, for tools that check types as well. The stub is beside the module."""
    content = ast.parse(pkgutil.get_data(module, stub) or b"")
    imports = [node for node in content.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


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
