"""The page about a snapshot: its content, escaping of the snapshot's text, and its look in a browser if one exists."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.applications.report.contents import Distribution, LargestKeys, SnapshotMeasures, Subtasks, contents
from state_processor.applications.report.page import STYLE, findings, page, share_text
from state_processor.applications.report.restoring import Restoring
from state_processor.backends.analysis.entry_sizes import KeyedSizes
from state_processor.backends.read.keyed_splits import KeyedSplit
from state_processor.cli import BAD_INPUT, main
from state_processor.display.histograms import TimeHistogram
from state_processor.options.access import SnapshotAccess
from state_processor.serializers.registry import Registrations, register
from tests.state_processor.samples import FIXTURES, ORDERS, ORDERS_PATH, WINDOWS_PATH, expected_state, expected_values
from tests.waiting import SECONDS

HOSTILE = "<script>alert('&')</script>"
VOID = frozenset({"meta"})


class Markup(HTMLParser):
    """The tags of a page; all of them have to be closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open += [tag] * (tag not in VOID)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts += [data] if self.open[-1:] != ["style"] else []

    @property
    def text(self) -> str:
        return "".join(self.texts)


def test_contents_are_those_of_the_snapshot() -> None:
    found = contents(ORDERS_PATH, SnapshotAccess())
    assert {row["operator_uid"] for row in found.operators} >= {"orders", "catalog"}
    sizes = {row["state_name"]: (row["entries"], row["size_in_bytes"]) for row in found.states if row.get("entries")}
    assert sizes == {
        row["state_name"]: (row["entries"], row["size_in_bytes"]) for row in sp.arrow.size_report(ORDERS_PATH).to_pylist()
    }
    groups = sp.arrow.size_report(ORDERS_PATH, "orders", by="key_group", top=None)
    expected = np.zeros(128, dtype=np.int64)
    expected[groups.column("key_group").to_numpy()] = groups.column("size_in_bytes").to_numpy()
    assert found.key_groups["orders"].sizes.tolist() == expected.tolist()
    by_subtask = {r["subtask"]: r for r in sp.arrow.size_report(ORDERS_PATH, "orders", by="subtask").to_pylist()}
    subtasks = found.subtasks["orders"]
    assert [(subtasks.sizes.sizes[n], subtasks.entries[n]) for n in range(2)] == [
        (by_subtask[n]["size_in_bytes"], by_subtask[n]["entries"]) for n in range(2)
    ]
    assert subtasks.key_groups.tolist() == [64, 64]
    assert subtasks.filled.tolist() == [np.count_nonzero(half) for half in np.split(expected, 2)]
    assert found.keys["orders"].rows == sp.arrow.size_report(ORDERS_PATH, "orders", by="key", top=10).to_pylist()
    timers = expected_state(ORDERS, "orders", "user-timers")["entries"]
    assert found.timers["orders", "event_time"].total == len(timers)
    assert found.accesses["orders", "session"].total == len(expected_values(ORDERS, "orders", "session"))
    assert found.problems == []


def test_findings_are_in_words() -> None:
    text = Markup(page(contents(ORDERS_PATH, SnapshotAccess(), keys=3))).text
    assert "FindingsNothing stands out.Operators" in text
    assert (
        "84 of 128 key groups are empty; the largest is 7.5 times the mean. All have 11.2 KiB, key group 101 has 670 B." in text
    )
    assert "subtasksizetimes the meanentrieskey groupswith state16.6 KiB1.2181642304.6 KiB0.81356421" in text
    assert "søren367 B3.2 %9beatriz360 B3.1 %8sofia324 B2.8 %8All keys of the 128 key groups were measured." in text
    assert "clara" not in text
    without_keys = Markup(page(contents(ORDERS_PATH, SnapshotAccess(), keys=0))).text
    assert "søren" not in without_keys
    assert "Largest keys" not in without_keys


