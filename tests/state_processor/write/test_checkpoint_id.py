"""The number of the checkpoint that a new savepoint is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.backends.metadata.handles import IncrementalRemoteKeyedStateHandle
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.cli import BAD_INPUT, main
from state_processor.support.errors import OptionError
from tests.state_processor.samples import ORDERS, ORDERS_PATH

NATIVE = str(next(ORDERS.parent.glob("orders-rocksdb-incremental/**/_metadata")).parent)
SOURCE = open_snapshot(ORDERS_PATH).metadata.checkpoint_id


def written(path: Path) -> int:
    return open_snapshot(path).metadata.checkpoint_id


@pytest.mark.parametrize("number", [None, SOURCE, SOURCE + 1, 2**63 - 2])
def test_the_number_is_that_of_the_source_or_a_higher_one(number: int | None, tmp_path: Path) -> None:
    summary = sp.arrow.SavepointWriter.from_existing(ORDERS_PATH).write(tmp_path / "new", checkpoint_id=number)
    assert written(tmp_path / "new") == summary.checkpoint_id == (number or SOURCE)


@pytest.mark.parametrize("number", [None, 1, 77])
def test_a_savepoint_without_a_source_begins_with_1(number: int | None, tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.new()
    writer.with_list_state("o", "s", [{"value": 1}], sp.Types.LONG())
    writer.write(tmp_path / "new", checkpoint_id=number)
    assert written(tmp_path / "new") == (number or 1)


def test_a_lower_number_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    sp.arrow.SavepointWriter.from_existing(ORDERS_PATH).write(first, checkpoint_id=10)
    writer = sp.arrow.SavepointWriter.from_existing(first)
    with pytest.raises(OptionError, match=r"checkpoint_id=9: .* is checkpoint 10.*allow_lower_checkpoint_id=True"):
        writer.write(second, checkpoint_id=9)
    assert not second.exists()
    writer.write(second, checkpoint_id=9, allow_lower_checkpoint_id=True)
    assert written(second) == 9


@pytest.mark.parametrize("number", [0, -1, 2**63 - 1, "seven", True, 1.5])
def test_other_values_are_refused(number: Any, tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(ORDERS_PATH)
    with pytest.raises(OptionError, match="checkpoint_id"):
        writer.write(tmp_path / "new", checkpoint_id=number, allow_lower_checkpoint_id=True)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("share_files", [False, True])
def test_copied_stores_have_the_number_of_the_savepoint(share_files: bool, tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(NATIVE)
    writer.write(tmp_path / "new", format="native", backend="rocksdb", share_files=share_files, checkpoint_id=70)
    operators = open_snapshot(tmp_path / "new").metadata.operators
    handles = [s.managed_keyed for o in operators for s in o.subtasks if s.managed_keyed is not None]
    numbers = {handle.checkpoint_id for handle in handles if isinstance(handle, IncrementalRemoteKeyedStateHandle)}
    assert numbers == {70}


def test_the_commands_have_the_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    assert main(["copy", ORDERS_PATH, str(first), "--checkpoint-id", "10"]) == 0
    lower = ["convert", str(first), str(second), "--checkpoint-id", "9"]
    assert main(lower) == BAD_INPUT
    assert "--checkpoint-id=9: the source savepoint is checkpoint 10" in capsys.readouterr().err
    assert main([*lower, "--allow-lower-checkpoint-id"]) == 0
    assert (written(first), written(second)) == (10, 9)
