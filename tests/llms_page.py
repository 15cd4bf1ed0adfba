"""The file docs/llms.txt: the pages of the site with their first sentence, for programs that read documentation.

``./dev generate`` writes the file.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).parents[1] / "docs"
_PLUGIN_PAGES: Final = runpy.run_path(str(DOCS / "plugin_pages.py"))
_NOTEBOOK_PAGES: Final = runpy.run_path(str(DOCS / "notebook_pages.py"))
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
    for line in (DOCS.parent / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2].splitlines():
        if group := _GROUP.match(line):
            lines += ["", f"## {group['name']}", ""]
        elif entry := _PAGE.match(line):
            lines.append(_line(entry["name"], entry["path"]))
            if entry["path"] == "plugins/index.md":
                lines += [_line(title, path) for title, path in _PLUGIN_PAGES["pages"]().items()]
    return "\n".join(lines) + "\n"


def _line(title: str, path: str) -> str:
    return f"- [{title}]({_address(path)}){first_sentence(path)}"


def _address(path: str) -> str:
    return "./" if path == "index.md" else path.removesuffix("index.md").removesuffix(".md").rstrip("/") + "/"


def first_sentence(path: str) -> str:
    """Return a colon and the first sentence of a page below its title, without links; nothing for pages of signatures alone."""
    notebook = DOCS.parent / Path(path).with_suffix(".ipynb")
    page = _NOTEBOOK_PAGES["page"](notebook) if notebook.exists() else (DOCS / path).read_text("utf-8")
    text = re.sub(r"<!--.*?-->|<details.*?</details>|```.*?```", "", page, flags=re.DOTALL)
    paragraphs = [part.strip() for part in text.split("\n\n")]
    body = next((part for part in paragraphs if part and not part.startswith(("#", "|", "!", ":::"))), "")
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(body.split()))
    match = _SENTENCE.match(plain)
    return f": {(match[0] if match else plain).rstrip(':')}" if plain else ""
