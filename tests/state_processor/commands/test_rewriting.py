"""Commands that write savepoints."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.cli import BAD_INPUT, main
from tests.state_processor.samples import ORDERS, ORDERS_PATH

NATIVE = str(next(ORDERS.parent.glob("orders-rocksdb-incremental/**/_metadata")).parent)


def differing(old: str, new: str) -> list[str]:
    rows = sp.arrow.diff_summary(old, new).to_pylist()
    return sorted(r["state_name"] for r in rows if r["inserts"] or r["deletes"] or r["updates"])


def uids(path: str) -> set[str | None]:
    return set(sp.arrow.operators(path).column("operator_uid").to_pylist())


@pytest.mark.parametrize(
    ("source", "command"),
    [
        (ORDERS_PATH, ["copy"]),
        (NATIVE, ["copy"]),
        (NATIVE, ["convert", "--format", "canonical"]),
        (ORDERS_PATH, ["convert", "--format", "native", "--backend", "rocksdb"]),
        (ORDERS_PATH, ["set-max-parallelism", "300"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_copies_have_the_same_state(source: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "savepoint")
    assert main([command[0], source, target, *command[1:]]) == 0
    assert "orders" in capsys.readouterr().out
    assert differing(source, target) == []
    backends = {row["backend"] for row in sp.arrow.states(target).to_pylist()}
    assert backends == {"operator", "rocksdb" if "native" in command else "canonical"}
    parallelisms = sp.arrow.operators(target).column("operator_max_parallelism").to_pylist()
    assert set(parallelisms) == ({300} if "300" in command else {128})
    places = {row["path"] for row in sp.arrow.handles(target).to_pylist() if row["path"]}
    assert {Path(target, place).parent for place in places} == {Path(target)}


def test_rename(tmp_path: Path) -> None:
    first, second = str(tmp_path / "1"), str(tmp_path / "2")
    assert main(["rename-uid", ORDERS_PATH, first, "--from", "orders", "--to", "shop"]) == 0
    assert uids(first) == uids(ORDERS_PATH) - {"orders"} | {"shop"}
    shop = sp.OperatorIdentifier.for_uid("shop").uid_hash
    assert main(["rename-uid", first, second, "--from", shop, "--to", "orders"]) == 0
    assert differing(ORDERS_PATH, second) == []


def test_drop(tmp_path: Path) -> None:
    first, second = str(tmp_path / "1"), str(tmp_path / "2")
    assert main(["drop-state", ORDERS_PATH, first, "--uid", "orders", "--state", "total"]) == 0
    assert differing(ORDERS_PATH, first) == ["total"]
    assert main(["drop-state", ORDERS_PATH, second, "--uid", "orders"]) == 0
    assert uids(second) == uids(ORDERS_PATH) - {"orders"}


def column(path: str, state: str, name: str) -> list[Any]:
    return sp.arrow.read_state(path, "orders", state, metadata=True).read_all().column(name).to_pylist()


@pytest.mark.parametrize(("as_of", "changed"), [("2000-01-01", []), ("2100-01-01", ["session"])])
def test_values_expire_at_a_time(as_of: str, changed: list[str], tmp_path: Path) -> None:
    target = str(tmp_path / "savepoint")
    state = ["--uid", "orders", "--state", "session"]
    assert main(["expire", ORDERS_PATH, target, *state, "--ttl", "7d", "--as-of", as_of]) == 0
    assert differing(ORDERS_PATH, target) == changed
    assert (column(target, "session", "key") == []) == bool(changed)


def test_values_expire_by_their_age(tmp_path: Path) -> None:
    """Without ``--as-of``, values are as old as they are now."""
    state = ["--uid", "orders", "--state", "session"]
    for ttl, is_left in (("1ms", False), ("36500d", True)):
        target = str(tmp_path / ttl)
        assert main(["expire", ORDERS_PATH, target, *state, "--ttl", ttl]) == 0
        assert bool(column(target, "session", "key")) == is_left


def test_a_state_gets_and_loses_time_to_live(tmp_path: Path) -> None:
    first, second = str(tmp_path / "1"), str(tmp_path / "2")
    state = ["--uid", "orders", "--state", "total"]
    assert main(["with-ttl", ORDERS_PATH, first, *state]) == 0
    assert main(["with-ttl", first, second, *state, "--off"]) == 0
    has_ttl = [
        next(row["ttl"] for row in sp.arrow.states(path).to_pylist() if row["state_name"] == "total")
        for path in (ORDERS_PATH, first, second)
    ]
    assert has_ttl == [False, True, False]
    assert sorted(column(first, "total", "value")) == sorted(column(ORDERS_PATH, "total", "value"))
    assert differing(ORDERS_PATH, second) == []


def test_the_time_of_last_access_is_set(tmp_path: Path) -> None:
    given, now = str(tmp_path / "given"), str(tmp_path / "now")
    state = ["--uid", "orders", "--state", "session"]
    assert main(["touch", ORDERS_PATH, given, *state, "--as-of", "2030-01-02T03:04:05Z"]) == 0
    assert set(column(given, "session", "_last_access")) == {datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)}
    assert sorted(column(given, "session", "value")) == sorted(column(ORDERS_PATH, "session", "value"))
    start = datetime.now(UTC)
    assert main(["touch", ORDERS_PATH, now, *state]) == 0
    (time,) = set(column(now, "session", "_last_access"))
    assert start.timestamp() - 1 < time.timestamp() <= datetime.now(UTC).timestamp()


def test_shared_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only changed files are written; other files belong to the source savepoint."""
    target = str(tmp_path / "savepoint")
    native = ["--format", "native", "--backend", "rocksdb", "--share-files"]
    assert main(["drop-state", NATIVE, target, "--uid", "orders", "--state", "total", *native]) == 0
    assert f"{Path(NATIVE).name}, which has to stay as long as this savepoint is needed" in capsys.readouterr().out
    assert not list(Path(target).rglob("*.sst"))
    there = {"allow_paths": [str(Path(NATIVE).parent)]}
    old, new = (
        [row for batch in sp.arrow.read_state(path, "orders", "items", **there) for row in batch.to_pylist()]
        for path in (NATIVE, target)
    )
    assert sorted(map(str, new)) == sorted(map(str, old))
    assert "total" not in {row["state_name"] for row in sp.arrow.states(target, **there).to_pylist()}


