"""Names that members of serializers had in earlier versions.

Serializers of users may still define and use them. In every class of serializers, a method has both names, so that
``super()`` finds it under each.
"""

from __future__ import annotations

from typing import Any, Final

_METHODS: Final = {
    "present": "to_column",
    "accept": "from_column",
    "accept_key": "key_from_column",
    "emit": "emit_decode",
    "can_find_end": "self_delimiting",
    "filling": "as_remainder",
}
_SIZE: Final = "smallest"


class FormerNames:
    """A class whose subclasses have members under their former names too."""

    min_size: int

    @property
    def smallest(self) -> int:
        """The former name of ``min_size``."""
        return self.min_size

    @smallest.setter
    def smallest(self, size: int) -> None:
        self.min_size = size

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        own = vars(cls)
        for former, name in _METHODS.items():
            if former in own and name not in own:
                setattr(cls, name, own[former])
            elif name in own:
                setattr(cls, former, own[name])
        if _SIZE in own:
            cls.min_size = own[_SIZE]
            delattr(cls, _SIZE)  # the property then applies to sizes of instances
