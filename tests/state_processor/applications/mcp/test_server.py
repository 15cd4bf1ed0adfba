"""The tools of the Model Context Protocol, called by the client of the SDK. Answers come from the output of the tools alone."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import fsspec
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import state_processor as sp
from state_processor.applications.mcp import server
from state_processor.applications.serving.following import Followed
from state_processor.applications.serving.limits import Limits
from state_processor.read.sizes import SizesBy
from tests.state_processor.samples import ORDERS_PATH
from tests.state_processor.written_checkpoints import take


class Assistant:
    """A program that starts the server and calls its tools."""

    def __init__(self, path: str | Path, *arguments: str) -> None:
        command = ["-m", "state_processor.cli", "mcp", str(path), *arguments]
        self._server = StdioServerParameters(command=sys.executable, args=command)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._is_over = asyncio.Event()
        self._session: asyncio.Future[Client] = self._loop.create_future()
        self._task = asyncio.run_coroutine_threadsafe(self._converse(), self._loop)
        asyncio.run_coroutine_threadsafe(self._wait(), self._loop).result()

    async def _converse(self) -> None:
        try:
            async with Client(stdio_client(self._server)) as client:
                self._session.set_result(client)
                await self._is_over.wait()
        except Exception as problem:
            if not self._session.done():
                self._session.set_exception(problem)
            raise

    async def _wait(self) -> Client:
        return await self._session

    def call(self, tool: str, **arguments: Any) -> Any:
        """Return the answer of a tool: its text as JSON. The text of an error is an :class:`AssertionError`."""
        client = self._session.result()
        result = asyncio.run_coroutine_threadsafe(client.call_tool(tool, arguments), self._loop).result()
        (content,) = result.content
        assert not result.is_error, content.text
        assert json.loads(content.text) == result.structured_content
        return result.structured_content

    def refusal(self, tool: str, **arguments: Any) -> str:
        with pytest.raises(AssertionError) as raised:
            self.call(tool, **arguments)
        return str(raised.value)

    def tools(self) -> list[Any]:
        return asyncio.run_coroutine_threadsafe(self._session.result().list_tools(), self._loop).result().tools

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._task.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a savepoint of the shop, and a checkpoint in which Amelia has another total and Elif has none."""
    job = tmp_path_factory.mktemp("checkpoints")
    take(job, 2, {"amelia": 3950})
    take(job, 3, {"amelia": 4000, "elif": None})
    return job


@pytest.fixture(scope="module")
def assistant(job: Path) -> Iterator[Assistant]:
    assistant = Assistant(job)
    yield assistant
    assistant.close()


def rows(answer: Any) -> list[dict[str, Any]]:
    names = [column["name"] for column in answer["columns"]]
    return [dict(zip(names, row, strict=True)) for row in answer["rows"]]


def query(assistant: Assistant, sql: str, **more: Any) -> list[dict[str, Any]]:
    return rows(assistant.call("sql", query=sql, **more))


def test_all_tools_say_that_they_only_read(assistant: Assistant) -> None:
    tools = assistant.tools()
    names = "snapshots operators states sample timers lookup sizes sql differences check explain"
    assert [tool.name for tool in tools] == names.split()
    assert all(tool.annotations.read_only_hint and not tool.annotations.open_world_hint for tool in tools)
    assert all(tool.description for tool in tools)
    parameters = [parameter for tool in tools for parameter in tool.input_schema["properties"].values()]
    assert all(parameter.get("description") for parameter in parameters)


