"""Modules of other libraries that are imported when they are first used.

Their import takes longer than a small read, or their packages are installed for some features only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from state_processor.support.errors import OptionError

__all__ = ["cramjam", "pc", "require", "requirement"]

_WITHOUT: Final = {"spark": "; sp.open and sp.arrow work without Spark"}
"""What serves where an extra is not installed."""
_DISTRIBUTIONS: Final = {"google": "protobuf", "yaml": "pyyaml"}
"""Packages that are installed by another name than they are imported."""


def require(module: str, extra: str, feature: str) -> Any:
    """Import a module of a package that an extra installs.

    ``module``: the module; the first part of its name is the name of the package. ``feature``: the feature that needs the
    package, in the plural, for the message.
    """
    with requirement(extra, feature, module.partition(".")[0]):
        return import_module(module)


@contextmanager
def requirement(extra: str, feature: str, *packages: str) -> Iterator[None]:
    """Name the extra in the error if an import of one of its packages fails.

    ``feature``: the feature that needs the package, in the plural, for the message. ``*packages``: the packages, as they are
    imported.
    """
    try:
        yield
    except ModuleNotFoundError as problem:
        package = (problem.name or "").partition(".")[0]
        if package not in packages:
            raise
        remedy = f"pip install 'state-processor[{extra}]'{_WITHOUT.get(extra, '')}"
        raise OptionError(f"{feature} need the package {_DISTRIBUTIONS.get(package, package)}: {remedy}") from None


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