def test_findings_of_uneven_operators() -> None:
    subtasks = Subtasks(Distribution(np.array([3, 0, 1500])), *(np.array(n) for n in ([1, 0, 2000], [3, 3, 2], [1, 0, 1])))
    groups = Distribution(np.array([3, 0, 0, 0, 0, 0, 0, 1500]))
    keys = LargestKeys([{"key": "k" * 500, "entries": 2000, "size_in_bytes": 1400}], 1, 1500 / 1503, 3)
    found = SnapshotMeasures(
        "/snapshot", {}, [], [], None, datetime(2026, 1, 2, tzinfo=UTC), ("a", "b"), {"orders": groups}, {"orders": subtasks},
        {"orders": keys},
    )  # fmt: skip
    assert list(findings(found)) == [
        "No operator has 2 of the given uids: 'a', 'b'.",
        f"orders: the key {'k' * 200}… (500 characters) has 1.4 KiB in 2,000 entries, 93.1 % of all bytes.",
        "orders: 6 of 8 key groups are empty; the largest is 8.0 times the mean.",
        "orders: 1 of 3 subtasks is empty; the largest has 1.5 KiB, 3.0 times the mean. 2 of them own 3 key groups, 1 own 2.",
    ]
    text = Markup(page(found)).text
    assert "The keys of the 1 largest of 8 key groups were measured, with 99.8 % of the bytes." in text
    assert "A key of another key group has at most 3 B." in text
    shares = {0: "0.0 %", 0.0001: "under 0.1 %", 0.123: "12.3 %", 0.9999: "over 99.9 %", 1: "100.0 %"}
    assert {share: share_text(share) for share in shares} == shares


def test_skew_that_costs_most_is_the_first_finding_and_even_operators_have_none() -> None:
    owned, filled = np.array([2, 2]), np.array([1, 1])
    groups = {
        "even": Distribution(np.array([500, 450, 400, 550])),
        "small": Distribution(np.array([0, 10, 0, 90])),
        "large": Distribution(np.array([0, 7000, 0, 2000])),
    }
    subtasks = {
        name: Subtasks(Distribution(one.sizes.reshape(2, 2).sum(axis=1)), filled, owned, filled) for name, one in groups.items()
    }
    found = SnapshotMeasures("/s", {}, [], [], None, datetime(2026, 1, 2, tzinfo=UTC), (), groups, subtasks, {})
    assert [sentence.partition(";")[0] for sentence in findings(found)] == [
        "large: 2 of 4 key groups are empty",
        "large: none of 2 subtasks is empty",
        "small: 2 of 4 key groups are empty",
        "small: none of 2 subtasks is empty",
    ]


def test_times_of_snapshot_and_report(tmp_path: Path) -> None:
    shutil.copytree(ORDERS_PATH, tmp_path / "savepoint")
    os.utime(tmp_path / "savepoint" / "_metadata", (1_700_000_000, 1_700_000_000))
    before = datetime.now(UTC)
    found = contents(tmp_path / "savepoint", SnapshotAccess(), values=False)
    assert before <= found.reported <= datetime.now(UTC)
    text = Markup(page(found)).text
    assert "snapshot stored2023-11-14 22:13:20 UTC" in text
    assert f"report made{found.reported:%Y-%m-%d %H:%M:%S} UTC" in text
    assert "snapshot storedunknown to the storage" in Markup(page(replace(found, stored=None))).text


