"""References of docstrings as the pages of the site show them: the name alone, as code."""

from __future__ import annotations

import re
from typing import Any, Final

from griffe import Extension, Object

_ROLE: Final = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([^`]+)`")
_OPTIONS: Final = re.compile(r":class:`~state_processor\.options\.table\.\w+`")
_WARNING: Final = re.compile(r"^\.\. warning::", re.MULTILINE)


class DocstringRoles(Extension):
    """Rewriting of Sphinx's roles in docstrings to Markdown."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            text = _OPTIONS.sub("[Options](../../options/)", obj.docstring.value)
            text = _ROLE.sub(lambda role: f"`{role[1].rpartition('.')[2]}`", text)
            obj.docstring.value = _WARNING.sub("Warning:", text)
