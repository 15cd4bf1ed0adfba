"""The page in the browser, and its answers."""

from __future__ import annotations

import re
import shutil
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import fsspec
import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.applications.explain.kinds import Kind
from state_processor.applications.serving import browsing
from state_processor.applications.serving.browsing import browsable, browser_page
from state_processor.applications.serving.following import Followed
from state_processor.applications.serving.limits import Limits
from state_processor.support.errors import NotASnapshotError
from tests.state_processor.applications.serving.checkpoints import TOKEN
from tests.state_processor.applications.serving.test_queries import ENDLESS
from tests.state_processor.applications.serving.web import Web
from tests.state_processor.samples import ORDERS_PATH, TYPES_PATH, WINDOWS_PATH
from tests.state_processor.written_checkpoints import JOB, take, take_regional
from tests.waiting import SECONDS


@pytest.fixture(scope="module")
def orders() -> Iterator[Web]:
    with Web(ORDERS_PATH) as served:
        yield served


def ask(web: Web, name: str, **given: Any) -> Any:
    return web.get(f"/browse/{name}?{urlencode(given)}").json()


def test_the_page_permits_its_own_script_alone() -> None:
    with Web(ORDERS_PATH, token=TOKEN) as web:
        connection = HTTPConnection("127.0.0.1", web._port, timeout=SECONDS)
        connection.request("GET", "/browse")
        answer = connection.getresponse()
        page, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]
        connection.close()
        assert (answer.status, page) == (200, browser_page())
        assert web.get("/browse/snapshots").status == 401
        assert web.get("/browse/snapshots", {"Authorization": f"Bearer {TOKEN}"}).status == 200
    parts = re.findall(r"<(script|style)>(.*?)</\1>", page, re.DOTALL)
    assert [name for name, _ in parts] == ["style", "script"]
    for name, text in parts:
        assert f"{name}-src 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|\ssrc=|https?://(?!www\.w3\.org/2000/svg)", page
    )


def test_from_the_list_of_operators_to_a_key(orders: Web) -> None:
    assert "orders" in [row["operator_uid"] for row in orders.get("/operators").json()["operators"]]
    states = ask(orders, "states", uid="orders")["states"]
    assert "total" in [row["state_name"] for row in states]
    rows = ask(orders, "rows", uid="orders", state="total")
    key = rows["keys"][rows["rows"].index(["amelia", 3950])]
    found = ask(orders, "key", uid="orders", key=key)
    expected = sp.arrow.lookup(ORDERS_PATH, "orders", "amelia").tables()
    assert found["states"].keys() | {"timers"} >= expected.keys()
    for name, answer in found["states"].items():
        table = expected[name].drop_columns(["key"])
        assert [column["name"] for column in answer["columns"]] == table.schema.names
        assert answer["number"] == table.num_rows
    assert found["states"]["total"]["rows"] == [[3950]]
    assert found["python"] == "'amelia'"


def test_a_snapshot_that_can_not_be_opened_is_explained(tmp_path: Path) -> None:
    shutil.copytree(ORDERS_PATH, tmp_path / "savepoint")
    (tmp_path / "savepoint" / "_metadata").write_bytes(b"not a snapshot")
    path = str(tmp_path / "savepoint")
    with pytest.raises(NotASnapshotError):
        Followed(path, {})
    with Web(path, may_be_damaged=True) as web:
        listing = ask(web, "snapshots")
        assert (listing["opens"], listing["newest"], len(listing["snapshots"])) == (False, path, 1)
        explanation = ask(web, "explain")
        assert [cause["kind"] for cause in explanation["causes"]] == [Kind.NOT_A_SNAPSHOT]
        assert web.get("/operators").status == 503
        assert web.get("/browse/explain?snapshot=%2Felsewhere").status == 404


def test_a_page_of_large_values_has_fewer_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [{"key": key, "text": "x" * 1000} for key in range(40)]
    writer = sp.arrow.SavepointWriter.new(max_parallelism=8, flink_version="2.0")
    states = {"text": sp.ValueState(sp.Types.STRING())}
    writer.with_keyed_state("op", values, states=states, key_type=sp.Types.LONG()).write(tmp_path / "savepoint")
    monkeypatch.setattr(browsing, "_LARGEST_PAGE", 5000)
    keys, offset = [], 0
    with Web(str(tmp_path / "savepoint")) as web:
        while offset is not None:
            page = ask(web, "rows", uid="op", state="text", offset=offset)
            assert len(page["rows"]) < 10
            keys += page["keys"]
            offset = offset + len(page["rows"]) if page["is_more"] else None
    assert sorted(map(int, keys)) == list(range(40))


