"""Pages at former addresses, which lead to the pages that have moved.

A page of a plug-in names its former address itself, in a comment at its end: ``<!-- formerly how-to/NAME -->``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

PLUGINS: Final = Path(__file__).resolve().parent / "plugins"
_FORMERLY: Final = re.compile(r"^<!-- formerly (\S+) -->$", re.MULTILINE)
_OF_PLUGINS: Final = {
    former: f"plugins/{page.stem}"
    for page in sorted(PLUGINS.glob("*.md"))
    for former in _FORMERLY.findall(page.read_text("utf-8"))
}
MOVED: Final = {"how-to/forget-a-user": "how-to/find-and-erase", **_OF_PLUGINS}
"""The present addresses of pages by their former ones."""


def on_post_build(config: MkDocsConfig) -> None:
    """Write the pages (an event of MkDocs)."""
    for former, address in MOVED.items():
        page = Path(config["site_dir"], former, "index.html")
        page.parent.mkdir(parents=True, exist_ok=True)
        target = f"../../{address}/"
        page.write_text(
            f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={target}">'
            f'<title>Moved</title><a href="{target}">This page has moved.</a>\n',
            "utf-8",
        )
