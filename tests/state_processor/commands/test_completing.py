"""Completion in shells knows commands, and the names of the snapshot on the line."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from state_processor.cli import BAD_INPUT, SHELLS, main, names_on_line
from tests.state_processor.samples import ORDERS_PATH

STATES = ["total", "profile", "history", "items", "session"]
KEYED = [*STATES, "_timer_state/processing_user-timers", "_timer_state/event_user-timers"]


@pytest.mark.parametrize(
    ("kind", "words", "expected"),
    [
        ("uids", "show {} --uid ", ["orders", "catalog"]),
        ("uids", "show '{}' --uid 'or", ["orders", "catalog"]),
        ("uids", "diff /nowhere {} --uid", ["orders", "catalog"]),
        ("states", "show {} --uid orders --state to", KEYED),
        ("states", "show --uid=catalog {} --state ", ["offsets", "pending", "discounts"]),
        ("states", "show {} --state ", [*KEYED, "offsets", "pending", "discounts"]),
        ("states", "show {} --uid nobody --state ", []),
        ("uids", "show /nowhere --uid ", []),
        ("uids", "show --uid ", []),
    ],
)
def test_names_of_the_snapshot_on_the_line(kind: str, words: str, expected: list[str]) -> None:
    assert sorted(names_on_line(kind, f"state-processor {words.format(ORDERS_PATH)}")) == sorted(expected)


def test_names_do_not_fail_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash", "--names", "uids", f"--line=state-processor sizes {ORDERS_PATH} --uid "]) == 0
    assert capsys.readouterr().out == "orders\ncatalog\n"
    assert main(["completion", "bash", "--names", "uids", "--line=state-processor sizes /nowhere --uid "]) == 0
    assert capsys.readouterr() == ("", "")


def test_scripts_need_a_package(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    absent: dict[str, Any] = {"shtab": None}
    monkeypatch.setitem(sys.modules, "shtab", absent["shtab"])
    assert main(["completion", "bash"]) == BAD_INPUT
    assert "pip install 'state-processor[completion]'" in capsys.readouterr().err


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_name_the_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "copy-operator" in script
    assert (f"completion {shell} --names uids --line=" in script) == (shell != "tcsh")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["show", ORDERS_PATH, "--uid", ""], ["orders", "catalog"]),
        (["show", ORDERS_PATH, "--uid", "orders", "--state", "p"], ["profile"]),
        (["sh"], ["show"]),
    ],
)
def test_bash_completes(words: list[str], expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    line = ["state-processor", *words]
    quoted = [shlex.quote(word) for word in line]
    program = f'state-processor() {{ {shlex.quote(sys.executable)} -m state_processor.cli "$@"; }}'
    asking = (
        f"COMP_WORDS=({' '.join(quoted)}); COMP_CWORD={len(line) - 1}; COMP_LINE={shlex.quote(' '.join(line))}",
        "_shtab_state_processor 2>/dev/null; printf '%s\\n' \"${COMPREPLY[@]}\"",
    )
    (tmp_path / "asking.bash").write_text("\n".join([program, capsys.readouterr().out, *asking]), "utf-8")
    done = subprocess.run(["bash", "--norc", str(tmp_path / "asking.bash")], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == expected