def test_a_read_of_a_page_ends_with_the_rows_that_fill_it(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(10):
            taken.append(number)
            yield pa.RecordBatch.from_pydict({"value": ["x" * 1000]})

    monkeypatch.setattr(browsing, "_LARGEST_PAGE", 2500)
    assert sum(batch.num_rows for batch in browsing._slice(batches(), 1, 8)) == len(taken) - 1 == 3


def test_long_lists_and_maps_are_cut_before_they_are_converted() -> None:
    length = browsing._MOST_ELEMENTS + 7
    entries = [(number, "a") for number in range(length)]
    table = pa.table(
        {
            "list": pa.array([range(length), None, [1, None]], pa.list_(pa.int64())),
            "map": pa.array([entries, None, [(1, None)]], pa.map_(pa.int64(), pa.string())),
        }
    )
    first, *others = browsing._table(table)["rows"]
    assert [len(cell) for cell in first] == [browsing._MOST_ELEMENTS + 1] * 2
    assert [cell[-1] for cell in first] == ["… 7 more"] * 2
    assert (first[0][:2], first[1][:2]) == ([0, 1], [[0, "a"], [1, "a"]])
    assert others == [[None, None], [[1, None], [[1, None]]]]


def test_rows_in_pages(orders: Web) -> None:
    everything = ask(orders, "rows", uid="orders", state="total", count=500)
    assert not everything["is_more"]
    pages = [ask(orders, "rows", uid="orders", state="total", offset=offset, count=3) for offset in (0, 3, 6)]
    assert [row for page in pages for row in page["rows"]] == everything["rows"][:9]
    assert pages[0]["is_more"]
    assert ask(orders, "rows", uid="orders", state="total", offset=10_000)["rows"] == []
    assert ask(orders, "timers", uid="orders")["columns"][0]["name"] == "key"


def test_large_rows_are_fewer(orders: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "_LARGEST_PAGE", 1)
    found = ask(orders, "rows", uid="orders", state="total")
    assert (len(found["rows"]), len(found["keys"]), found["is_more"]) == (1, 1, True)


def test_shapes_and_digits(tmp_path: Path) -> None:
    kind = sp.Types.ROW_NAMED(
        ["data", "tags"], [sp.Types.BYTES(), sp.Types.MAP(sp.Types.STRING(), sp.Types.LIST(sp.Types.LONG()))]
    )
    types = pa.struct([("data", pa.binary()), ("tags", pa.map_(pa.string(), pa.list_(pa.int64())))])
    value = {"data": b"\x01\xff", "tags": [("a", [2**63 - 1, 1])]}
    rows = pa.table({"key": pa.array([2**60]), "value": pa.array([value], types)})
    writer = sp.arrow.SavepointWriter.new(max_parallelism=8, flink_version="1.20")
    writer.with_keyed_state("..", rows, states={"value": sp.ValueState(kind)}, key_type=sp.Types.LONG())
    writer.write(str(tmp_path / "s"))
    with Web(str(tmp_path / "s")) as web:
        found = ask(web, "rows", uid="..", state="value")
        of_key = ask(web, "key", uid="..", key=found["keys"][0])
    assert found["keys"] == [str(2**60)]
    assert found["rows"] == [[str(2**60), {"f0": "01ff", "f1": [["a", [str(2**63 - 1), 1]]]}]]
    shape = {"struct": [["f0", "bytes"], ["f1", {"map": ["text", {"list": "value"}]}]]}
    assert found["columns"][1]["shape"] == shape
    assert of_key["states"]["value"]["rows"] == [found["rows"][0][1:]]
    assert of_key["python"] == str(2**60)


def test_long_values_are_shortened() -> None:
    assert browsable("x" * 5000) == "x" * 4096 + "… (5,000 characters)"
    assert browsable([*range(1002)])[999:] == [999, "… 2 more"]
    assert browsable({"a": (True, None, -(2**53))}) == {"a": [True, None, str(-(2**53))]}


def test_earlier_snapshots_and_differences(tmp_path: Path) -> None:
    job = tmp_path / JOB
    first = str(take(job, 1, {"amelia": 1}))
    second = str(take(job, 2, {"amelia": 2}))
    with Web(str(job)) as web:
        found = ask(web, "snapshots")
        assert [row["path"] for row in found["snapshots"]] == [second, first]
        assert (found["path"], found["newest"]) == (second, second)
        totals = [
            ask(web, "key", uid="orders", key="amelia", **given)["states"]["total"]["rows"] for given in ({}, {"snapshot": first})
        ]
        assert totals == [[[2]], [[1]]]
        changed = ask(web, "differences", other=first, uid="orders")
        names = [column["name"] for column in changed["columns"]]
        rows = [dict(zip(names, row, strict=True)) for row in changed["rows"]]
        assert {row["state_name"]: row["updates"] for row in rows if row["updates"]} == {"total": 1, "items": 1}
        elsewhere = web.get(f"/browse/snapshots?{urlencode({'snapshot': ORDERS_PATH})}")
        assert (elsewhere.status, elsewhere.json()["error"]["type"]) == (404, "NotFoundError")
        assert web.get(f"/browse/differences?{urlencode({'other': ORDERS_PATH})}").status == 404


def test_credentials_in_the_url_of_the_directory_are_not_in_answers() -> None:
    for file in Path(ORDERS_PATH).iterdir():
        fsspec.filesystem("memory").pipe(f"/browsed/chk-1/{file.name}", file.read_bytes())
    with Web("memory://anna:hunter2@browsed") as web:
        answer = web.get("/browse/snapshots")
        assert "hunter2" not in answer.text
        assert "hunter2" not in web.get("/browse/explain").text
        (listed,) = answer.json()["snapshots"]
        assert listed["path"] == answer.json()["newest"] == "memory://***@browsed/chk-1"
        assert ask(web, "differences", other=listed["path"], snapshot=listed["path"])["old"] == listed["path"]


def test_sizes_and_sql(orders: Web) -> None:
    found = ask(orders, "sizes", uid="orders", by="key_group")
    assert found["total"] == sum(row[-1] for row in found["rows"]) > 0
    assert ask(orders, "sizes", uid="orders", by="colour")["error"]["type"] == "OptionError"
    assert ask(orders, "sql", query="SELECT 1 AS one, 'a' AS two")["rows"] == [[1, "a"]]
    assert "expected a query" in ask(orders, "sql", query=" ")["error"]["message"]


def test_a_query_takes_limited_rows_memory_and_time() -> None:
    with Web(ORDERS_PATH, Limits(seconds=600, memory=200 << 20)) as web:
        table = ask(web, "sql", query="SELECT * FROM range(9000000000)")
        assert (len(table["rows"]), table["is_more"]) == (browsing._SQL_ROWS, True)
        large = web.get(f"/browse/sql?{urlencode({'query': 'SELECT len(range(200000000))'})}")
        assert (large.status, large.json()["error"]["type"]) == (413, "MemoryLimitError")
        assert ask(web, "sql", query="SELECT 1 AS one")["rows"] == [[1]]
    with Web(ORDERS_PATH, Limits(seconds=1)) as web:
        late = web.get(f"/browse/sql?{urlencode({'query': ENDLESS})}")
    assert (late.status, late.json()["error"]["type"]) == (504, "TimeLimitError")


def test_answers_have_the_notes_of_their_rows(tmp_path: Path) -> None:
    """Notes of rows are what :attr:`Rows.notes` and differences have, as JSON."""
    with Web(WINDOWS_PATH) as web:
        (note,) = ask(web, "sql", query='SELECT count(*) AS n FROM "session-process"')["notes"]
        assert "a row for each key does not have the states of windows and other namespaces: 'window-contents'" in note
        assert ask(web, "sql", query="SELECT 1 AS one")["notes"] == []
        assert ask(web, "rows", uid="session-process", state="window-contents")["notes"] == []
    with Web(TYPES_PATH) as web:
        rows = ask(web, "rows", uid="types", state="sql-date")
        assert rows["notes"] == [*sp.arrow.read_state(TYPES_PATH, "types", "sql-date").notes] != []
        assert rows["notes"] == ask(web, "key", uid="types", key=rows["keys"][0])["states"]["sql-date"]["notes"]
    job = tmp_path / JOB
    first = take(job, 1, {"amelia": 1})
    take(job, 2, {"amelia": 2})
    mixed = take_regional(job, 2, earlier=1)
    with Web(str(job)) as web:
        (note,) = ask(web, "differences", other=str(first), uid="orders")["notes"]
        assert note.startswith(f"checkpoint 2 in {mixed} mixes several times")
        assert ask(web, "rows", uid="orders", state="total")["notes"] == [note]
        assert ask(web, "rows", uid="catalog", state="discounts")["notes"] == []
    assert sp.arrow.read_state(mixed, "orders", "total").notes == (note,)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/browse/none", {}, 404),
        ("/browse/rows/orders", {}, 404),
        ("/browse/rows?uid=orders&state=none", {}, 404),
        ("/browse/rows?uid=orders&state=total&offset=-1", {}, 400),
        ("/browse/rows?uid=orders&state=total&count=501", {}, 400),
        ("/browse/key?uid=orders&key=nobody", {}, 404),
        ("/browse/snapshots", {"Sec-Fetch-Site": "cross-site"}, 401),
        ("/browse/snapshots", {"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_requests_that_are_refused(orders: Web, path: str, headers: dict[str, str], status: int) -> None:
    assert orders.get(path, headers).status == status


def test_all_states_have_rows() -> None:
    with Web(TYPES_PATH) as web:
        for row in sp.arrow.states(TYPES_PATH).to_pylist():
            if row["backend"] != "raw":
                found = ask(web, "rows", uid=row["operator_uid"], state=row["state_name"])
                assert "rows" in found, (row["state_name"], found)
                for key in found.get("keys", [])[:1]:
                    assert "states" in ask(web, "key", uid=row["operator_uid"], key=key)
