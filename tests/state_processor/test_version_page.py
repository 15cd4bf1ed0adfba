"""The page about versions is the one that the tables describe."""

from __future__ import annotations

from tests.state_processor import version_page


def test_page() -> None:
    found = version_page.PAGE.read_text("utf-8")
    assert found == version_page.page(), (
        "docs/format-versions.md differs from the tables: python -m tests.state_processor.version_page"
    )