def test_overwriting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "savepoint")
    assert main(["copy", ORDERS_PATH, target]) == 0
    assert main(["drop-state", ORDERS_PATH, target, "--uid", "orders"]) == BAD_INPUT
    assert "orders" in uids(target)
    assert main(["drop-state", ORDERS_PATH, target, "--uid", "orders", "--overwrite"]) == 0
    assert "orders" not in uids(target)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rename-uid", "--from", "order", "--to", "shop"], "Did you mean 'orders'"),
        (["drop-state", "--uid", "orders", "--state", "totl"], "Did you mean 'total'"),
        (["set-max-parallelism", "40000"], "32768"),
        (["with-ttl", "--uid", "orders", "--state", "session"], "already has time-to-live"),
        (["touch", "--uid", "orders", "--state", "total"], "add it with the command with-ttl"),
        (["convert", "--format", "native"], "name the backend"),
        (["convert", "--share-files"], "only files of RocksDB and ForSt can be shared"),
    ],
)
def test_mistakes(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([arguments[0], ORDERS_PATH, str(tmp_path / "savepoint"), *arguments[1:]]) == BAD_INPUT
    assert message in capsys.readouterr().err
    assert not (tmp_path / "savepoint" / "_metadata").exists()


def test_a_copy_inside_the_source_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "savepoint"
    shutil.copytree(ORDERS_PATH, source)
    (tmp_path / "link").symlink_to(source)
    before = sorted(source.iterdir())
    for target in (source / "sub", source / "sub" / "copy", tmp_path / "link" / "sub"):
        assert main(["copy", str(source), str(target)]) == BAD_INPUT
        assert "is inside the source savepoint" in capsys.readouterr().err
    assert sorted(source.iterdir()) == before
    assert main(["copy", str(source), f"{source}-2"]) == 0
