"""Keeps compiled kernels in step with their sources.

Numba stores what it compiled beside each module and compiles anew when that module changes, but not when a function
that it calls from another module does. So all kernels are dropped when any source file here differs.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Final

_STAMP: Final = "kernels.stamp"


_FOLDERS: Final = (".", "..", "../../backends")
"""Where functions are compiled that call kernels, seen from here."""


def discard_stale_kernels(folder: Path = Path(__file__).parent) -> None:
    """Delete compiled kernels, and what else was compiled with them, that were made from other sources than the present ones.

    Where the folder can't be written, Numba keeps its results elsewhere and nothing happens.
    """
    sources = sorted((p.name, p.stat().st_mtime_ns, p.stat().st_size) for p in folder.glob("*.py"))
    stamp = hashlib.sha256(repr(sources).encode()).hexdigest()
    compiled = folder / "__pycache__"
    with suppress(OSError):
        if (compiled / _STAMP).is_file() and (compiled / _STAMP).read_text() == stamp:
            return
        for other in _FOLDERS:
            for stale in (folder / other / "__pycache__").glob("*.nb[ic]"):
                stale.unlink(missing_ok=True)
        compiled.mkdir(exist_ok=True)
        (compiled / _STAMP).write_text(stamp)
