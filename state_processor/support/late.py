"""Modules and names that are imported when they are first used.

The import of some libraries takes longer than a small read, and their packages are installed for some features only. A room lists
the names of other modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from state_processor import stub_names
from state_processor.support.errors import OptionError

__all__ = ["cramjam", "pc", "require", "requirement"]

_WITHOUT: Final = {"spark": "; sp.open and sp.arrow work without Spark"}
"""What serves where an extra is not installed."""
_DISTRIBUTIONS: Final = {"google": "protobuf", "yaml": "pyyaml"}
"""Packages that are installed by another name than they are imported."""


def require(module: str, extra: str, what: str) -> Any:
    """Import a module of a package that an extra installs.

    ``module``: the module; the first part of its name is the name of the package. ``what``: what needs the package, in the
    plural, for the message.
    """
    with requirement(extra, what, module.partition(".")[0]):
        return import_module(module)


@contextmanager
def requirement(extra: str, what: str, *packages: str) -> Iterator[None]:
    """Name the extra in the error if an import of one of its packages fails.

    ``what``: what needs the package, in the plural, for the message. ``*packages``: the packages, as they are imported.
    """
    try:
        yield
    except ModuleNotFoundError as problem:
        package = (problem.name or "").partition(".")[0]
        if package not in packages:
            raise
        remedy = f"pip install 'state-processor[{extra}]'{_WITHOUT.get(extra, '')}"
        raise OptionError(f"{what} need the package {_DISTRIBUTIONS.get(package, package)}: {remedy}") from None


def imported_class(module: str, name: str) -> Any:
    """Return a class for :func:`isinstance`; no class if its module is not imported, because it is without objects then.

    ``module``: the module in this package.
    """
    loaded = sys.modules.get(f"state_processor.serializers.{module}")
    return () if loaded is None else getattr(loaded, name)


class LateModule(ModuleType):
    """A module that is imported when one of its attributes is first looked up.

    ``name``: the full name of the module.
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
