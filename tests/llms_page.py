"""The file docs/llms.txt: the pages of the site with their first sentence, for programs that read documentation.

``./dev generate`` writes the file.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Final

_DOCS: Final = Path(__file__).parents[1] / "docs"
_NOTEBOOK_PAGES: Final = runpy.run_path(str(_DOCS / "notebook_pages.py"))
_GROUP: Final = re.compile(r"  - (?P<name>[^:]+):$")
_PAGE: Final = re.compile(r"(?P<indent> +)- \"?(?P<name>.+?)\"?: (?P<path>\S+\.md)$")
_SENTENCE: Final = re.compile(r".+?[.:](?=\s|$)", re.DOTALL)
_INTRODUCTION: Final = """\
# state-processor

> Read savepoints and checkpoints of Apache Flink as Spark DataFrames or Arrow tables in Python, compare and change them, and
> write savepoints that Flink restores. Neither Flink nor the classes of the job are needed.
"""


def page() -> str:
    """Return the text: a section for each group of the navigation."""
    lines = [_INTRODUCTION, "## Start", ""]
    for line in (_DOCS.parent / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2].splitlines():
        if group := _GROUP.match(line):
            lines += ["", f"## {group['name']}", ""]
        elif entry := _PAGE.match(line):
            lines.append(f"- [{entry['name']}]({_address(entry['path'])}){_first_sentence(entry['path'])}")
    return "\n".join(lines) + "\n"


def _address(path: str) -> str:
    return "./" if path == "index.md" else path.removesuffix(".md") + "/"


def _first_sentence(path: str) -> str:
    """Return a colon and the first sentence of a page below its title, without links; nothing for pages of signatures alone."""
    notebook = _DOCS.parent / Path(path).with_suffix(".ipynb")
    page = _NOTEBOOK_PAGES["page"](notebook) if notebook.exists() else (_DOCS / path).read_text("utf-8")
    text = re.sub(r"<!--.*?-->|<details.*?</details>|```.*?```", "", page, flags=re.DOTALL)
    paragraphs = [part.strip() for part in text.split("\n\n")]
    body = next((part for part in paragraphs if part and not part.startswith(("#", "|", "!", ":::"))), "")
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(body.split()))
    match = _SENTENCE.match(plain)
    return f": {(match[0] if match else plain).rstrip(':')}" if plain else ""
