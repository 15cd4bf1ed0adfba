"""Uids of the user as names of operators, in snapshots of Flink 1.x, which record only hashes."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import state_processor as sp
from state_processor.cli import BAD_INPUT, main
from state_processor.commands import terminal
from tests.state_processor.samples import FIXTURES, ORDERS_OF_1, ORDERS_PATH

PATH = str(ORDERS_OF_1 / "savepoint")
SINKS = str(FIXTURES / "sinks" / "1.20.5")
HASHES = {uid: sp.OperatorIdentifier.for_uid(uid).uid_hash for uid in ("orders", "catalog")}


@pytest.fixture
def uids(tmp_path: Path) -> Path:
    path = tmp_path / "uids.txt"
    path.write_bytes("\ufefforders\r\n\ncatalog\norders\nпокупки \n".encode())
    return path


def names(path: str, given: str | Path | Sequence[str]) -> dict[str, str]:
    return {r["operator_uid_hash"]: r["operator_uid"] for r in sp.arrow.operators(path, uids=given).to_pylist()}


def test_operators_have_the_uids_with_their_hashes(uids: Path, caplog: pytest.LogCaptureFixture) -> None:
    expected = dict.fromkeys(names(PATH, ["orders"])) | {HASHES[uid]: uid for uid in HASHES}
    assert sum(name is None for name in expected.values()) == 3
    for given in (uids, str(uids), ["orders", "catalog", "покупки "]):
        caplog.clear()
        assert names(PATH, given) == expected
        assert [r.getMessage() for r in caplog.records] == [f"uids: no operator of {PATH} has the uid 'покупки '"]
    states = sp.arrow.states(PATH, uids=uids).to_pylist()
    assert {r["operator_uid"] for r in states} == {"orders", "catalog"}
    assert set(sp.arrow.size_report(PATH, uids=uids).column("operator_uid").to_pylist()) == {"orders"}
    with pytest.raises(sp.NotFoundError, match="'orders'"):
        next(sp.arrow.read_state(PATH, "order", "total", uids=uids))


def test_a_reader_and_the_data_source(spark: SparkSession, uids: Path) -> None:
    reader = sp.SavepointReader.read(spark, PATH, uids=["orders"])
    assert {r.operator_uid for r in reader.operators().collect()} == {"orders", None}
    source = spark.read.format("flink-savepoint-metadata").option("table", "states")
    for text in (str(uids), '["orders", "catalog"]'):
        assert {r.operator_uid for r in source.option("uids", text).load(PATH).collect()} == {"orders", "catalog"}


def test_a_migration_to_flink_2_records_them(spark: SparkSession, tmp_path: Path) -> None:
    writer = sp.SavepointWriter.from_existing(spark, PATH, uids=["orders", "catalog"])
    writer.migrate("2.3")
    writer.write(tmp_path / "savepoint")
    found = {r["operator_uid"]: r["operator_uid_hash"] for r in sp.arrow.operators(tmp_path / "savepoint").to_pylist()}
    assert {uid: h for uid, h in found.items() if uid} == HASHES


def test_committers_of_a_sink_are_named_by_its_uid(caplog: pytest.LogCaptureFixture) -> None:
    bare = {r["operator_uid_hash"] for r in sp.arrow.operators(SINKS).to_pylist()}
    expected = {uid: sp.OperatorIdentifier.for_uid(uid).uid_hash for uid in ("rolling", "Sink Committer: rolling")}
    assert set(expected.values()) <= bare
    assert {uid: h for h, uid in names(SINKS, ["rolling"]).items() if uid} == expected
    assert caplog.records == []


def test_recorded_uids_stay(caplog: pytest.LogCaptureFixture) -> None:
    recorded = {r["operator_uid_hash"]: r["operator_uid"] for r in sp.arrow.operators(ORDERS_PATH).to_pylist()}
    with caplog.at_level(logging.WARNING):
        assert names(ORDERS_PATH, ["orders", *(f"u{i:02}" for i in range(1200))]) == recorded
    (message,) = (r.getMessage() for r in caplog.records)
    assert message.endswith(" has 1,200 of the uids: 'u00', 'u01', 'u02', 'u03', 'u04' and 1,195 more")


def test_uids_that_name_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(sp.OptionError, match=r"uids: expected uids of operators of .*, found 'order'\n.*'bc4197a480c"):
        names(PATH, ["order"])
    with pytest.raises(TypeError, match=r"list_snapshots\(\) got an unexpected keyword argument 'uids'; there are allow_paths"):
        sp.list_snapshots(ORDERS_OF_1, uids=["orders"])  # type: ignore[call-arg]
    with pytest.raises(sp.MissingFileError, match=r"of uids: /nowhere/uids.txt does not exist|uids: /nowhere"):
        names(PATH, "/nowhere/uids.txt")
    for content, message in ((b"\n\r\n", "found no uid"), (b"orders\n\xff", "UTF-8, found other bytes at 7")):
        (tmp_path / "uids").write_bytes(content)
        with pytest.raises(sp.OptionError, match=message):
            names(PATH, tmp_path / "uids")


def test_commands(uids: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal._LOG, "propagate", False)
    unmatched = f"state-processor: --uids: no operator of {PATH} has the uid 'покупки '\n"
    assert main(["inspect", PATH, "--uids", str(uids), "--json"]) == 0
    out, err = capsys.readouterr()
    assert {json.loads(line)["operator_uid"] for line in out.splitlines()} == {"orders", "catalog", None}
    assert err == unmatched
    assert main(["states", PATH, "--uids", str(uids)]) == 0
    out, err = capsys.readouterr()
    assert [line for line in out.splitlines() if line.startswith("operator ")] == ["operator orders", "operator catalog"]
    assert err == unmatched
    assert main(["report", PATH, "--uids", str(uids), "-o", str(tmp_path / "report.html")]) == 0
    assert "<h3>orders</h3>" in (tmp_path / "report.html").read_text("utf-8")
    capsys.readouterr()
    assert main(["inspect", PATH, "--uids", "/nowhere/uids"]) == BAD_INPUT
    assert "--uids: /nowhere/uids does not exist" in capsys.readouterr().err
