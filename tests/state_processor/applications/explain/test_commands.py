"""The command that explains."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from state_processor import cli
from tests.state_processor.samples import ORDERS_PATH

MESSAGE = 'java.lang.IllegalArgumentException: Hash collision on user-specified ID "{}". Most likely cause is a non-unique ID.'


def test_exit_codes_and_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = tmp_path / "error.txt"
    error.write_text(MESSAGE.format("orders"), "utf-8")
    assert cli.main(["explain", ORDERS_PATH, "--error", str(error)]) == 0
    assert "the snapshot has one operator with this uid" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.StringIO(MESSAGE.format("other")))
    assert cli.main(["explain", "--error", "-", "--json"]) == 3
    cause, rest = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (cause["kind"], cause["certainty"]) == ("duplicate-uid", "from the trace alone")
    assert rest["unexplained"] == []
    error.write_text("java.io.IOException: odd", "utf-8")
    assert cli.main(["explain", "--error", str(error)]) == cli.NO
    assert cli.main(["explain", "--error", str(tmp_path / "none")]) == 2
    assert cli.main(["explain"]) == 2
