"""The page of ``browse`` in a real Chromium: clicks, sizes, and snapshots whose names and values are made to hurt."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

import state_processor as sp
from tests.state_processor.applications.serving.chromium import Page
from tests.state_processor.applications.serving.web import Web
from tests.state_processor.samples import TYPES_PATH, WINDOWS_PATH
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium is installed")

TABLES = """Object.fromEntries([...document.querySelectorAll('main section')]
    .filter(part => part.querySelector('table'))
    .map(part => [part.querySelector('h2').textContent, [...part.querySelectorAll(':scope > .scroll > table > tbody > tr')]
        .map(row => [...row.cells].map(cell => cell.textContent))]))"""
ELEMENTS = "script, img, iframe, object, link, style, base, meta, video, form[action], math"
FOREIGN = f"document.querySelectorAll('main :is({ELEMENTS})').length"
CUT = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    '"><svg/onload=alert(1)>',
    "javascript:alert(1)",
    "${alert(1)}{{7*7}}",
    "'-alert(1)-'",
    "</script><script>alert(1)</script>",
    "<iframe src=//evil.example>",
    "<a href=//evil.example>x</a>",
    "<style>@import '//evil.example'</style>",
    "<base href=//evil.example>",
    "..",
    "a/b?c#d",
    "__proto__",
    "constructor",
    "\u202eabc\x00\x1b[2J",
    "%2e%2e%2f",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "&lt;img src=x&gt;",
    "url(//evil.example)",
)


def address(web: Web) -> str:
    return f"http://127.0.0.1:{web._port}/browse"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with Page(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def test_clicks_from_the_list_of_operators_to_a_key(page: Page) -> None:
    path = sp.sample_savepoint()
    with Web(path) as web:
        page.open(address(web))
        for text in ("orders", "total", "amelia"):
            page.click(text)
        tables = page.value(TABLES)
        hash_of_key = page.value("location.hash")
        page.view("#/")
        page.view(hash_of_key)  # the address of a view can be sent
        assert page.value(TABLES) == tables
    states = sp.arrow.lookup(path, "orders", "amelia").tables()
    assert set(tables) >= set(states)
    for name in ("total", "session"):
        assert tables[name] == [[str(value)] for value in states[name]["value"].to_pylist()]
    assert {name: len(tables[name]) for name in states} == {name: table.num_rows for name, table in states.items()}


def test_maps_lists_and_structs_unfold(page: Page) -> None:
    with Web(sp.sample_savepoint()) as web:
        page.open(f"{address(web)}#/keys/orders/amelia")
        opened = "document.querySelectorAll('details').forEach(part => part.open = true)"
        page.value(opened)
        wait_until(lambda: "Harbour Street 1" in page.value(f"{opened}; document.querySelector('main').innerText"), "the address")
        text = page.value("document.querySelector('main').innerText")
    (profile,) = sp.arrow.lookup(sp.sample_savepoint(), "orders", "amelia").tables()["profile"].to_pylist()
    for shown in (profile["value"]["email"], profile["value"]["since"].isoformat(), "teapot", "1 × teapot"):
        assert shown in text


def test_a_snapshot_that_can_not_be_opened_leads_to_its_explanation(page: Page, tmp_path: Path) -> None:
    damaged = tmp_path / "chk-2"
    for name in ("chk-1", "chk-2"):
        shutil.copytree(sp.sample_savepoint(), tmp_path / name)
    (damaged / "_metadata").write_bytes((damaged / "_metadata").read_bytes()[:100])
    with Web(str(damaged), may_be_damaged=True) as web:
        page.open(address(web))
        assert page.value("document.querySelector('h1').textContent") == "Error"
        page.click("Explain")
        explanation = page.value("document.querySelector('main').innerText")
        (cause,) = sp.explain(damaged).causes
        assert all(text in explanation for text in (cause.kind, cause.sentence, cause.advice))
    with Web(str(tmp_path)) as web:
        page.open(f"{address(web)}#/keys/orders/nobody")
        text = page.value("document.querySelector('main').innerText")
        assert "does not have the key nobody" in text
        assert "Explain" not in text  # the snapshot is good
        page.view("#/snapshots")
        page.click("explain")
        assert page.value("document.querySelector('main').innerText") == explanation


def test_notes_stand_below_the_rows(page: Page) -> None:
    """States of windows that a row for each key does not have, and time zones that were assumed."""
    notes = "[...document.querySelectorAll('main .note')].map(note => note.textContent)"
    query = 'SELECT * FROM "session-process"'
    with Web(WINDOWS_PATH) as web:
        page.open(f"{address(web)}#/sql?query={quote(query, safe='')}")
        assert page.value(notes) == [*sp.duckdb.query(WINDOWS_PATH, query).notes]
        assert "'window-contents'" in page.value(notes)[0]
    state = sp.arrow.read_state(TYPES_PATH, "types", "sql-date")
    with Web(TYPES_PATH) as web:
        for view in ("#/rows/types/sql-date", f"#/keys/types/{state.read_all()['key'][0].as_py()}"):
            page.open(f"{address(web)}{view}")
            assert set(page.value(notes)) >= set(state.notes) != set()


@pytest.mark.parametrize("width", [380, 1600])
@pytest.mark.parametrize("dark", [False, True])
def test_views_fit_a_window(width: int, dark: bool, page: Page) -> None:
    with Web(sp.sample_savepoint()) as web:
        page.shape(width, dark=dark)
        page.open(address(web))
        for view in ("#/", "#/operators/orders", "#/rows/orders/profile", "#/keys/orders/amelia", "#/sizes/orders?by=key_group"):
            page.view(view)
            assert page.value("document.querySelector('h1').textContent") != "Error"
            assert page.value(CUT) <= 0, view
        colours = page.value("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
    brightness = [sum(map(int, colour[4:-1].split(","))) for colour in colours]
    assert (brightness[0] > brightness[1]) == dark


def test_a_keyboard_is_enough(page: Page) -> None:
    with Web(sp.sample_savepoint()) as web:
        page.open(f"{address(web)}#/operators/orders")
        page.call("Input.dispatchKeyEvent", type="keyDown", key="/", text="/")
        assert page.value("document.activeElement.id") == "key"
        assert page.value("document.activeElement.value") == ""
        page.call("Input.insertText", text="amelia")
        page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r", windowsVirtualKeyCode=13)
        page.view("#/keys/orders/amelia")
        assert page.value("document.querySelector('h1').textContent") == "Key amelia"


def test_names_and_values_that_are_made_to_hurt(page: Page, tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.new(max_parallelism=8, flink_version="2.0")
    text = sp.Types.STRING()
    for uid in HOSTILE:
        rows = [{"key": value, uid: value} for value in HOSTILE]
        writer.with_keyed_state(uid, rows, states={uid: sp.ValueState(text)}, key_type=text)
    writer.write(tmp_path / "savepoint")
    page.call("Page.navigate", url="about:blank")  # the page of another test asks its server from time to time
    page.events.clear()
    with Web(str(tmp_path / "savepoint")) as web:
        page.open(address(web))
        (operators,) = page.value(TABLES).values()
        assert len(operators) == len(HOSTILE)
        for number, uid in enumerate(HOSTILE):
            key = HOSTILE[-1 - number]
            for view in (["operators", uid], ["rows", uid, uid], ["keys", uid, key], ["sizes", uid]):
                page.view("#/" + "/".join(quote(part, safe="") for part in view))
                assert page.value("document.querySelector('h1').textContent") != "Error", view
                assert page.value(FOREIGN) == 0, view
        own = f"http://127.0.0.1:{web._port}/"
        assert [request for request in page.requests if not request.startswith(own)] == []
    assert page.alarms == []


def test_many_states_and_long_values(page: Page, tmp_path: Path) -> None:
    number, long = 1000, "x" * 10_000_000
    writer = sp.arrow.SavepointWriter.new(max_parallelism=8, flink_version="2.0")
    states = {f"state {n}": sp.ValueState(sp.Types.STRING()) for n in range(number)}
    row = {"key": 1} | dict.fromkeys(states, "x") | {"state 7": long}
    writer.with_keyed_state("wide", [row], states=states, key_type=sp.Types.LONG())
    writer.write(tmp_path / "savepoint")
    with Web(str(tmp_path / "savepoint")) as web:
        page.open(f"{address(web)}#/operators/wide")
        assert len(page.value(TABLES)[f"{number:,} states"]) == number
        page.view("#/rows/wide/state%207")
        ((_, value),) = page.value(TABLES)["Rows 0 to 0"]
        assert long.startswith(value.rstrip("… ")[:4096])
        assert len(value) < 5000
