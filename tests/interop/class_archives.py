"""Archives of the classes that JVMs with Flink load: with one, they start in two thirds of the time.

``python -m tests.interop.prepared archives`` makes them below ``.cache``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.interop import jvms
from tests.interop.flink_jars import CACHE, made, tool

FOLDER: Final = CACHE / "archives"
_QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
_FILE: Final = "classes.jsa"
_made: list[Path] = []
"""The archive that is being made."""


def options(class_path: Sequence[Path]) -> list[str]:
    """Return the options of a JVM with the archive for the longest beginning of its class path that has one."""
    if _made:
        return [f"-XX:ArchiveClassesAtExit={_made[-1]}", *_QUIET]
    places = (_place(class_path[:end]) for end in range(len(class_path), 0, -1))
    return next(([f"-XX:SharedArchiveFile={place}", *_QUIET] for place in places if place.exists()), [])


def _place(class_path: Sequence[Path]) -> Path:
    """Return where the archive for this class path and Java belongs."""
    java = Path(tool("java")).resolve()
    modules = java.parents[1] / "lib" / "modules"
    made_for = [str(modules), str(modules.stat().st_mtime_ns if modules.exists() else ""), *map(str, class_path)]
    return FOLDER / hashlib.sha256("\0".join(made_for).encode()).hexdigest()[:12] / _FILE


def make(class_path: Sequence[Path], use: Callable[[], None]) -> Path:
    """Make the archive of the classes that a JVM with a class path loads in ``use``, unless it is there; return its directory."""

    def fill(target: Path) -> None:
        _made.append(target / _FILE)
        try:
            use()
            jvms.end_all()
        finally:
            _made.pop()

    return made(_place(class_path).parent, fill)
