"""Parameters of dataclasses on the pages of the site: the decorator of the package counts as the usual one."""

from __future__ import annotations

from typing import Any, Final

from griffe import Alias, Extension

_DECORATOR: Final = "state_processor.serializers.records.dataclass"


class DataclassParameters(Extension):
    """Replaces the package's decorator where it is imported, so that griffe finds the parameters of the classes."""

    def on_alias_instance(self, *, alias: Alias, **kwargs: Any) -> None:
        """Replace the decorator in an import."""
        if alias.target_path == _DECORATOR:
            alias.target_path = "dataclasses.dataclass"
