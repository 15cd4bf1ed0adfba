"""Tables in notebooks."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import state_processor as sp
from state_processor.display.showing import html_table
from state_processor.write.plan.reports import MigrationReport, OperatorSummary, StateReport, WriteSummary
from tests.state_processor.samples import ORDERS_PATH


class Cells(HTMLParser):
    """The text of all cells, and whether tags that are opened are closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] in (["td"], ["th"]):
            self.cells[-1] += data


def test_text_is_escaped() -> None:
    hostile = "<script>alert('&')</script>"
    html = html_table([hostile], [{hostile: hostile}, {hostile: 300 * '"<'}], caption=hostile)
    assert "<script" not in html
    assert Cells(html).cells[:2] == [hostile, hostile]
    assert html.count("…") == 1


def test_sizes_have_bars() -> None:
    html = html_table(["n", "b"], [{"n": 1, "b": 2048}, {"n": 2, "b": 512}, {"n": 3, "b": None}], sizes=frozenset({"b"}))
    assert Cells(html).cells == ["n", "b", "1", "2.0 KiB", "2", "512 B", "3", ""]
    assert re.findall(r"transparent ([0-9.]+)%", html) == ["100.0", "25.0", "0.0"]


def test_counts_have_separators_and_other_numbers_do_not() -> None:
    html = html_table(["n", "id"], [{"n": 1234567, "id": 1234}, {"n": None, "id": 5}], counts=frozenset({"n"}))
    assert Cells(html).cells == ["n", "id", "1,234,567", "1234", "", "5"]
    assert html.count("text-align: right") == 5


def test_objects() -> None:
    summary = WriteSummary("s3://key:secret@b/x", 1, (OperatorSummary("orders", "ab", 2, 128, ("total",), 5, 1024, False),))
    assert {"orders", "total", "1.0 KiB"} <= set(Cells(summary._repr_html_()).cells)
    assert repr(summary).splitlines()[0] == "WriteSummary('s3://***@b/x')"
    assert repr(summary).endswith(str(summary))
    assert "secret" not in summary._repr_html_()
    report = MigrationReport("2.3", (StateReport("orders", "ab", "total", "VALUE", "impossible", problems=("why <not>",)),))
    assert {"orders", "impossible", "why <not>"} <= set(Cells(report._repr_html_()).cells)
    found = Cells(sp.arrow.lookup(ORDERS_PATH, "orders", "amelia")._repr_html_()).cells
    assert {"value", "3950"} <= set(found)
    assert not [cell for cell in found if cell.endswith("…")]
