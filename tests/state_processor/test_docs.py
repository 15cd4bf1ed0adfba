"""What the pages of the documentation show is true: each block of Python runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import state_processor as sp
from state_processor.serializers import registrations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if "```python\n" in page.read_text("utf-8"))
SAMPLE = "tests/fixtures/2.3.0/orders-rocksdb-canonical/savepoint"

_BLOCK = re.compile(r"^(?:```python|<!-- before the examples)\n(.*?)^(?:```|-->)", re.MULTILINE | re.DOTALL)
_OF_PAGE = re.compile(r"\A---\nsavepoint: (\S+)\n---\n")
_NOT_RUN = {"kernel.md"}
"""Pages with fragments of code."""


def test_most_pages_have_examples() -> None:
    assert len(PAGES) > 20
    assert {page.name for page in PAGES} >= {"index.md", "fix-values.md", "sinks.md"}


@pytest.mark.spark
@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in _NOT_RUN], ids=lambda page: page.stem)
def test_examples_run(spark: SparkSession, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = page.read_text("utf-8")
    savepoint = _OF_PAGE.match(text)
    names: dict[str, object] = {
        "__name__": "__main__",
        "spark": spark,
        "savepoint": savepoint[1] if savepoint else SAMPLE,
        "target": str(tmp_path / "savepoint"),
    }
    assert "import state_processor as sp" in text or "from state_processor" in text
    with registrations():
        for block in _BLOCK.finditer(text):
            line = text.count("\n", 0, block.start(1))
            exec(compile("\n" * line + block[1], str(page), "exec"), names)


def test_every_public_name_is_in_the_reference() -> None:
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    described = set(re.findall(r"^::: state_processor\.(\w+)", pages, re.MULTILINE))
    public = {name for name in sp.__all__ if not name.endswith("Error")}
    assert public - described <= {"OperatorSummary", "SchemaCompatibility", "SnapshotInfo", "StateReport"}
