"""Modules of other libraries that are imported when they are first used.

Their import takes longer than a small read, or their packages are installed for some features only.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from threading import get_ident
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


class _Pandas:
    """A finder of modules that hides pandas from the thread that makes it, and tells pyarrow when pandas is imported later."""

    def __init__(self) -> None:
        self.hidden_in: int | None = get_ident()

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "pandas":
            return None
        if self.hidden_in == get_ident():
            raise ModuleNotFoundError(name=name)
        sys.meta_path.remove(self)
        try:
            spec = find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                import pyarrow as pa

                load(module)
                pa.array([0]).to_pandas()  # which looks for pandas once more

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def make_arrays_without_pandas() -> None:
    """Let pyarrow make its first array without pandas, whose import takes longer than a small read or write.

    ``pyarrow.array``, ``pyarrow.scalar`` and ``to_numpy`` look for pandas once. If code of users imports pandas later, pyarrow
    looks for it again, so that it can make arrays of objects of pandas.
    """
    import pyarrow as pa

    if "pandas" in sys.modules or any(isinstance(finder, _Pandas) for finder in sys.meta_path):
        return
    finder = _Pandas()
    sys.meta_path.insert(0, finder)
    pa.array([0])
    finder.hidden_in = None


if TYPE_CHECKING:
    import cramjam
    import pyarrow.compute as pc
else:
    cramjam, pc = LateModule("cramjam"), LateModule("pyarrow.compute")