def test_numbers_have_separators_of_thousands() -> None:
    many = 1_234_567
    histogram = TimeHistogram(1000, Counter({0: many}), outside=many)
    sizes = Distribution(np.array([1000] * 20_000))
    counts = np.full(20_000, many)
    operator = {"operator_uid": "a", "operator_parallelism": 20_000, "operator_max_parallelism": 32_768}
    state = {"operator": "a", "state_name": "s", "entries": many, "size_in_bytes": 1000}
    place, uids = ("a", "s"), tuple(f"u{n:02}" for n in range(1500))
    made = page(
        SnapshotMeasures(
            "/snapshot", {"operators": 1234, "size": 1 << 60}, [operator], [state], None, datetime(1, 1, 1, tzinfo=UTC), uids,
            {"a": sizes}, {"a": Subtasks(sizes, counts, counts, counts)},
            {"a": LargestKeys([{"key": "k", "entries": many, "size_in_bytes": many}], 1000, 0.5, 1000)},
            {place: histogram}, {place: histogram}, [],
        )
    )  # fmt: skip
    text = " ".join(Markup(made).texts)
    assert re.findall(r"(?<!\d)\d{4,}(?!-\d\d-)", text) == []
    numbers = set(re.findall(r"\d[\d,.]*\d(?: T?i?B)?", text))
    assert {"1,234", "1,048,576.0 TiB", "20,000", "32,768", "1,234,567", "1,000 B", "19,999"} <= numbers


def test_a_quick_page_reads_no_values() -> None:
    found = contents(ORDERS_PATH, SnapshotAccess(), values=False)
    assert (found.key_groups, found.subtasks, found.keys, found.timers, found.accesses) == ({}, {}, {}, {}, {})
    text = Markup(page(found)).text
    assert "uid hash" in text
    assert "Skew" not in text


@pytest.mark.usefixtures("own_registrations")
def test_what_can_not_be_read_is_noted_and_a_migration_planned() -> None:
    register(lambda _: Registrations())  # other tests describe the classes
    found = contents(FIXTURES / "migration" / "1.18.1" / "baskets-rocksdb-canonical" / "savepoint", SnapshotAccess())
    assert len(found.problems) == 1
    markup = Markup(page(found))
    assert "register_kryo_class('io.stateprocessor.interop.Line'" in markup.text
    impossible = sum(row["outcome"] == "impossible" for row in found.migration)
    assert f"{impossible} states can't be migrated to Flink 2.x unchanged." in markup.text


def test_an_operator_that_can_not_be_read_has_no_measures_and_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = contents(WINDOWS_PATH, SnapshotAccess())
    first, second = "tumbling-reduce", "session-process"
    by_place = KeyedSizes.by_place

    def failing(sizes: KeyedSizes, split: KeyedSplit) -> pa.RecordBatch:
        if sizes.stored.operator.uid == first and split.handle.subtask == 1:
            raise sp.CorruptSnapshotError("subtask 1 is damaged")
        return by_place(sizes, split)

    monkeypatch.setattr(KeyedSizes, "by_place", failing)
    found = contents(WINDOWS_PATH, SnapshotAccess())
    assert found.problems == ["subtask 1 is damaged"]
    assert (first in found.key_groups, first in found.subtasks, first in found.keys) == (False, False, False)
    assert found.key_groups[second].total
    assert found.key_groups[second].sizes.tolist() == whole.key_groups[second].sizes.tolist()
    assert not [state for state in found.states if state["operator"] == first and state.get("entries")]


