"""Commands that show a snapshot."""

from __future__ import annotations

import pytest

from state_processor import cli
from tests.state_processor.samples import ORDERS_OF_1, ORDERS_PATH

ORDERS_OF_1_PATH = str(ORDERS_OF_1 / "savepoint")
HINT = "To see uids here, pass the uids of the job by --uids."


@pytest.mark.parametrize("command", ["inspect", "states"])
def test_a_snapshot_without_uids_mentions_the_option_that_names_operators(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main([command, ORDERS_OF_1_PATH])
    assert HINT in capsys.readouterr().out
    cli.main([command, ORDERS_OF_1_PATH, "--json"])
    assert HINT not in capsys.readouterr().out
    cli.main([command, ORDERS_PATH])
    assert HINT not in capsys.readouterr().out


@pytest.mark.parametrize("command", [["show", "--uid", "orders", "--state", "total"], ["sizes", "--uid", "orders"]])
def test_a_uid_that_only_its_hash_records_finds_its_operator(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    name, *arguments = command
    cli.main([name, ORDERS_OF_1_PATH, *arguments])
    assert capsys.readouterr().out
