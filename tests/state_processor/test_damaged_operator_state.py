"""A snapshot whose ``_metadata`` has a state's name that the file does not register: every way to read it refuses it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import state_processor as sp
from state_processor import cli
from state_processor.backends.metadata.snapshot_metadata import METADATA_FILE
from tests.state_processor.samples import ORDERS, ORDERS_PATH

REFUSED = "the header of the file does not register this state"
STATES = ("offsets", "pending", "discounts")  # a union list, a split list and broadcast state


@pytest.fixture(params=STATES)
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """One bit of a state's name is flipped, in the handle of the last subtask."""
    path = tmp_path / "damaged"
    shutil.copytree(ORDERS / "savepoint", path)
    data = bytearray((path / METADATA_FILE).read_bytes())
    data[data.rindex(request.param.encode())] ^= 1
    (path / METADATA_FILE).write_bytes(data)
    return path


@pytest.mark.parametrize("state", STATES)
def test_reads(damaged: Path, state: str) -> None:
    with pytest.raises(sp.CorruptSnapshotError, match=REFUSED):
        sp.arrow.read_state(str(damaged), "catalog", state).read_all()


@pytest.mark.parametrize(
    "command",
    [
        "count IN --uid catalog --state pending",
        "states IN",
        "get IN x --uid catalog",
        "diff ORDERS IN",
        "copy IN OUT",
        "convert IN OUT --format native --backend hashmap",
        "drop-state IN OUT --uid orders --state total",
        "validate IN",
        "validate IN --values",
    ],
)
def test_commands(damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Commands that write would copy the files of the operator unchanged."""
    places = {"IN": str(damaged), "OUT": str(tmp_path / "out"), "ORDERS": ORDERS_PATH}
    code = cli.main([places.get(word, word) for word in command.split()])
    said = capsys.readouterr()
    assert code != 0
    assert REFUSED in said.out + said.err
    assert not (tmp_path / "out" / METADATA_FILE).exists()
