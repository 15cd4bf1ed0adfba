"""The page about a snapshot: what it shows, and that nothing in a snapshot becomes markup. A browser shows it if there is one."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.cli import BAD_INPUT, main
from state_processor.options.access import SnapshotAccess
from state_processor.report.contents import SnapshotContents, contents
from state_processor.report.page import page
from state_processor.report.restoring import Restoring
from state_processor.report.time_histogram import TimeHistogram
from state_processor.serializers.user_registrations import Registrations, register
from tests.state_processor.samples import FIXTURES, ORDERS, ORDERS_PATH, expected_state, expected_values

HOSTILE = "<script>alert('&')</script>"
VOID = frozenset({"meta"})


class Markup(HTMLParser):
    """The tags of a page, all of which have to be closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open += [tag] * (tag not in VOID)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


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
    assert found.key_groups["orders"].tolist() == expected.tolist()
    timers = expected_state(ORDERS, "orders", "user-timers")["entries"]
    assert found.timers["orders", "event_time"].total == len(timers)
    assert found.accesses["orders", "session"].total == len(expected_values(ORDERS, "orders", "session"))
    assert found.problems == []


def test_a_quick_page_reads_no_values() -> None:
    found = contents(ORDERS_PATH, SnapshotAccess(), values=False)
    assert (found.key_groups, found.timers, found.accesses) == ({}, {}, {})
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
    assert f"{impossible} states can't be migrated to Flink 2.x as they are." in markup.text


def test_text_of_the_snapshot_is_no_markup() -> None:
    histogram = TimeHistogram()
    histogram.add(pa.array([0, 2**63 - 1]))
    names = {"operator": HOSTILE, "operator_uid": HOSTILE, "operator_uid_hash": HOSTILE, "operator_name": HOSTILE}
    state = {**names, "state_name": HOSTILE, "state_kind": HOSTILE, "value_type": HOSTILE, "backend": HOSTILE}
    facts = {"kind": HOSTILE, "oldest Flink": HOSTILE}
    place = (HOSTILE, HOSTILE)
    migration = [{"operator": HOSTILE, "state": HOSTILE, "kind": HOSTILE, "outcome": "impossible", "notes": HOSTILE}]
    made = page(
        SnapshotContents(
            f"s3://user:secret@bucket/{HOSTILE}", facts, [names], [state], {HOSTILE: np.array([1, 2])}, {place: histogram},
            {place: histogram}, migration, [Restoring(HOSTILE)], [HOSTILE],
        )
    )  # fmt: skip
    markup = Markup(made)
    assert "script" not in markup.tags
    assert not {name for name in markup.attributes if name.startswith("on") or name in ("src", "href")}
    assert markup.text.count(HOSTILE) > 15
    assert "secret" not in made


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.html"
    assert main(["report", ORDERS_PATH, "-o", str(target), "--quick"]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert target.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert main(["report", ORDERS_PATH, "-o", str(target)]) == BAD_INPUT
    assert "exists" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium is installed")
@pytest.mark.parametrize(("width", "scheme", "background"), [(500, 0, "rgb(20, 23, 29)"), (1280, 1, "rgb(246, 247, 249)")])
def test_in_a_browser(width: int, scheme: int, background: str, tmp_path: Path) -> None:
    """The page is not wider than the window (tables scroll inside of it), has all charts, and is dark where others are."""
    body, rects = "document.body", "document.querySelectorAll('rect')"
    shown = f"{body}.scrollWidth, {rects}.length, getComputedStyle({body}).backgroundColor"
    probe = f"<script>document.title = [{shown}].join(';')</script>"
    made = page(contents(ORDERS_PATH, SnapshotAccess()))
    without_policy = made.replace("default-src 'none'; ", "")
    (tmp_path / "report.html").write_text(without_policy.replace("</body>", f"{probe}</body>"), "utf-8")
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"--user-data-dir={tmp_path / 'profile'}"]
    preference = f"--blink-settings=preferredColorScheme={scheme}"
    command = [*browser, preference, f"--window-size={width},900", f"file://{tmp_path / 'report.html'}"]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = dom.partition("<title>")[2].partition("</title>")[0].split(";")
    assert int(found[0]) <= width
    assert int(found[1]) == made.count("<rect ")
    assert found[2] == background
