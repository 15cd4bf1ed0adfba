"""Packages that are installed for some features only."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from state_processor.serializers.errors import OptionError


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
