"""Modules of other libraries that are imported when they are first used.

Their import takes longer than a small read, or their packages are installed for some features only.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from state_processor.serializers.errors import OptionError

__all__ = ["cramjam", "pc", "require"]


def require(module: str, extra: str, what: str) -> Any:
    """Import a module of a package that an extra installs.

    Parameters
    ----------
    module
        The module; the first part of its name is the name of the package.
    extra
        The extra.
    what
        What needs the package, in the plural, for the message.

    Raises
    ------
    OptionError
        If the package is not installed.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name != package:
            raise
        raise OptionError(f"{what} need the package {package}: pip install 'state-processor[{extra}]'") from None


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
