"""The page and the command of a fleet."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from state_processor.applications.fleet.commands import age_text
from state_processor.applications.fleet.table import FLEET_SCHEMA
from state_processor.cli import main
from tests.state_processor.applications.fleet.jobs import ORDERS, checkpoint


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
