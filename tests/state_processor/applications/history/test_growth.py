"""The trend of sizes, and growth over snapshots of a directory."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import state_processor as sp
from state_processor import cli
from state_processor.applications.history.growth import GROWS, SHRINKS, SLOWS, STEADY, VARIES, trend
from state_processor.applications.report.contents import contents
from state_processor.applications.report.page import findings, page
from state_processor.cli import BAD_INPUT
from state_processor.options.access import SnapshotAccess
from tests.corpus import FIXTURES
from tests.state_processor.samples import ORDERS_PATH

NATIVE = FIXTURES / "2.3.0" / "orders-rocksdb-native" / "savepoint"
JOB = "a" * 32


@pytest.mark.parametrize(
    ("expected", "sizes"),
    [
        (GROWS, [100, 120, 140, 160, 180]),
        (GROWS, [100, 100, 100, 150, 200]),
        (GROWS, [100, 150, 140, 200, 190]),  # a compaction
        (SLOWS, [100, 160, 190, 195, 200]),
        (STEADY, [100, 105, 100, 104, 108]),
        (VARIES, [100, 200, 100, 200, 300]),
        (SHRINKS, [200, 180, 150, 120, 100]),
    ],
)
def test_trend(expected: str, sizes: list[int]) -> None:
    assert trend(np.arange(len(sizes), dtype=float), np.array(sizes, dtype=float)) == expected


def test_trend_is_over_time_and_not_over_snapshots() -> None:
    sizes = np.array([100.0, 120, 140, 160, 180])
    assert trend(np.array([0.0, 1, 2, 3, 100]), sizes) == SLOWS
    assert trend(np.array([0.0, 97, 98, 99, 100]), sizes) == GROWS


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five checkpoints: `total` grows, and `session`, which has time-to-live, too."""
    directory = tmp_path_factory.mktemp("checkpoints") / JOB
    directory.mkdir()
    for number in range(5):
        writer = sp.arrow.SavepointWriter.from_existing(NATIVE)
        keys = [f"{number}-{i:04}" for i in range(400 * number + 1)]
        writer.update_keyed_state("orders", "total", [{"key": key, "value": i} for i, key in enumerate(keys)])
        one = [{"key": f"hot {i}", "value": [f"{number}-{i}" * 5] * (400 * number + 1)} for i in range(1)]
        writer.update_keyed_state("orders", "history", [{"key": r["key"], "value": r["value"]} for r in one])
        target = directory / f"chk-{number + 1}"
        writer.write(target, format="native", backend="rocksdb")
        os.utime(target / "_metadata", (3600 * (number + 1), 3600 * (number + 1)))
    return directory


def test_growth(checkpoints: Path) -> None:
    rows = {r["state_name"]: r for r in sp.growth(checkpoints.parent).to_pylist() if r["operator_uid"] == "orders"}
    total = rows["total"]
    assert total["grows_without_bound"]
    assert (total["trend"], total["snapshots"], total["has_ttl"]) == ("grows", 5, False)
    assert total["bytes_per_hour"] == pytest.approx((total["last_size"] - total["first_size"]) / 4)
    assert total["entries_per_hour"] == pytest.approx(400, abs=2)
    assert total["grown_key_groups"] > 100
    assert total["key_groups"] == 128
    assert "5 snapshots over 4 h" in total["evidence"]
    assert f"without time-to-live, larger in {total['grown_key_groups']} of 128 key groups" in total["evidence"]
    assert rows["history"]["grows_without_bound"]
    assert rows["history"]["grown_key_groups"] < rows["history"]["key_groups"]
    assert (rows["items"]["trend"], rows["items"]["grows_without_bound"]) == ("steady", False)
    assert next(iter(sp.growth(checkpoints).to_pylist()))["grows_without_bound"]  # first
    assert {r["trend"] for r in sp.growth(checkpoints, at_least=6).to_pylist()} == {"unknown"}
    with pytest.raises(sp.OptionError, match="at_least=2: expected at least 3"):
        sp.growth(checkpoints, at_least=2)


def test_command(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", str(checkpoints), "--growth", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {r["state_name"] for r in rows if r["grows_without_bound"]} == {"total", "history"}
    assert cli.main(["history", str(checkpoints), "--growth", "--vertical"]) == 0
    assert "grows, no bound" in capsys.readouterr().out
    assert cli.main(["history", str(checkpoints), "--by", "key-group", "--json"]) == 0
    assert '"key_group": 127' in capsys.readouterr().out
    assert cli.main(["history", str(checkpoints), "--at-least", "3"]) == BAD_INPUT
    assert "--at-least is for --growth" in capsys.readouterr().err
    assert cli.main(["history", ORDERS_PATH, "--growth"]) == 0
    assert capsys.readouterr().out == "1 snapshot of a known time: a trend needs 5 (--at-least)\n"
    assert cli.main(["history", str(checkpoints), "--growth", "--by", "key-group"]) == BAD_INPUT


@pytest.mark.parametrize("by", ["key-group", "key_group"])
@pytest.mark.parametrize("command", ["history", "sizes"])
def test_both_spellings_of_a_value(command: str, by: str, checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = checkpoints if command == "history" else sp.list_snapshots(checkpoints)[-1].path
    assert cli.main([command, str(path), "--by", by, "--json"]) == 0
    assert '"key_group": ' in capsys.readouterr().out


def test_report(checkpoints: Path, tmp_path: Path) -> None:
    found = contents(checkpoints / "chk-4", SnapshotAccess())
    assert found.over_time is not None
    assert [p.checkpoint_id for p in found.over_time.sizes["orders"]]
    assert len(found.over_time.sizes["orders"]) == 5
    sentences = [s for s in findings(found) if "without a visible bound" in s]
    assert [s.partition(" grows")[0] for s in sentences] == ["orders: state total", "orders: state history"]
    html = page(found)
    assert html.count('class="dot"') == 5 * len(found.over_time.sizes)
    assert contents(checkpoints / "chk-4", SnapshotAccess(), values=False).over_time is None
    quick = contents(NATIVE, SnapshotAccess(), values=False, history=checkpoints)
    assert quick.over_time is not None
    shutil.copytree(checkpoints / "chk-4", tmp_path / "chk-4")
    alone = contents(tmp_path / "chk-4", SnapshotAccess(), keys=0)
    assert alone.over_time is not None
    assert "Over time" not in page(alone)


def test_plot(checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = sp.plot_history(checkpoints)
    assert {"orders (tables)", "catalog (operator state)"} <= {line.get_label() for line in axes.lines}
    sizes = [r["size_in_bytes"] for r in sp.history(checkpoints).to_pylist() if r["state_name"] == "total"]
    lines = {line.get_label(): line.get_ydata().tolist() for line in sp.plot_history(checkpoints, "orders").lines}
    assert lines["total (tables)"] == sizes
    with pytest.raises(sp.NotFoundError, match="orders"):
        sp.plot_history(checkpoints, "order")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(sp.OptionError, match=r"pip install 'state-processor\[plots\]'"):
        sp.plot_history(checkpoints)
