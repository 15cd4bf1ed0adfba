"""Order of members on the pages of the site: members of the class, then inherited members."""

from __future__ import annotations

from typing import Any

from griffe import Alias, Class, Extension, Module, Object


class OwnMembersFirst(Extension):
    """Adds inherited members to classes, after their own. Pages list the members of a class in this order."""

    def on_package(self, *, pkg: Module, **kwargs: Any) -> None:
        """Add to all classes of a package."""
        _add_inherited(pkg)


def _add_inherited(obj: Object) -> None:
    for member in list(obj.members.values()):
        if isinstance(member, Object):
            _add_inherited(member)
    if isinstance(obj, Class):
        for name, inherited in obj.inherited_members.items():
            obj.set_member(name, Alias(name, inherited.target, parent=obj, inherited=True))
