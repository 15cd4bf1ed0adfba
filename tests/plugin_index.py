"""The page docs/plugins/index.md: the pages of plug-ins with their first sentence.

``./dev generate`` writes the page.
"""

from __future__ import annotations

import runpy
from typing import Final

from tests.llms_page import DOCS, first_sentence

_PAGES: Final = runpy.run_path(str(DOCS / "plugin_pages.py"))["pages"]
_INTRODUCTION: Final = """\
# Plug-ins

A plug-in reads and writes the state of another product. These pages are about plug-ins of this package.
[Sources and sinks](../connectors.md) lists their connectors. [Extending](../extending.md#a-connector) describes how to write one.

`./dev generate` writes this page.

| plug-in | content |
|---|---|
"""


def page() -> str:
    """Return the page."""
    rows = [(title, path, first_sentence(path).removeprefix(": ")) for title, path in _PAGES().items()]
    return _INTRODUCTION + "".join(f"| [{title}]({path.partition('/')[2]}) | {sentence} |\n" for title, path, sentence in rows)