def test_questions_about_a_job(assistant: Assistant, job: Path) -> None:
    # which snapshots are there, and which is the newest?
    listed = assistant.call("snapshots")
    assert [Path(row["path"]).name for row in listed["snapshots"]] == ["chk-3", "chk-2"]
    assert Path(listed["newest"]).name == "chk-3"
    newest, older = (row["path"] for row in listed["snapshots"])
    # which operators does the job have, and which one is the largest?
    operators = assistant.call("operators")["operators"]
    assert {row["operator_uid"] for row in operators} == {"orders", "catalog", "steps", "only-orders", "only-catalog"}
    assert max(operators, key=lambda row: row["operator_total_size_in_bytes"])["operator_uid"] == "orders"
    # what is the max parallelism of the operator?
    assert {row["operator_max_parallelism"] for row in operators if row["operator_uid"] == "orders"} == {128}
    # which states does it have, of which type is the total, and which state expires?
    states = {row["state_name"]: row for row in assistant.call("states", uid="orders")["states"]}
    assert {"total", "profile", "history", "items", "session"} <= states.keys()
    assert (states["total"]["key_type"], states["total"]["value_type"]) == ("STRING", "LONG")
    assert [name for name, state in states.items() if state["ttl"]] == ["session"]
    # what do rows look like?
    sample = assistant.call("sample", uid="orders", state="items", count=3)
    assert (len(sample["rows"]), sample["is_more"]) == (3, True)
    # what is the total of one customer now, and what was it before?
    amelia = assistant.call("lookup", uid="orders", key="amelia")
    assert rows(amelia["states"]["total"]) == [{"value": 4000}]
    assert rows(assistant.call("lookup", uid="orders", key="amelia", snapshot=older)["states"]["total"]) == [{"value": 3950}]
    # in which city does she live?
    assert rows(amelia["states"]["profile"])[0]["value"]["address"]["city"] == "Lisbon"
    # how many customers have a total?
    assert query(assistant, 'SELECT count(total) AS n FROM "orders"') == [{"n": 49}]
    # who has the highest total?
    assert query(assistant, 'SELECT key, total FROM "orders" ORDER BY total DESC NULLS LAST LIMIT 1') == [
        {"key": "viktor", "total": 19810}
    ]
    # how many are in each tier?
    tiers = query(assistant, 'SELECT profile.tier AS tier, count(*) AS n FROM "orders" WHERE profile IS NOT NULL GROUP BY 1')
    profiles = sp.arrow.read_state(newest, "orders", "profile").read_all().column("value").to_pylist()
    assert {row["tier"]: row["n"] for row in tiers} == Counter(profile["tier"] for profile in profiles)
    # which timer fires first?
    timers = rows(assistant.call("timers", uid="orders", count=200))
    assert min(row["fires_at"] for row in timers) == "2024-01-01T06:00:00Z"
    # what takes the most room, by state and by key?
    by_state = rows(assistant.call("sizes", uid="orders"))
    assert by_state[0]["state_name"] == "profile"
    by_key = rows(assistant.call("sizes", uid="orders", by="key"))
    assert by_key[0]["size_in_bytes"] >= by_key[-1]["size_in_bytes"]
    # what changed between the two checkpoints?
    changes = {row["state_name"]: row for row in rows(assistant.call("differences", other=older, uid="orders"))}
    assert (changes["total"]["updates"], changes["total"]["deletes"]) == (1, 1)
    # does the same job restore it, and does a job without the operator?
    signature = str(sp.signature(newest))
    assert assistant.call("check", job=signature, flink="2.3")["restores"] is True
    smaller = json.loads(signature)
    smaller["operators"] = [row for row in smaller["operators"] if row.get("uid") != "orders"]
    assert assistant.call("check", job=json.dumps(smaller), flink="2.3")["answer"] == "no"
    assert assistant.call("check", job=older, flink="2.3")["restores"] is True
    # why did the restore fail, and what repairs it?
    trace = (
        "java.lang.IllegalStateException: Failed to rollback to checkpoint/savepoint file:/x. Cannot map checkpoint/savepoint "
        "state for operator bc4197a480c92c793190a9f8c0afc54c to the new program, because the operator is not available in the "
        "new program."
    )
    explanation = assistant.call("explain", error=trace, job=json.dumps(smaller))
    assert explanation["causes"][0]["operator"] == "orders"
    assert explanation["causes"][0]["repairs"]


