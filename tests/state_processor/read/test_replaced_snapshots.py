"""A snapshot that is replaced between two uses of an object that reads it: rows, lazy frames, connections and readers.

The files of the former snapshot stay in place, so that its rows could still be read. They would be rows of a snapshot that the
path does not have any more.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import polars
import pytest

import state_processor as sp
from state_processor.backends.write import keyed_writer, staging, store_writer
from state_processor.write import build

ENDED: Final = "has another snapshot than when this read was planned"
OLD: Final = {"a": 1, "b": 2}
NEW: Final = {"a": 2, "b": 1, "c": 3}


def savepoint(path: Path, values: dict[str, int], **format_: Any) -> Path:
    rows = [{"key": key, "v": value} for key, value in values.items()]
    writer = sp.arrow.SavepointWriter.new(flink_version="2.0").with_keyed_state("op", rows, states={"v": sp.Types.LONG()})
    writer.with_list_state("op", "list", [{"value": number} for number in range(len(values))]).write(path, **format_)
    return path


def values_of(path: Path) -> dict[str, int]:
    table = sp.arrow.read_state(path, "op", "v").read_all()
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def _rows(path: Path) -> Callable[[], Any]:
    rows = sp.arrow.read_state(path, "op", "v")
    return lambda: rows.read_all().to_pylist()


def _stream(path: Path) -> Callable[[], Any]:
    rows = sp.arrow.read_state(path, "op", "list")
    return lambda: polars.DataFrame(rows).rows()


def _reader(path: Path) -> Callable[[], Any]:
    reader = sp.arrow.SavepointReader.read(path)
    return lambda: reader.read_keyed_state("op").read_all().to_pylist()


def _look_up(path: Path) -> Callable[[], Any]:
    reader = sp.arrow.SavepointReader.read(path)
    return lambda: reader.lookup("op", "a").states["v"]["value"].to_pylist()


def _sizes(path: Path) -> Callable[[], Any]:
    reader = sp.arrow.SavepointReader.read(path)
    return lambda: reader.size_report()["entries"].to_pylist()


def _types(path: Path) -> Callable[[], Any]:
    reader = sp.arrow.SavepointReader.read(path)
    return lambda: sorted(reader.types("op"))


def _lazy_frame(path: Path) -> Callable[[], Any]:
    lazy = sp.polars.scan_state(path, "op", "v")
    return lambda: lazy.collect().rows()


def _connection(path: Path) -> Callable[[], Any]:
    connection = sp.duckdb.connect(path)
    return lambda: connection.sql("SELECT * FROM op.v").fetchall()


def _result(path: Path) -> Callable[[], Any]:
    rows = sp.duckdb.query(path, "SELECT * FROM op.v")
    return lambda: rows.read_all().to_pylist()


def _difference(path: Path) -> Callable[[], Any]:
    rows = sp.arrow.diff(
        savepoint(path.parent / f"before {path.name} {len(list(path.parent.iterdir()))}", {"a": 5}), path, "op", "v"
    )
    return lambda: rows.read_all().to_pylist()


def _differences(path: Path) -> Callable[[], Any]:
    rows = sp.arrow.diff(savepoint(path.parent / f"before {path.name} {len(list(path.parent.iterdir()))}", {"a": 5}), path)
    return lambda: rows.read_all().to_pylist()


USES: Final = {
    use.__name__.strip("_").replace("_", " "): use
    for use in (_rows, _stream, _reader, _look_up, _sizes, _types, _lazy_frame, _connection, _result, _difference, _differences)
}


@pytest.mark.parametrize("use", USES)
def test_an_object_that_is_used_again_after_the_snapshot_was_replaced(use: str, tmp_path: Path) -> None:
    path, new = savepoint(tmp_path / "snapshot", OLD), savepoint(tmp_path / "new", NEW)
    read = USES[use](path)
    assert read()
    shutil.copytree(new, path, dirs_exist_ok=True)
    with pytest.raises(Exception, match=ENDED):  # libraries wrap errors in their own
        read()
    assert USES[use](path)() == USES[use](new)()


def test_a_writer_says_why_the_rows_that_it_gets_can_not_be_read(tmp_path: Path) -> None:
    path, new = savepoint(tmp_path / "snapshot", OLD), savepoint(tmp_path / "new", NEW)
    rows = sp.arrow.read_state(path, "op", "v")
    writer = sp.arrow.SavepointWriter.from_existing(new).update_keyed_state("op", "v", rows)
    shutil.copytree(new, path, dirs_exist_ok=True)
    with pytest.raises(sp.MissingFileError, match=ENDED):
        writer.write(tmp_path / "written")


@pytest.mark.parametrize("use", USES)
def test_a_snapshot_that_was_copied_back_is_the_same(use: str, tmp_path: Path) -> None:
    path = savepoint(tmp_path / "snapshot", OLD)
    read = USES[use](path)
    before = read()
    shutil.move(path, tmp_path / "backup")
    shutil.copytree(tmp_path / "backup", path)
    assert read() == before


@pytest.mark.parametrize("moves", [False, True], ids=["in place", "moved over"])
@pytest.mark.parametrize("backend", [None, "hashmap", "rocksdb"])
def test_files_of_the_same_names_and_sizes(
    backend: str | None, moves: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``_metadata`` stays the same, byte for byte: a store of RocksDB that is open is opened again."""
    format_ = {} if backend is None else {"format": "native", "backend": backend}

    def written(name: str, values: dict[str, int]) -> Path:
        numbers = itertools.count(1)
        for module in (build, staging, store_writer, keyed_writer):
            monkeypatch.setattr(module, "uuid4", lambda: UUID(int=next(numbers) << 64))
        return savepoint(tmp_path / name, values, **format_)

    keys = [f"{i:05}" for i in range(9000)]  # too many for `_metadata` itself
    by_sizes: dict[tuple[int, ...], int] = {}
    for value in itertools.count(1):
        new = written(str(value), dict.fromkeys(keys, value))
        same = by_sizes.setdefault(tuple(sorted(file.stat().st_size for file in new.iterdir())), value)
        if same != value:
            break
    path, before, after = tmp_path / str(same), dict.fromkeys(keys, same), dict.fromkeys(keys, value)
    shutil.copy(path / "_metadata", new / "_metadata")
    assert {file.name for file in path.iterdir()} == {file.name for file in new.iterdir()}
    assert values_of(path) == before
    for file in new.iterdir():
        if moves:
            os.replace(file, path / file.name)
        else:
            (path / file.name).write_bytes(file.read_bytes())
    assert values_of(path) == after
