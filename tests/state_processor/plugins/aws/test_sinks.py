"""Sinks of AWS: their buffered requests are rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import state_processor as sp
from state_processor import connectors
from state_processor.backends.connectors.connector import Versioned
from state_processor.backends.connectors.registry import sinks
from state_processor.cli import main
from state_processor.errors import InvalidRowError, OptionError
from state_processor.plugins.aws import layouts as aws
from tests.backends.connectors.sink_rows import BYTES, WRITER_STATE, check_unchanged_rows, elements, rows_of, written

KINESIS = {"bufferedRequestEntries": [{"size": 2, "data": "0001", "partitionKey": key} for key in ("k", "l")]}
ITEM = [{"key": "id", "value": {"N": "1"}}]
REQUESTS: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "kinesis": (aws.KINESIS_WRITER, KINESIS, {"data": b"\0\1\2"}, {"size": 3, "data": "000102", "partitionKey": "k"}),
    "firehose": (
        aws.FIREHOSE_WRITER,
        {"bufferedRequestEntries": [{"size": 1, "data": "07"}, {"size": 0, "data": ""}]},
        {"data": b"\1\2"},
        {"size": 2, "data": "0102"},
    ),
    "sqs": (
        aws.SQS_WRITER,
        {"bufferedRequestEntries": [{"size": 2, "messageBody": "ab", "id": i} for i in "12"]},
        {"message_body": "ü"},
        {"size": 2, "messageBody": "ü", "id": "1"},
    ),
    "dynamodb": (
        aws.DYNAMODB_WRITER,
        {"bufferedRequestEntries": [{"size": 5, "type": "PUT", "item": ITEM}, {"size": 5, "type": "DELETE", "item": ITEM}]},
        {"request_type": "DELETE"},
        {"size": 5, "type": "DELETE", "item": ITEM},
    ),
}


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("sinks") / "savepoint")
    writer = sp.arrow.SavepointWriter.new()
    for name, (serializer, content, _, _) in REQUESTS.items():
        elements = [Versioned(1, connectors.encode(serializer, 1, c)) for c in (content, {"bufferedRequestEntries": []})]
        writer.with_list_state(name, WRITER_STATE, pa.table({"value": [e.to_bytes() for e in elements]}), BYTES)
    writer.write(path)
    return path


@pytest.mark.parametrize("uid", REQUESTS)
def test_unchanged_rows_are_the_same_bytes(savepoint: str, tmp_path: Path, uid: str) -> None:
    check_unchanged_rows(savepoint, tmp_path / "copy", uid, WRITER_STATE, connector=uid)


@pytest.mark.parametrize("uid", REQUESTS)
def test_buffered_requests(savepoint: str, tmp_path: Path, uid: str) -> None:
    serializer, _, change, expected = REQUESTS[uid]
    first, second, empty = rows_of(savepoint, uid, uid)
    names = [field.name for field in sinks()[uid].fields]
    assert [empty[name] for name in names] == [None] * len(names)
    copy = written(savepoint, tmp_path / "changed", uid, [first | change, empty], uid)
    changed, nothing = (connectors.decode(serializer, 1, data[12:]) for data in elements(copy, uid, WRITER_STATE))
    assert changed["bufferedRequestEntries"] == [expected]
    assert nothing["bufferedRequestEntries"] == []
    if len(names) > 1:
        with pytest.raises(InvalidRowError, match=rf"a request of the sink '{uid}' needs '{names[0]}'"):
            written(savepoint, tmp_path / "null", uid, [first | {names[0]: None}, second, empty], uid)


def test_sinks_on_the_command_line(savepoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sink-state", savepoint, "--uid", "kinesis", "--connector", "kinesis", "--json"]) == 0
    assert [row["partition_key"] for row in map(json.loads, capsys.readouterr().out.splitlines())] == ["k", "l", None]


def test_an_empty_state_of_several_sinks_stays_bytes(tmp_path: Path) -> None:
    element = Versioned(1, connectors.encode(aws.SQS_WRITER, 1, {"bufferedRequestEntries": []})).to_bytes()
    writer = sp.arrow.SavepointWriter.new()
    writer.with_list_state("sink", WRITER_STATE, pa.table({"value": [element]}), BYTES).write(str(tmp_path / "s"))
    (row,) = rows_of(str(tmp_path / "s"), "sink")
    assert row["raw"] == element[8:]
    with pytest.raises(OptionError, match="expected one of"):
        rows_of(str(tmp_path / "s"), "sink", "kinesis-streams")
