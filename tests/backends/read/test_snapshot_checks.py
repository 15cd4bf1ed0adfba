"""Checks of all values of a snapshot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from state_processor.backends.files.storage import StoredFile
from state_processor.backends.metadata import handles as h
from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.metadata.snapshot_metadata import (
    CheckpointMetadata,
    OperatorState,
    OperatorSubtaskState,
    write_metadata,
)
from state_processor.backends.read.snapshot_checks import ValueCheck, check_files
from state_processor.serializers.core.enums import EnumSerializer
from state_processor.support.errors import MissingFileError
from tests.backends.keyed_files import CANONICAL, FORMATS, one, void
from tests.backends.state_files import LONG, STRING, group_of, keyed, long, snapshot, string

FIXTURES = Path(__file__).parents[2] / "fixtures"
SNAPSHOTS = sorted(m.parent for m in FIXTURES.glob("2.3.0/**/_metadata"))


def checked(operator: OperatorState) -> ValueCheck:
    check = ValueCheck()
    check.check(snapshot(operator))
    return check


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_savepoints_of_flink(path: Path) -> None:
    check = ValueCheck()
    check.check(open_snapshot(str(path)))
    assert check.problems == check.unknown == check.unhashed == []
    assert check.rows > 100


def test_missing_files_do_not_read_all_of_the_metadata_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of a missing file looks whether the snapshot was replaced: by its size and its beginning."""
    count, inline = 40, h.ByteStreamStateHandle("inline", bytes(1 << 20))
    offsets = h.Offsets.of([0])
    subtasks = [
        OperatorSubtaskState(
            i,
            managed_keyed=h.KeyGroupsStateHandle(
                h.KEY_GROUPS_V2, h.KeyGroupRange(i, i), offsets, h.RelativeFileStateHandle(f"file-{i}", 1), str(i)
            ),
        )
        for i in range(count)
    ]
    operator = OperatorState(operator_id("o"), count, 128, tuple(subtasks), coordinator_state=inline)
    data = write_metadata(CheckpointMetadata(4, 1, (operator,)))
    (tmp_path / "_metadata").write_bytes(data)
    opened = open_snapshot(str(tmp_path))
    read: list[int] = []
    original = StoredFile.read

    def counted(file: StoredFile, offset: int, length: int) -> memoryview:
        read.append(length)
        return original(file, offset, length)

    monkeypatch.setattr(StoredFile, "read", counted)
    problems = check_files(opened).problems
    assert len(problems) == count
    assert sum(read) < count * len(data) // 10
    (tmp_path / "_metadata").write_bytes(write_metadata(CheckpointMetadata(4, 2, (operator,))))
    with pytest.raises(MissingFileError, match="was replaced since it was opened"):
        opened.open(h.RelativeFileStateHandle("file-0", 1)).read(0, 1)


@FORMATS
def test_a_key_in_another_key_group(form: str) -> None:
    right, wrong = group_of(STRING, "right"), (group_of(STRING, "wrong") + 1) % 128
    entries = {right: {0: [void(string("right"), long(1))]}, wrong: {0: [void(string("wrong"), long(2))]}}
    check = checked(one(form, STRING, [keyed("v", LONG)], entries))
    (problem,) = check.problems
    expected = f"state 'v': 1 entries are in the wrong key group, such as key 'wrong' in {wrong}: its hash belongs to {wrong - 1}"
    assert re.search(re.escape(expected), problem)
    assert check.rows == 2


@FORMATS
def test_a_damaged_value(form: str) -> None:
    entries = {group_of(LONG, 1): {0: [void(long(1), b"\x7fzz")]}}
    (problem,) = checked(one(form, LONG, [keyed("v", STRING)], entries)).problems
    assert "operator 'op'" in problem
    assert "state 'v'" in problem


def test_keys_whose_hash_is_code_of_the_job() -> None:
    status = EnumSerializer("com.acme.Status", ["OPEN"])
    check = checked(one(CANONICAL, status, [keyed("v", LONG)], {3: {0: [void(b"\0\0\0\0", long(1))]}}))
    assert (check.problems, check.unhashed, check.rows) == ([], ["operator 'op', state 'v'"], 1)
