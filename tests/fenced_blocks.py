"""Fenced blocks of Markdown, in pages and in the cells of notebooks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "notebooks").glob("*.ipynb"))]

_FENCED: Final = re.compile(r"^( *)(`{3,}|~{3,})([^\n`]*)\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
_PROMPTS: Final = ("$ ", "state-processor ")


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: Path
    line: int  # of its fence, in the page or cell
    language: str
    text: str

    @property
    def is_shell(self) -> bool:
        """Whether it has command lines. Blocks without a language are sessions if they begin with a prompt or a command."""
        return self.language in ("sh", "bash", "shell", "console") or (not self.language and self.text.startswith(_PROMPTS))


def blocks_of(page: Path) -> Iterator[Block]:
    """Return the fenced blocks of a page or notebook, without their indentation."""
    text = page.read_text("utf-8")
    cells = (
        [text]
        if page.suffix == ".md"
        else ["".join(c["source"]) for c in json.loads(text)["cells"] if c["cell_type"] == "markdown"]
    )
    for cell in cells:
        for block in _FENCED.finditer(cell):
            yield Block(page, cell.count("\n", 0, block.start()) + 1, block[3].strip(), dedent(block[4]))
