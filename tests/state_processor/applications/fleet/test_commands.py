"""The command, the page and the metrics of a fleet."""

from __future__ import annotations

import json
import re
import socket
import threading
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from state_processor.applications.fleet.commands import MetricsServer, age_text, metrics
from state_processor.applications.fleet.measures import KINDS
from state_processor.applications.fleet.table import FLEET_SCHEMA
from state_processor.cli import main
from state_processor.support.errors import MissingFileError, OptionError
from tests.state_processor.applications.fleet.jobs import ORDERS, checkpoint
from tests.waiting import SECONDS, join


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    checkpoint(tmp_path / "jobs" / ORDERS, 1, timedelta(days=1, hours=3), 10, "<script>alert(1)</script>")
    return tmp_path / "jobs"


def test_text_json_and_parquet(jobs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", str(jobs)]) == 0
    text = capsys.readouterr().out
    assert ORDERS in text
    assert "1d 3h" in text
    assert main(["fleet", str(jobs), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checkpoint_id"] == 1
    assert main(["fleet", str(jobs), "-o", str(tmp_path / "fleet.parquet")]) == 0
    assert pq.read_table(tmp_path / "fleet.parquet").schema.names == FLEET_SCHEMA.names
    assert main(["fleet", str(jobs), "--openmetrics", str(tmp_path / "metrics")]) == 0
    assert main(["fleet", str(jobs), "--openmetrics", str(tmp_path / "metrics")]) == 0
    assert (tmp_path / "metrics").read_text().endswith("# EOF\n")
    assert main(["fleet", str(jobs), str(tmp_path / "none")]) == 1
    assert main(["fleet", str(tmp_path / "metrics")]) == 1


def test_the_page_runs_only_its_own_script(jobs: Path, tmp_path: Path) -> None:
    assert main(["fleet", str(jobs), "-o", str(tmp_path / "fleet.html")]) == 0
    page = (tmp_path / "fleet.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    before, _, rest = page.partition("<script>")
    script, _, after = rest.partition("</script>")
    assert "<script" not in after
    assert f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" in before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "fleet.csv"], "ends with .parquet or .html"),
        (["--interval", "5"], "--interval is for --openmetrics :PORT"),
        (["--openmetrics", ":0", "--json"], "leave out -o and --json"),
    ],
)
def test_options_that_do_not_act(jobs: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", str(jobs), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_ages() -> None:
    assert [age_text(seconds) for seconds in (None, -1, 59, 61, 7300, 90_000)] == ["", "0s", "59s", "1min 1s", "2h 1min", "1d 1h"]


DOCS = Path(__file__).parents[4] / "docs" / "how-to"
NOTHING: dict[str, Any] = dict.fromkeys(FLEET_SCHEMA.names)
ROW = NOTHING | {
    "directory": 's3://b/"a"\\\n',
    "job_id": "0a",
    "time": datetime.fromtimestamp(1_700_000_000, UTC),
    "size_in_bytes": 12,
    "findings": [{"kind": "kryo", "text": "Kryo"}],
}


def test_the_text() -> None:
    lines = metrics([ROW, NOTHING | {"directory": "/gone", "error": "gone"}]).splitlines()
    labels = '{directory="s3://b/\\"a\\"\\\\\\n",job_id="0a"'
    assert f"flink_snapshot_timestamp_seconds{labels}}} 1700000000.0" in lines
    assert f"flink_snapshot_size_bytes{labels}}} 12" in lines
    assert f'flink_snapshot_finding{labels},kind="kryo"}} 1' in lines
    assert f'flink_snapshot_finding{labels},kind="transactions"}} 0' in lines
    assert 'flink_snapshot_error{directory="/gone",job_id=""} 1' in lines
    assert not [line for line in lines if line.startswith("flink_orphan_files")]
    assert lines[-1] == "# EOF"


def test_the_dashboard_and_the_rules_have_the_metrics() -> None:
    row = ROW | {"bytes_per_day": 1.0, "snapshots": 1, "incomplete": 0, "orphans": 0}
    samples = re.findall(r"^(\w+)\{(.*)\} ", metrics([row]), re.MULTILINE)
    names = {name: set(re.findall(r'(\w+)="', labels)) for name, labels in samples}
    page = (DOCS / "watch-a-fleet.md").read_text("utf-8")
    dashboard = json.loads((DOCS / "fleet-dashboard.json").read_text("utf-8"))
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    for target in targets:
        (name,) = re.findall(r"flink_\w+", target["expr"])
        used = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
        assert used, target
        assert {*used, *re.findall(r"by \((\w+)\)", target["expr"])} <= names[name]
    assert set(re.findall(r"flink_\w+", page)) == set(names)
    table = page.partition("## Findings")[2].partition("## Alerts")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == [*KINDS]


def test_a_scraper_that_is_gone_is_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    gone = threading.Event()

    def measure() -> list[dict[str, Any]]:
        assert gone.wait(SECONDS)
        return [ROW | {"directory": "x" * 10_000_000}]

    server = MetricsServer(("127.0.0.1", 0), measure, 3600.0)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    gone.set()
    assert _get(server.port, "/metrics")[0] == 200
    server.close()
    join(thread)
    assert "Traceback" not in capfd.readouterr().err


def test_the_server_measures_again_after_the_interval() -> None:
    calls: list[int] = []

    def measure() -> list[dict[str, Any]]:
        calls.append(1)
        if len(calls) == 3:
            raise MissingFileError("the storage is gone")
        return [ROW]

    for seconds, expected in ((3600.0, [200, 200, 404]), (-1.0, [200, 503, 404])):
        server = MetricsServer(("127.0.0.1", 0), measure, seconds)
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        found = [_get(server.port, path) for path in ("/metrics", "/metrics", "/")]
        assert [status for status, _, _ in found] == expected
        assert found[0][1].startswith("application/openmetrics-text")
        assert found[0][2].endswith("# EOF\n")
        with pytest.raises(OptionError, match="--openmetrics 127"):
            MetricsServer(("127.0.0.1", server.port), measure, seconds)
        server.close()
        join(thread)
    assert len(calls) == 3


def _get(port: int, path: str) -> tuple[int, str, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", path)
    answer = connection.getresponse()
    content = answer.status, answer.headers["Content-Type"], answer.read().decode()
    connection.close()
    return content
