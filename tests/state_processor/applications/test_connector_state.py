"""Commands about connectors: files of a real savepoint, transactions of elements that Kafka's serializers have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor.cli import BAD_INPUT, main
from state_processor.options.access import SnapshotAccess
from state_processor.write.build import SavepointBuild
from state_processor.write.operator_state_changes import add_list_state
from state_processor.write.rows.arrow_rows import ArrowRows
from state_processor.write.tasks.local_engine import LocalEngine
from tests.backends.connectors.test_sink_state import COMMITTABLES, KAFKA, kafka_writer
from tests.corpus import FIXTURES

FILES = str(FIXTURES / "sinks" / "2.3.0")
WRITERS = [KAFKA[0], kafka_writer("orders", 1, 2, 1, {"orders-1-8": 8, "orders-1-9": 9})]
Row = dict[str, Any]


@pytest.fixture
def kafka(tmp_path: Path) -> str:
    """A savepoint with a sink of Kafka: two writers, and three transactions to commit."""
    plan = SavepointBuild.new(128, "2.3", SnapshotAccess())
    for uid, name, elements in (
        ("events", "writer_raw_states", WRITERS),
        ("Sink Committer: events", "streaming_committer_raw_states", COMMITTABLES),
    ):
        rows = ArrowRows(pa.table({"value": [element.to_bytes() for element in elements]}))
        with plan.change(uid) as draft:
            add_list_state(draft, name, rows, sp.Types.PRIMITIVE_ARRAY(sp.Types.BYTE()), "OPERATOR_LIST")
            draft.set_parallelism(2)
    plan.write_to(tmp_path / "kafka", LocalEngine())
    return str(tmp_path / "kafka")


def shown(capsys: pytest.CaptureFixture[str], path: str, uid: str) -> list[Row]:
    assert main(["sink-state", path, "--uid", uid, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def committed(rows: list[Row]) -> list[object]:
    return sorted(str(row["transactional_id"]) for row in rows if row["role"] == "COMMITTABLE")


def test_show(capsys: pytest.CaptureFixture[str], kafka: str) -> None:
    rows = shown(capsys, kafka, "events")
    assert committed(rows) == ["orders-0-7", "orders-0-8", "orders-1-8"]
    assert main(["sink-state", kafka, "--uid", "events"]) == 0
    table = capsys.readouterr().out
    assert "orders-0-7" in table
    assert "raw" not in table
    assert main(["sink-state", FILES, "--uid", "rolling"]) == 0
    text = capsys.readouterr().out
    pending = [row for row in shown(capsys, FILES, "rolling") if row["file_status"] == "PENDING"]
    assert len(pending) == 4
    for row in pending:  # whole, for --drop-file
        assert str(row["path"]) in text
        assert str(row["temporary_path"]) in text


def test_a_lingering_transaction_and_another_prefix(capsys: pytest.CaptureFixture[str], kafka: str, tmp_path: Path) -> None:
    target = str(tmp_path / "new")
    command = ["change-sink", kafka, target, "--uid", "events", "--drop-transaction", "orders-0-7", "--prefix", "bills"]
    assert main(command) == 0
    assert "events" in capsys.readouterr().out
    before, after = shown(capsys, kafka, "events"), shown(capsys, target, "events")
    assert committed(after) == ["orders-0-8", "orders-1-8"]
    writers = [row for row in after if row["role"] == "WRITER"]
    assert {row["transactional_id_prefix"] for row in writers} == {"bills"}
    assert "orders-0-7" in json.dumps([row["transactions"] for row in before])
    assert "orders-0-7" not in json.dumps([row["transactions"] for row in after])
    assert len(writers) == sum(row["role"] == "WRITER" for row in before)


def test_a_transaction_that_only_a_writer_knows(capsys: pytest.CaptureFixture[str], kafka: str, tmp_path: Path) -> None:
    target = str(tmp_path / "new")
    assert main(["change-sink", kafka, target, "--uid", "events", "--drop-transaction", "orders-1-9"]) == 0
    capsys.readouterr()
    before, after = shown(capsys, kafka, "events"), shown(capsys, target, "events")
    assert committed(after) == committed(before)
    assert [[t["checkpoint_id"] for t in rows[1]["transactions"]] for rows in (before, after)] == [[8, 9], [8]]


def test_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rolling, opened = shown(capsys, FILES, "rolling"), shown(capsys, FILES, "open")
    dropped = next(str(row["path"]) for row in rolling if row["file_status"] == "PENDING")
    in_progress = next(str(row["temporary_path"]) for row in opened if row["file_status"] == "IN_PROGRESS")
    first, second = str(tmp_path / "1"), str(tmp_path / "2")
    assert main(["change-sink", FILES, first, "--uid", "rolling", "--drop-file", dropped]) == 0
    assert main(["change-sink", first, second, "--uid", "open", "--drop-file", in_progress]) == 0
    capsys.readouterr()
    assert shown(capsys, second, "rolling") == [row for row in rolling if row["path"] != dropped]
    assert shown(capsys, second, "open") == [row for row in opened if row["temporary_path"] != in_progress]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to change"),
        (["--drop-transaction", "orders-2-9"], "no transaction 'orders-2-9' in the sink. Did you mean 'orders-1-9'"),
        (["--drop-file", "part-0"], "no file 'part-0' in the sink"),
        (["--connector", "raw", "--prefix", "x"], "--prefix x: the sink does not have a writer with a prefix"),
        (["--prefix", "x", "--share-files"], "only files of RocksDB and ForSt can be shared"),
    ],
)
def test_mistakes(arguments: list[str], message: str, kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["change-sink", kafka, str(tmp_path / "new"), "--uid", "events", *arguments]) == BAD_INPUT
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.fixture
def source(tmp_path: Path) -> str:
    splits = pa.table(
        {
            "topic": ["orders", "orders", "a:b"],
            "partition": pa.array([0, 1, 0], pa.int32()),
            "starting_offset": pa.array([100, 250, 7], pa.int64()),
        }
    )
    writer = sp.arrow.SavepointWriter.new().with_source_splits("kafka", splits, connector="kafka")
    writer.write(tmp_path / "source")
    return str(tmp_path / "source")


def test_offsets(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "new")
    command = ["set-offsets", source, target, "--uid", "kafka"]
    assert main([*command, "--set", "orders:1=200", "--set", "a:b:0=1", "--earliest"]) == 0
    assert "SourceReaderState" in capsys.readouterr().out
    assert main(["offsets", target, "--uid", "kafka", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    offsets = {(row["topic"], row["partition"]): row["starting_offset"] for row in rows}
    assert offsets == {("orders", 0): -2, ("orders", 1): 200, ("a:b", 0): 1}
    for more, message in (
        ([], "pass --set or --earliest"),
        (["--set", "orders:2=1"], "'orders:1'"),
        (["--set", "orders:1=x"], "expected a whole number"),
        (["--set", "orders:1"], "expected TOPIC:PARTITION=OFFSET"),
    ):
        assert main([*command, "--overwrite", *more]) == BAD_INPUT
        assert message in capsys.readouterr().err
