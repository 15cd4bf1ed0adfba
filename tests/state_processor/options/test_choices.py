"""Values that are one of some names have several spellings, wherever a user passes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor import cli
from tests.state_processor.samples import ORDERS_PATH

SINKS = Path(__file__).parents[2] / "fixtures" / "sinks" / "2.3.0"

Read = Callable[[Path, str], Any]


def _written(path: Path, **names: str) -> Any:
    writer = sp.arrow.SavepointWriter.from_existing(ORDERS_PATH)
    writer.write(path, overwrite=True, **names)  # type: ignore[arg-type]
    return sp.arrow.states(path)["backend"].to_pylist()


PYTHON: list[tuple[Read, list[str]]] = [
    (lambda path, by: sp.arrow.size_report(ORDERS_PATH, by=by), ["key_group", "key-group", "KEY_GROUP", "keyGroup"]),  # type: ignore[arg-type]
    (lambda path, by: sp.history(path, by=by).schema, ["key_group", "key-group"]),  # type: ignore[arg-type]
    (lambda path, mode: sp.arrow.read_state(ORDERS_PATH, "orders", "total", nanos=mode).read_all(), ["string", "STRING"]),  # type: ignore[arg-type]
    (lambda path, name: _written(path / "to", format="native", backend=name), ["rocksdb", "RocksDB", "ROCKSDB"]),
    (lambda path, name: _written(path / "to", format="native", backend=name), ["hashmap", "HashMap", "hash-map"]),
    (lambda path, name: _written(path / "to", format=name), ["canonical", "Canonical"]),
    (lambda path, name: list(sp.check_job(ORDERS_PATH, ORDERS_PATH, flink="2.3", backend=name).rows()), ["rocksdb", "RocksDB"]),  # type: ignore[arg-type]
    (lambda path, name: str(sp.explain(ORDERS_PATH, job=ORDERS_PATH, backend=name)), ["forst", "ForSt"]),  # type: ignore[arg-type]
    (lambda path, name: sp.arrow.read_sink_state(SINKS, "rolling", name), ["file", "File"]),
]


@pytest.mark.parametrize(("read", "spellings"), PYTHON)
def test_spellings_of_a_value_are_equal_in_python(read: Read, spellings: list[str], tmp_path: Path) -> None:
    expected = read(tmp_path, spellings[0])
    assert [read(tmp_path, spelling) for spelling in spellings[1:]] == [expected] * (len(spellings) - 1)


@pytest.mark.parametrize(
    ("command", "spellings"),
    [
        ("sizes SHOP --by {}", ["key_group", "key-group", "keyGroup"]),
        ("convert SHOP to --overwrite --format native --backend {}", ["rocksdb", "RocksDB"]),
        ("convert SHOP to --overwrite --format {}", ["canonical", "Canonical"]),
        ("show SHOP --uid orders --state total --nanos {}", ["string", "STRING"]),
        ("check SHOP --job SHOP --backend {}", ["hashmap", "HashMap"]),
    ],
)
def test_spellings_of_a_value_are_equal_on_the_command_line(
    command: str, spellings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    results = []
    for spelling in spellings:
        code = cli.main(command.replace("SHOP", ORDERS_PATH).format(spelling).split())
        results.append((code, capsys.readouterr()))
    assert results[0][0] in (0, 3)
    assert results == results[:1] * len(results)