def test_text_of_the_snapshot_is_no_markup() -> None:
    histogram = TimeHistogram()
    histogram.add(pa.array([0, 2**63 - 1]))
    names = {"operator": HOSTILE, "operator_uid": HOSTILE, "operator_uid_hash": HOSTILE, "operator_name": HOSTILE}
    state = {**names, "state_name": HOSTILE, "state_kind": HOSTILE, "value_type": HOSTILE, "backend": HOSTILE}
    facts = {"kind": HOSTILE, "oldest Flink": HOSTILE}
    place = (HOSTILE, HOSTILE)
    migration = [{"operator": HOSTILE, "state": HOSTILE, "kind": HOSTILE, "outcome": "impossible", "notes": HOSTILE}]
    groups = Distribution(np.array([1, 2]))
    keys = LargestKeys([{"key": HOSTILE, "entries": 1, "size_in_bytes": 2}], 2, 1.0, 0)
    made = page(
        SnapshotMeasures(
            f"s3://user:secret@bucket/{HOSTILE}", facts, [names], [state], None, datetime(2026, 1, 2, tzinfo=UTC), (HOSTILE,),
            {HOSTILE: groups}, {HOSTILE: Subtasks(groups, *(3 * [np.array([1, 2])]))}, {HOSTILE: keys}, {place: histogram},
            {place: histogram}, migration, [Restoring(HOSTILE)], [HOSTILE],
        )
    )  # fmt: skip
    markup = Markup(made)
    assert "script" not in markup.tags
    assert not {name for name in markup.attributes if name.startswith("on") or name in ("src", "href")}
    assert markup.text.count(HOSTILE) > 20
    assert "secret" not in made


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.html"
    assert main(["report", ORDERS_PATH, "-o", str(target), "--quick"]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert target.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert main(["report", ORDERS_PATH, "-o", str(target)]) == BAD_INPUT
    assert "exists" in capsys.readouterr().err


def test_text_wraps_and_tables_scroll() -> None:
    """No rule cuts text: only numbers, headers and ticks stay in a line, and these are in tables that scroll, or short."""
    rules = dict(re.findall(r"^([^{}@\n][^{}]*?) \{([^{}]*)\}", STYLE, re.MULTILINE))
    assert "overflow-wrap: anywhere" in rules["body"]
    assert rules[".scroll"].strip() == "overflow-x: auto;"
    assert {name for name, rule in rules.items() if "nowrap" in rule} == {"th", 'td[style*="right"]', ".ticks"}
    assert not re.search(r"ellipsis|overflow(-[xy])?: (hidden|clip)|min-width|[^-]width: \d+(px|rem)", STYLE)
    made = page(contents(ORDERS_PATH, SnapshotAccess()))
    assert made.count("<table>") == made.count('<div class="scroll"><table>') >= 5


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium is installed")
@pytest.mark.parametrize(("width", "scheme", "background"), [(360, 0, "rgb(20, 23, 29)"), (1280, 1, "rgb(246, 247, 249)")])
def test_in_a_browser(width: int, scheme: int, background: str, tmp_path: Path) -> None:
    """The page is not wider than its frame (tables scroll inside of it), has all charts, and is dark where others are."""
    found = contents(ORDERS_PATH, SnapshotAccess())
    long = "x" * 400
    found.problems.append(long)
    found.key_groups[long], found.subtasks[long] = found.key_groups["orders"], found.subtasks["orders"]
    made = page(replace(found, path=f"/{long}", unmatched_uids=(long,)))
    frame = f'<iframe srcdoc="{escape(made)}" width="{width}" height="800" style="border: 0"></iframe>'
    probe = """<script>
        onload = () => {
            const page = document.querySelector("iframe").contentDocument;
            const tables = [...page.querySelectorAll(".scroll")];
            const outside = [...page.querySelectorAll("body *")].filter(e => !tables.some(t => t !== e && t.contains(e)));
            const right = Math.max(...outside.map(e => e.getBoundingClientRect().right));
            const cut = outside.filter(e => !tables.includes(e) && e.scrollWidth > e.clientWidth + 1 && e.clientWidth);
            const shown = [page.documentElement.scrollWidth, Math.ceil(right), cut.map(e => e.outerHTML.slice(0, 60)).join(),
                page.querySelectorAll("rect").length, getComputedStyle(page.body).backgroundColor];
            document.title = shown.join(";");
        };
        </script>"""
    (tmp_path / "report.html").write_text(f"<title></title>{frame}{probe}", "utf-8")
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"--user-data-dir={tmp_path / 'profile'}"]
    preference = f"--blink-settings=preferredColorScheme={scheme}"
    command = [*browser, preference, "--window-size=1400,900", f"file://{tmp_path / 'report.html'}"]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    scrolled, right, cut, rects, colour = dom.partition("<title>")[2].partition("</title>")[0].split(";")
    assert int(scrolled) <= width
    assert int(right) <= width
    assert cut == ""
    assert int(rects) == made.count("<rect ")
    assert colour == background
