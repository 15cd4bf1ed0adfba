"""The notebooks run unchanged, and their outputs equal the stored outputs."""

from __future__ import annotations

import base64
import re
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from nbformat import NotebookNode

from tests.notebooks import notebook_runs

README = (notebook_runs.ROOT / "README.md").read_text("utf-8")
STREAM = "stdout"

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Tables(HTMLParser):
    """The cells of HTML tables, row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        self._in_cell = tag in ("td", "th")

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += data


def shown(output: NotebookNode) -> Any:
    """What a reader sees of an output: the rows of a table, or text."""
    assert output.output_type in ("stream", "execute_result", "display_data"), output
    if output.output_type == "stream":
        assert output.name == STREAM, output.text
        return output.text
    if notebook_runs.PLOT in output.data:
        return "a plot"
    if "text/html" in output.data:
        tables = Tables()
        tables.feed(output.data["text/html"])
        assert tables.rows
        return tables.rows
    return output.data["text/plain"]


def everything_shown(notebook: NotebookNode) -> list[tuple[str, list[Any]]]:
    return [(cell.source, [shown(o) for o in cell.outputs]) for cell in notebook.cells if cell.cell_type == "code"]


def without_pixels(notebook: NotebookNode) -> NotebookNode:
    """A notebook without the content of its plots, which depends on fonts and on the version of matplotlib."""
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        if notebook_runs.PLOT in output.get("data", {}):
            pixels = base64.b64decode(output.data.pop(notebook_runs.PLOT))
            assert pixels.startswith(b"\x89PNG")
            assert len(pixels) > 5000
    return notebook


@pytest.fixture(scope="module")
def kernels(spark_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[notebook_runs.Kernels]:
    with notebook_runs.kernels(tmp_path_factory.mktemp("logs"), spark_python) as running:
        yield running


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.interop] if "restore" in n else []) for n in notebook_runs.names()]
)
def test_runs_show_what_is_stored(kernels: notebook_runs.Kernels, name: str) -> None:
    stored = notebook_runs.load(name)
    fresh = kernels.execute(name)
    assert everything_shown(fresh) == everything_shown(stored)
    assert without_pixels(fresh) == without_pixels(stored)
    assert kernels.complaints() == []


@pytest.mark.parametrize("name", notebook_runs.names())
def test_outputs_tell_nothing_about_the_machine(name: str) -> None:
    text = "\n".join(str(output) for _, outputs in everything_shown(notebook_runs.load(name)) for output in outputs)
    assert len(text) > 500
    for path in {str(notebook_runs.ROOT), str(Path.home()), tempfile.gettempdir()} - {"/"}:
        assert path not in text
    assert not re.search(r"0x[0-9a-f]{6,}|\bWARN|Warning", text)


def test_notebooks_import_nothing_from_the_tests() -> None:
    files = [*notebook_runs.NOTEBOOKS.glob("*.ipynb"), *notebook_runs.NOTEBOOKS.glob("*.py")]
    assert len(files) > 10
    assert [f.name for f in files if re.search(r"(from|import) tests\b", f.read_text("utf-8"))] == []


def test_the_readme_lists_them() -> None:
    linked = re.findall(r"\]\(notebooks/(\w+)\.ipynb\)", README)
    assert linked == notebook_runs.names()
    assert [int(name[:2]) for name in linked] == list(range(1, len(linked) + 1))
