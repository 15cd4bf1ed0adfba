"""Free pages of a virtual machine. Its host may reclaim them.

A guest that reports its free pages loses them. Their next use needs new pages from the host, and counts as system time of the
running program: a program that only copies files took 0.015 CPU s for 48 MB of existing pages, and 0.09 for new pages. With
reporting, CPU time per byte grows with the bytes that a benchmark writes within a few seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ORDER: Final = Path("/sys/module/page_reporting/parameters/page_reporting_order")
"""Blocks of at least 2 ** order pages are reported."""
_OF_NO_BLOCK: Final = "11"


@contextmanager
def held_free_pages() -> Iterator[None]:
    """Turn reporting of free pages off within the block, and print this; without permission, print a notice about the figures."""
    if not ORDER.exists():
        yield
        return
    before = ORDER.read_text()
    try:
        ORDER.write_text(_OF_NO_BLOCK)
    except OSError:  # not root, or a container without permission to change the setting
        print(f"this machine's host may take free pages back, which costs system time: as root, write {_OF_NO_BLOCK} to {ORDER}")
        yield
        return
    print(f"free pages are not reported to this machine's host meanwhile ({ORDER} was {before.strip()})", flush=True)
    try:
        yield
    finally:
        ORDER.write_text(before)
