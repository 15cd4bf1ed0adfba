"""Rows of Arrow as tables, on terminals and in notebooks."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.applications.explain.explanation import Explanation
from state_processor.applications.jobs.matching import OperatorMatches
from state_processor.applications.jobs.verdicts import JobReport
from state_processor.display.showing import html_table
from state_processor.write.plan.reports import MigrationReport, OperatorSummary, QueryMigrationReport, StateReport, WriteSummary
from tests.state_processor.samples import ORDERS_PATH


def test_rows_are_shown_as_the_command_line_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    reader = sp.open(ORDERS_PATH)
    sp.show(reader.size_report(top=2))
    assert capsys.readouterr().out.splitlines() == [
        "operator  state_name  state_kind  entries     size",
        "────────  ──────────  ──────────  ───────  ───────",
        "orders    profile     VALUE            40  4.9 KiB",
        "orders    items       MAP             123  2.8 KiB",
    ]
    rows = reader.read_keyed_state("orders", "total", keys=["elif", "milan"])
    sp.show(rows, 1)
    sp.show(rows)
    shown = capsys.readouterr().out.splitlines()
    assert shown[2:4] == ["elif  11000", "… only the first 1 rows; limit shows more"]
    assert shown[6:] == ["elif   11000", "milan   1620"]


def test_tables_of_states_have_one_column_for_the_operator(capsys: pytest.CaptureFixture[str]) -> None:
    sp.show(sp.arrow.states(ORDERS_PATH))
    header, *_, discounts = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["operator", "state_name", "state_kind"]
    assert "namespace_type" not in header
    assert discounts.split() == ["catalog", "discounts", "BROADCAST", "STRING", "DOUBLE", "false", "operator", "318", "B"]
    sp.show(sp.arrow.operators(ORDERS_PATH), vertical=True)
    assert "max_parallelism" in capsys.readouterr().out


def test_names_of_a_snapshot_do_not_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    sp.show(pa.table({"a\x1b[2J": ["b\x1b[2J"]}))
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rows", "limit", "message"),
    [([{"a": 1}], 20, r"show\(list\): expected rows, a table"), (pa.table({"a": [1]}), 0, "limit=0: expected a positive number")],
)
def test_mistakes(rows: object, limit: int, message: str) -> None:
    with pytest.raises(sp.OptionError, match=message):
        sp.show(rows, limit)


@pytest.mark.parametrize(
    "result",
    [MigrationReport("2.3", ()), QueryMigrationReport(()), JobReport(()), OperatorMatches(()), Explanation()],
    ids=lambda result: type(result).__name__,
)
def test_results_are_shown_as_their_text(result: object) -> None:
    assert repr(result) == str(result)


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
