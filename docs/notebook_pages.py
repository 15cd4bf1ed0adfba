"""Pages of the site for the notebooks, with their stored output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

NOTEBOOKS: Final = Path(__file__).resolve().parents[1] / "notebooks"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook (an event of MkDocs)."""
    from mkdocs.structure.files import File  # the tests make pages without it

    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=page(notebook)))
    return files


def page(notebook: Path) -> str:
    """Return a notebook as Markdown."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    return "\n\n".join(part for cell in cells for part in _parts(cell))


def _parts(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source.replace("](../docs/", "](../")]
    return [f"```python\n{source}\n```", *map(_output, cell["outputs"])]


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f"![the plot of the cell](data:image/png;base64,{data['image/png'].strip()})"
    if "text/html" in data:
        return "".join(data["text/html"]).replace("\n\n", "\n")
    return f"```text\n{''.join(output.get('text', data.get('text/plain', ()))).rstrip()}\n```"
