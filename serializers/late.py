"""Modules of other libraries that are imported when they are first used: importing them takes longer than a small read."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["cramjam", "pc"]


def imported_class(module: str, name: str) -> Any:
    """Return a class for :func:`isinstance`; no class if its module is not imported, because it has no objects then.

    Parameters
    ----------
    module
        The module in this package.
    name
        The class.
    """
    found = sys.modules.get(f"state_processor.serializers.{module}")
    return () if found is None else getattr(found, name)


class LateModule(ModuleType):
    """A module that is imported when one of its attributes is first looked up.

    Parameters
    ----------
    name
        The full name of the module.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the module by its name: Spark pickles functions in functions with the globals that they use."""
        return import_module, (self.__name__,)


if TYPE_CHECKING:
    import cramjam
    import pyarrow.compute as pc
else:
    cramjam, pc = LateModule("cramjam"), LateModule("pyarrow.compute")
