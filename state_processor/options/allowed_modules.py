"""Modules that the option ``serializers`` may name.

Anybody who may write SQL in a session sets options of data sources, and importing a module runs it. The option therefore imports
modules that the owner of the session has allowed, and no others. Arguments of functions and methods are code: they need no
permission.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from state_processor.support.errors import OptionError

ALLOWED_CONF: Final = "spark.stateProcessor.serializers.allowed"
"""Key in the configuration that a session's context starts with."""
_WHOLE_PACKAGE: Final = ".*"


def allowed_modules(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return checked names of modules, each once.

    ``names``: names of modules; ``acme.*`` means the package ``acme`` and all modules in it. Text has them separated by commas.
    """
    texts = names.split(",") if isinstance(names, str) else names
    modules = list(map(str.strip, texts))
    for name in modules:
        if name and not is_module_name(name.removesuffix(_WHOLE_PACKAGE)):
            raise OptionError(
                f"allowed serializers: {name!r} is not the name of a module; expected names such as acme.serializers, or acme.* "
                "for all modules of a package"
            )
    return tuple(dict.fromkeys(filter(None, modules)))


def is_module_name(text: str) -> bool:
    """Return True if a text has the form of the absolute name of a module."""
    return all(map(str.isidentifier, text.split(".")))


def check_allowed(modules: Iterable[str], allowed: Iterable[str]) -> None:
    """Check that the owner of the session allows an option to import modules."""
    for module in modules:
        if not any(_covers(name, module) for name in allowed):
            raise OptionError(
                f"option serializers: module {module!r} is not allowed in this session. Its owner allows it by starting Spark "
                f"with {ALLOWED_CONF}={module} (SET is ignored) and calling state_processor.register(spark), or by "
                f"state_processor.register(spark, allow_serializers=[{module!r}]). Python code needs no permission to pass it to "
                "SavepointReader, SavepointWriter or state_processor.arrow"
            )


def _covers(allowed: str, module: str) -> bool:
    package = allowed.removesuffix(_WHOLE_PACKAGE)
    return module == package or (package != allowed and module.startswith(package + "."))
