"""Signatures on the pages of the site: the options behind ``**options``, and the values of defaults that are names."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib import import_module
from textwrap import indent
from typing import Any, Final

from griffe import Extension, Function, NameResolutionError, Parameter, ParameterKind, Parameters

from state_processor.options import groups
from state_processor.options.keywords import KEYWORD_OPTIONS, described

_GROUP: Final = re.compile(r"Unpack\[(\w+)\]")
_DESCRIPTION: Final = re.compile(r"^( *)\*\*options\n(?:\1 +\S.*\n?|\n(?=\1 ))*", re.MULTILINE)
_CONSTANT: Final = re.compile(r"_?[A-Z][A-Z_]+")


class FullSignatures(Extension):
    """Replaces ``**options`` by the options that a function takes, and constants by their values."""

    def on_function(self, *, func: Function, **kwargs: Any) -> None:
        """Rewrite the parameters of a function, and their description."""
        group = next((match[1] for p in func.parameters if (match := _GROUP.fullmatch(str(p.annotation)))), None)
        if group is not None:
            _list_options(func, getattr(groups, group).__annotations__)
        for parameter in func.parameters:
            if _CONSTANT.fullmatch(str(parameter.default)):
                with suppress(NameResolutionError, ImportError):  # modules of Spark need pyspark
                    module, _, name = func.module.resolve(str(parameter.default)).rpartition(".")
                    parameter.default = repr(getattr(import_module(module), name))


def _list_options(func: Function, names: dict[str, Any]) -> None:
    options = [option for option in KEYWORD_OPTIONS.values() if option.argument in names]
    defaults = {o.argument: None if o.default in ((), {}) else o.default for o in options}
    *named, _ = func.parameters
    keywords = (Parameter(n, kind=ParameterKind.keyword_only, default=repr(value)) for n, value in defaults.items())
    func.parameters = Parameters(*named, *keywords)
    if func.docstring is not None:
        text = _DESCRIPTION.sub(lambda match: indent(described(options), match[1]) + "\n", func.docstring.value)
        func.docstring.value = text.replace("**options", ", ".join(defaults))  # after names that it describes together