def test_wrong_calls_say_what_is_right(assistant: Assistant) -> None:
    assert "Did you mean 'orders'" in assistant.refusal("states", uid="order")
    assert "Did you mean 'total'" in assistant.refusal("sample", uid="orders", state="totals")
    assert "does not have the key nobody" in assistant.refusal("lookup", uid="orders", key="nobody")
    assert "Field required" in assistant.refusal("sample", uid="orders")
    assert "SELECT" in assistant.refusal("sql", query="")
    assert "expected" in assistant.refusal("check", job="")
    assert "OptionError: job: expected an object" in assistant.refusal("check", job="/etc/hostname")
    assert "nested too deeply" in assistant.refusal("check", job="[" * 10_000)
    assert "nested too deeply" in assistant.refusal("explain", error="x", job='{"operators": ' + "[" * 100_000)


def test_types_that_only_queries_have(assistant: Assistant) -> None:
    answer = assistant.call("sql", query="SELECT INTERVAL 1 DAY AS day, 9007199254740993 AS number, 'NaN'::DOUBLE AS none")
    assert [column["type"] for column in answer["columns"]] == ["month_day_nano_interval", "bigint", "double"]
    assert answer["rows"] == [[[0, 1, 0], "9007199254740993", "NaN"]]


def test_nothing_outside_of_the_directory_is_read(assistant: Assistant, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("name\nhunter2\n")
    outside = tmp_path / "savepoint"
    shutil.copytree(ORDERS_PATH, outside)
    assert "does not have the snapshot" in assistant.refusal("operators", snapshot=str(outside))
    assert "does not have the snapshot" in assistant.refusal("differences", other=str(outside))
    for sql in (f"SELECT * FROM read_csv('{secret}')", f"SELECT * FROM '{secret}'", f"COPY (SELECT 1) TO '{tmp_path}/x'"):
        assert "hunter2" not in assistant.refusal("sql", query=sql)
    assert not (tmp_path / "x").exists()
    for text in (str(secret), f"file:{secret}"):  # descriptions and traces are texts, never paths
        assert "hunter2" not in assistant.refusal("check", job=text)
        assert assistant.call("explain", error=text)["unexplained"] == [text]
    assert "hunter2" not in assistant.refusal("check", job=f"!!python/object/apply:os.system ['cat {secret}']")


def test_lists_have_at_most_so_many_rows(job: Path) -> None:
    assistant = Assistant(job, "--max-rows", "2")
    try:
        operators = assistant.call("operators")
        assert (len(operators["operators"]), operators["operators_left_out"]) == (2, 3)
        found = assistant.call("sql", query='SELECT key FROM "orders"')
        assert (len(found["rows"]), found["rows_left_out"]) == (2, 47)
        sample = assistant.call("sample", uid="orders", state="total", count=100)
        assert (len(sample["rows"]), sample["is_more"]) == (2, True)
    finally:
        assistant.close()


def test_a_call_that_takes_too_long_ends(job: Path) -> None:
    assistant = Assistant(job, "--time-limit", "2")
    try:
        slow = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b"
        assert "LimitError" in assistant.refusal("sql", query=slow)
        assert assistant.call("operators")["checkpoint_id"] == 3
    finally:
        assistant.close()


def test_the_newest_checkpoint_is_followed(tmp_path: Path) -> None:
    take(tmp_path, 2, {"amelia": 1})
    followed = Followed(tmp_path, {})
    tools = server.Tools(followed, Limits(seconds=600))

    async def total() -> Any:
        answer = await tools.lookup("orders", "amelia")
        return answer["checkpoint_id"], answer["states"]["total"]["rows"]

    assert asyncio.run(total()) == (2, [[1]])
    shutil.rmtree(take(tmp_path, 3, {"amelia": 2}).parent / "chk-2")
    followed.refresh()
    assert asyncio.run(server.Tools(followed, Limits(seconds=600)).lookup("orders", "amelia"))["states"]["total"]["rows"] == [[2]]


@pytest.mark.parametrize("by", get_args(SizesBy))
def test_sizes_by_each_unit(by: str, assistant: Assistant) -> None:
    answer = assistant.call("sizes", uid="orders", by=by)
    assert answer["total"] == sum(row["size_in_bytes"] for row in rows(answer)) > 0


def test_a_check_of_a_snapshot_that_is_replaced_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take(tmp_path, 2, {"amelia": 1})
    followed = Followed(tmp_path, {})
    check, signature = sp.check_job, str(sp.signature(tmp_path / "chk-2"))

    def replaced(path: str, *rest: Any, **more: Any) -> Any:
        if not (tmp_path / "chk-3").exists():
            shutil.rmtree(tmp_path / "chk-2")
            take(tmp_path, 3, {"amelia": 2}, start=ORDERS_PATH)
            take(tmp_path, 2, {"amelia": 7}, start=ORDERS_PATH)
        return check(path, *rest, **more)

    monkeypatch.setattr(sp, "check_job", replaced)
    answer = asyncio.run(server.Tools(followed, Limits()).check(signature, flink="2.3"))
    assert answer["checkpoint_id"] == 3


@pytest.mark.parametrize("number", [2, 3])
def test_differences_of_a_snapshot_that_is_replaced_meanwhile(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for checkpoint, total in ((2, 1), (3, 2)):
        take(tmp_path, checkpoint, {"amelia": total}, start=ORDERS_PATH)
    followed = Followed(tmp_path, {})
    older = next(info.path for info in followed.listed if info.checkpoint_id == 2)
    compare = sp.arrow.diff_summary

    def replaced(*paths: Any, **more: Any) -> Any:
        shutil.rmtree(tmp_path / f"chk-{number}")
        take(tmp_path, number, {"amelia": 7}, start=ORDERS_PATH)
        return compare(*paths, **more)

    monkeypatch.setattr(sp.arrow, "diff_summary", replaced)
    newest = next(info.path for info in followed.listed if info.checkpoint_id == 3)
    with pytest.raises(server.ToolError, match=f"chk-{number} was replaced or removed while it was read"):
        asyncio.run(server.Tools(followed, Limits(seconds=600)).differences(older, snapshot=newest))


def test_credentials_in_the_url_of_the_directory_are_not_in_answers() -> None:
    files = fsspec.filesystem("memory")
    for number in (1, 2):
        for file in Path(ORDERS_PATH).iterdir():
            files.pipe(f"/bucket/job/chk-{number}/{file.name}", file.read_bytes())
    tools = server.Tools(Followed("memory://anna:hunter2@bucket/job", {}), Limits(seconds=600))
    signature = str(sp.signature(ORDERS_PATH))
    listed = asyncio.run(tools.snapshots())
    shown = [row["path"] for row in listed["snapshots"]]
    assert sorted(shown) == [f"memory://***@bucket/job/chk-{number}" for number in (1, 2)]
    answers = [
        listed,
        asyncio.run(tools.operators(snapshot=shown[1])),  # paths of answers are paths of calls
        asyncio.run(tools.differences(shown[1])),
        asyncio.run(tools.check(shown[1], flink="2.3")),
        asyncio.run(tools.check(signature, flink="2.3")),
        asyncio.run(tools.explain(error="trace", job=signature)),
        asyncio.run(tools.lookup("orders", "amelia")),
    ]
    assert [answer["snapshot"] for answer in answers[1:]] == [shown[1], *[shown[0]] * 5]
    assert "hunter2" not in json.dumps(answers)
    with pytest.raises(server.ToolError) as raised:
        asyncio.run(tools.operators(snapshot="elsewhere"))
    assert "hunter2" not in str(raised.value)


def test_a_fault_of_the_server_is_not_shown(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(server.browsing, "operators", fail)
    with pytest.raises(server.ToolError) as raised:
        asyncio.run(server.Tools(Followed(ORDERS_PATH, {}), Limits(seconds=600)).operators())
    assert str(raised.value) == "InternalError: the server failed; its log has the reason"
    assert "hunter2" in caplog.text
