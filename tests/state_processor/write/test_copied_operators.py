"""Operators that nobody changes are copied, whatever their files contain."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.backends.formats import source
from state_processor.backends.metadata.handles import KEY_GROUPS, KeyGroupsStateHandle
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorSubtaskState, read_metadata, write_metadata
from state_processor.cli import main
from state_processor.support.errors import StateProcessorError
from state_processor.write.savepoint_writer import SavepointWriter
from tests.state_processor.samples import FIXTURES, ORDERS_PATH
from tests.unknown_serializers import POJO, with_unknown_class

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


def contents(path: Path, uid: str) -> list[Any]:
    snapshot = open_snapshot(str(path))
    operator = next(o for o in snapshot.metadata.operators if o.uid == uid)
    handles = [s.managed_keyed for s in operator.subtasks]
    assert all(isinstance(handle, KeyGroupsStateHandle) for handle in handles)
    return [(h.key_groups, list(h.offsets), snapshot.open(h.stream, "").read()) for h in handles]  # type: ignore[union-attr]


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


def test_files_of_the_heap_are_copied_if_a_value_is_not_readable(tmp_path: Path) -> None:
    """Values there lack lengths to step over: only their own format keeps them."""
    path, native = with_unknown_class("orders-hashmap-native", POJO, tmp_path / "unknown"), ["--format", "native", "--backend"]
    for command in (
        ["rename-uid", "--from", "catalog", "--to", "products"],
        ["drop-state", "--uid", "catalog", "--state", "pending"],
        ["rename-uid", "--from", "orders", "--to", "purchases"],
    ):
        target = tmp_path / "-".join(command)
        assert main([command[0], str(path), str(target), *command[1:], *native, "hashmap"]) == 0, command
        uid = "purchases" if "purchases" in command else "orders"
        assert contents(target, uid) == contents(path, "orders")
    with pytest.raises(StateProcessorError, match="the entries of state 'profile' come first, without lengths"):
        SavepointWriter.from_existing(path).write(tmp_path / "canonical")


def test_full_checkpoints_of_rocksdb_are_not_files_of_the_heap(tmp_path: Path) -> None:
    """Their handles have the same class, and their blocks are canonical."""
    shutil.copytree(ORDERS_PATH, tmp_path / "full")
    file = tmp_path / "full" / "_metadata"
    metadata = read_metadata(file.read_bytes())

    def full(subtask: OperatorSubtaskState) -> OperatorSubtaskState:
        keyed = subtask.managed_keyed
        return replace(subtask, managed_keyed=replace(keyed, code=KEY_GROUPS)) if keyed else subtask

    operators = tuple(replace(o, subtasks=tuple(map(full, o.subtasks))) for o in metadata.operators)
    file.write_bytes(write_metadata(replace(metadata, operators=operators)))
    writer = SavepointWriter.from_existing(tmp_path / "full").change_operator_identifier("catalog", "products")
    summary = writer.write(tmp_path / "heap", format="native", backend="hashmap")
    assert {o.uid: o.carried for o in summary.operators if o.size_in_bytes} == {"orders": False, "products": True}
    tables = [sp.arrow.read_state(path, "orders", "total").read_all().sort_by("key") for path in (ORDERS_PATH, tmp_path / "heap")]
    assert tables[0] == tables[1]


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
