"""Operators that nobody changes are copied, whatever their files contain."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.backends.formats import source
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.cli import main
from state_processor.serializers.errors import StateProcessorError
from state_processor.write.arrow_writer import SavepointWriter
from tests.state_processor.samples import FIXTURES, ORDERS_PATH

pytestmark = pytest.mark.one_engine("one process copies files for both")


@pytest.fixture(params=["hashmap-canonical", "rocksdb-native"])
def unreadable(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A savepoint whose operator ``orders`` has headers that nobody can read, and its format."""
    top = tmp_path / "unreadable"
    shutil.copytree(FIXTURES / "2.3.0" / f"orders-{request.param}" / "savepoint", top)
    (metadata,) = top.rglob("_metadata")
    top = metadata.parent
    snapshot = open_snapshot(str(top))
    (orders,) = (o for o in snapshot.metadata.operators if o.uid == "orders")
    for subtask in orders.subtasks:
        keyed = subtask.managed_keyed
        path = top / Path(snapshot.open(getattr(keyed, "meta", None) or keyed.stream, "").describe()).name
        data = path.read_bytes()
        path.write_bytes(b"\0\0\0\x63" + data[4:])  # a version of the future
    return top, "native" if "native" in request.param else "canonical"


def files(path: Path, uid: str) -> list[Any]:
    operator = next(o for o in open_snapshot(str(path)).metadata.operators if o.uid == uid)
    return [(s.index, s.state_size) for s in operator.subtasks]


def test_other_operators_are_changed(unreadable: tuple[Path, str], tmp_path: Path) -> None:
    path, form = unreadable
    with pytest.raises(StateProcessorError, match="version 99"):
        sp.arrow.read_state(path, "orders", "total")
    arguments = ["--format", form, "--backend", "rocksdb"] if form == "native" else []
    for command in (
        ["rename-uid", "--from", "catalog", "--to", "products", *arguments],
        ["drop-state", "--uid", "catalog", "--state", "pending", *arguments],
        ["drop-state", "--uid", "catalog", *arguments],
        ["rename-uid", "--from", "orders", "--to", "purchases", *arguments],
        *([["copy"]] if form == "canonical" else []),
    ):
        target = tmp_path / "-".join(command)
        assert main([command[0], str(path), str(target), *command[1:]]) == 0, command
        uid = "purchases" if "purchases" in command else "orders"
        assert files(target, uid) == files(path, "orders")


def test_headers_of_other_operators_are_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a header is read")

    monkeypatch.setattr(source, "read_header", refuse)
    writer = SavepointWriter.from_existing(ORDERS_PATH).change_operator_identifier("catalog", "products")
    summary = writer.write(tmp_path / "renamed")
    assert [(o.uid, o.carried, o.unread) for o in summary.operators if o.size_in_bytes] == [
        ("orders", True, ("keyed state",)),
        ("products", True, ()),
    ]
    assert "keyed state" in str(summary)


def test_a_changed_operator_is_read(unreadable: tuple[Path, str], tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing(unreadable[0])
    with pytest.raises(StateProcessorError, match="version 99"):
        writer.remove_state("orders", "total").write(tmp_path / "written")
