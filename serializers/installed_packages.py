"""Entry points of installed packages, without :mod:`importlib.metadata` in environments where no package has one.

That module takes 20 ms of CPU to import, and more to read the metadata of all packages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_METADATA: Final = ("dist-info", "egg-info")
"""Ends of names of directories with metadata. Inside of the directory of an egg the whole name is ``EGG-INFO``."""


def entry_points(group: str) -> Iterable[EntryPoint]:
    """Return the entry points of a group, as :func:`importlib.metadata.entry_points`."""
    if not _may_have(group.encode()):
        return ()
    from importlib import metadata

    return metadata.entry_points(group=group)


def _may_have(group: bytes) -> bool:
    """Return whether a package in a directory of the path names the group, or packages may be somewhere else."""
    if any(finder is not PathFinder and hasattr(finder, "find_distributions") for finder in sys.meta_path):
        return True
    return any(_names(place or ".", group) for place in sys.path)


def _names(place: str, group: bytes) -> bool:
    try:
        packages = [name for name in os.listdir(place) if name.lower().endswith(_METADATA)]
    except FileNotFoundError:
        return False
    except OSError:
        return True  # an archive, or a directory that only the library can judge
    return any(group in _entry_points_of(os.path.join(place, name)) for name in packages)


def _entry_points_of(package: str) -> bytes:
    try:
        with open(os.path.join(package, "entry_points.txt"), "rb") as file:
            return file.read()
    except OSError:
        return b""
