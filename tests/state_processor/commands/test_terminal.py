"""What commands print of names, values and messages that others have made."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

import state_processor as sp
from state_processor import cli
from state_processor.commands import terminal
from state_processor.commands.command import commands_of
from state_processor.display.text_tables import json_text, printable
from tests.state_processor.samples import ORDERS_PATH, TYPES_PATH

UID, STATE, FIELD = "\x1b[2J\x9b", "\x1b]0;\x07", "\x1b[31m\x7f"
"""In place of ``orders``, ``total`` and ``street``: sequences that clear the screen, set the title and change the colour."""
HASH = "bc4197a480c92c793190a9f8c0afc54c"


def _renamed(source: str, target: Path) -> str:
    shutil.copytree(source, target)
    for file in target.iterdir():
        data = file.read_bytes()
        for old, new in (("orders", UID), ("total", STATE), ("street", FIELD)):
            assert len(old) == len(new.encode())
            data = data.replace(b"\x00" + bytes([len(old)]) + old.encode(), b"\x00" + bytes([len(old)]) + new.encode())
        file.write_bytes(data)
    return str(target)


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The snapshot of a job in a directory of its own: some commands search two directories above the snapshot."""
    return _renamed(ORDERS_PATH, tmp_path_factory.mktemp("hostile") / "job" / "orders\x1b[5m")


@pytest.fixture(scope="module")
def types(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _renamed(TYPES_PATH, tmp_path_factory.mktemp("hostile") / "types")


COMMANDS = {
    "inspect": (["ORDERS"], ["ORDERS", "--files"], ["ORDERS", "--files", "--vertical"], ["ORDERS/none\x1b"]),
    "states": (["ORDERS"], ["TYPES", "--vertical"], ["ORDERS", "--plan", "none\x1b"]),
    "show": (
        ["ORDERS", "--uid", UID],
        ["ORDERS", "--uid", UID, "--vertical", "--metadata"],
        ["ORDERS", "--uid", UID, "--schema"],
        ["ORDERS", "--uid", UID, "--timers"],
        ["ORDERS", "--uid-hash", HASH, "--state", STATE],
        ["ORDERS", "--uid-hash", HASH, "--state", STATE[:-1]],
        ["ORDERS", "--uid", UID[:-1]],
        ["ORDERS", "--uid", UID, "--columns", "key\x1b"],
        ["TYPES", "--uid", "types", "--state", "pojo"],
        ["TYPES", "--uid", "types", "--state", "pojo", "--schema"],
        ["TYPES", "--uid", "types", "--state", "pojo", "--key", "\x1b"],
    ),
    "get": (
        ["ORDERS", "--uid", UID, "amelia"],
        ["ORDERS", "--uid", UID, "amelia", "--vertical"],
        ["ORDERS", "--uid", UID, "\x1b[1m"],
        ["ORDERS", "--uid", UID, "--state", STATE[:-1], "amelia"],
    ),
    "sizes": (["ORDERS"], ["ORDERS", "--by", "subtask"], ["ORDERS", "--by", "key", "--uid", UID], ["ORDERS", "--uid", UID[:-1]]),
    "diff": (["ORDERS", ORDERS_PATH], ["ORDERS", ORDERS_PATH, "--uid", UID, "--state", STATE]),
    "count": (["ORDERS", "--uid", UID], ["ORDERS", "--uid", UID, "--state", "tota\x1b"]),
    "export": (
        ["ORDERS", "--uid", UID, "-o", "NEW.csv"],
        ["ORDERS", "--uid", UID, "-o", "-", "--format", "ndjson"],
        ["ORDERS", "--uid", UID, "--state", STATE[:-1], "-o", "NEW.csv"],
        ["ORDERS", "--uid", UID, "-o", "NEW/\x1b/rows.csv"],
        ["ORDERS", "--uid", UID, "-o", "rows.\x1b"],
    ),
    "report": (["ORDERS", "-o", "NEW\x1b.html"],),
    "copy": (["ORDERS", "NEW\x1b"],),
    "convert": (["ORDERS", "NEW", "--format", "native", "--backend", "hashmap"], ["ORDERS", "NEW", "--async-state", UID[:-1]]),
    "convert-state": (["ORDERS", "NEW", "--uid", UID, "--state", STATE[:-1], "--job", "ORDERS"],),
    "migrate": (["ORDERS", "NEW", "--flink", "\x1b"], ["ORDERS", "NEW\x1b", "--flink", "2.3"]),
    "migrate-query": (["ORDERS", "NEW", "none\x1b", "none"],),
    "rename-uid": (["ORDERS", "NEW", "--from", UID, "--to", "\x1bother"], ["ORDERS", "NEW", "--from", UID[:-1], "--to", "x"]),
    "copy-operator": (
        ["ORDERS", "NEW", "--from", "ORDERS", "--uid", UID, "--as", "\x1bother"],
        ["ORDERS", "NEW", "--from", "ORDERS", "--uid", UID],
    ),
    "drop-state": (["ORDERS", "NEW", "--uid", UID, "--state", STATE], ["ORDERS", "NEW", "--uid", UID, "--state", STATE[:-1]]),
    "set-max-parallelism": (["ORDERS", "NEW", "64"], ["ORDERS", "NEW", "1"]),
    "update": (["ORDERS", "NEW", "--uid", UID, "--state", STATE[:-1], "--rows", "NEW/\x1b.csv"],),
    "offsets": (["ORDERS", "--uid", UID],),
    "set-offsets": (["ORDERS", "NEW", "--uid", UID, "--earliest"],),
    "sink-state": (["ORDERS", "--uid", UID],),
    "change-sink": (["ORDERS", "NEW", "--uid", UID, "--drop-file", "\x1b"],),
    "validate": (["ORDERS"], ["ORDERS", "--values"], ["ORDERS/none\x1b"]),
    "check-query": (["ORDERS", "none\x1b", "none"],),
    "list": (["ORDERS/.."], ["ORDERS/../none\x1b"], ["ORDERS/..", "--depth", "0"]),
    "files": (["ORDERS/../.."], ["ORDERS/../..", "--vertical"], ["ORDERS/../none\x1b"]),
    "orphans": (["ORDERS/../.."], ["ORDERS/../..", "--older-than", "\x1b"]),
    "retain": (["ORDERS/../..", "--keep", "1"], ["ORDERS/../.."], ["ORDERS/../none\x1b", "--keep", "1"]),
    "dispose": (["ORDERS"], ["ORDERS/none\x1b"]),
    "sql": (["ORDERS", "SELECT * FROM operators"], ["ORDERS", "SELECT \x1b"], ["ORDERS/none\x1b", "SELECT 1"]),
    "history": (["ORDERS/.."], ["ORDERS/..", "--vertical"], ["ORDERS/../none\x1b"]),
    "fleet": (["ORDERS/.."], ["ORDERS/..", "--headers", "--vertical"], ["ORDERS/../none\x1b"]),
    "find": (
        ["ORDERS", "--text", "a"],
        ["ORDERS", "--text", "\x1b"],
        ["ORDERS/none\x1b", "--text", "a"],
        ["--fleet", "ORDERS/..", "ORDERS/../none\x1b", "--text", "a"],
    ),
    "erase": (
        ["ORDERS", "NEW\x1b", "--text", "amelia", "--remove", "keys"],
        ["ORDERS", "NEW", "--text", "main", "--remove", "fields"],
        ["ORDERS", "NEW", "--uid", UID[:-1], "--state", STATE, "--where", "true", "--remove", "keys"],
        ["--fleet", "ORDERS/..", "ORDERS/../none\x1b", "NEW\x1b", "--text", "amelia", "--remove", "keys", "--dry-run"],
    ),
    "expire": (["ORDERS", "NEW", "--uid", UID, "--state", STATE, "--ttl", "1h"],),
    "with-ttl": (["ORDERS", "NEW", "--uid", UID, "--state", STATE], ["ORDERS", "NEW", "--uid", UID, "--state", STATE[:-1]]),
    "touch": (["ORDERS", "NEW", "--uid", UID, "--state", STATE],),
    "signature": (["ORDERS", "-o", "NEW\x1b"], ["ORDERS/none\x1b"]),
    "check": (["ORDERS", "--job", "TYPES"], ["TYPES", "--job", "ORDERS"], ["ORDERS", "--job", "none\x1b"]),
    "explain": (["ORDERS"], ["TYPES", "--job", "ORDERS"], ["ORDERS", "--job", "TYPES", "--symptom", "\x1b"], ["ORDERS/none\x1b"]),
    "match": (["ORDERS", "TYPES"], ["TYPES", "ORDERS"], ["ORDERS", "none\x1b"]),
    "sync": (
        ["ORDERS", "--uid", UID, "--state", STATE[:-1], "--to", "NEW.parquet"],
        ["ORDERS/none\x1b", "--uid", "a", "--state", "b", "--to", "NEW"],
    ),
    "serve": (["ORDERS/none\x1b"],),
    "browse": (["ORDERS/none\x1b"],),
    "mcp": (["ORDERS/none\x1b"],),
    "latest": (["ORDERS/../none\x1b"], ["ORDERS/..", "--depth", "0"], ["ORDERS/..", "--kind", "checkpoint"]),
}
"""Arguments of every command that prints something of a snapshot, with and without mistakes."""
WITHOUT_SNAPSHOT = {"warm-up", "completion", "compile-plan", "new", "sample"}
WITH_JSON = {"inspect", "states", "show", "get", "sizes", "diff", "sink-state", "validate", "list", "offsets"}


def test_all_commands_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()

    def noting(self: argparse.ArgumentParser, *_: object) -> argparse.Namespace:
        (commands,) = (a for a in self._actions if isinstance(a, argparse._SubParsersAction))
        seen.update(commands.choices)
        raise SystemExit

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", noting)
    with pytest.raises(SystemExit):
        cli.main([])
    assert seen == COMMANDS.keys() | WITHOUT_SNAPSHOT


def test_the_help_of_a_command_names_its_methods() -> None:
    commands = [
        command for module in set(cli._MODULES.values()) for command in commands_of(import_module(f"state_processor.{module}"))
    ]
    for command in commands:
        for name in command.python:
            root, *others = name.split(".")
            attrgetter(".".join(others))({"sp": sp}.get(root) or getattr(sp.arrow, root))
    assert {command.name for command in commands if not command.python} == {
        "browse",
        "mcp",
        "report",
        "serve",
        "validate",
        "warm-up",
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_control_characters_are_escaped(
    command: str, orders: str, types: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = ""
    for number, given in enumerate(COMMANDS[command]):
        new = str(tmp_path / str(number))
        places = (("ORDERS", orders), ("TYPES", types), ("NEW", new))
        arguments = [command]
        for argument in given:
            for name, path in places:
                argument = argument.replace(name, path)
            arguments.append(argument)
        for more in ([], ["--json"] if command in WITH_JSON and "--vertical" not in given else []):
            cli.main([*arguments, *more])
            out, err = capsys.readouterr()
            assert printable(out.replace("\n", "")) == out.replace("\n", "")
            assert printable(err.replace("\n", "")) == err.replace("\n", "")
            assert err.count("\n") <= 3
            for line in out.splitlines() if more else []:
                json.loads(line)
            shown += out + err
    assert "\\x1b" in shown


def test_json_has_the_names_unchanged(orders: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["states", orders, "--json"]) == 0
    names = [json.loads(line)["state_name"] for line in capsys.readouterr().out.splitlines()]
    assert STATE in names
    row = {"\x9b": "\u202e\x7f\U000e0001\u2028", "é": "字 "}
    assert json_text(row).isprintable()
    assert json.loads(json_text(row)) == row


def test_the_log_is_escaped(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal._LOG, "propagate", False)
    with terminal.printed_log():
        terminal._LOG.warning("class %s", UID)
    terminal._LOG.warning("after it")
    assert capsys.readouterr().err.splitlines()[0] == "state-processor: class \\x1b[2J\\x9b"


def test_a_terminal_in_ascii() -> None:
    encoding = "ascii"
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "60"}
    program = [sys.executable, "-c", "from state_processor.cli import main; raise SystemExit(main())"]
    show = ["show", TYPES_PATH, "--uid", "types", "--state", "string"]
    results = {}
    for options in ([], ["--json"]):
        done = subprocess.run([*program, *show, *options], env=environment, capture_output=True, check=True)
        assert done.stderr == b""
        results[bool(options)] = done.stdout.decode(encoding)
    assert {json.loads(line)["value"] for line in results[True].splitlines()} >= {"ünïcödé ✓", "emoji 😀"}
    rule = results[False].splitlines()[1]
    assert set(rule) == {"-", " "}
    assert max(map(len, results[False].splitlines())) <= 80
    assert subprocess.run([*program, "show", "--help"], env=environment, capture_output=True, check=True).stdout
    wrong = subprocess.run([*program, "inspect", "/ünknown/字"], env=environment, capture_output=True, check=False)
    assert (wrong.returncode, wrong.stderr.count(b"\n")) == (cli.BAD_INPUT, 1)


def test_a_terminal_gets_no_format_with_control_characters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(["export", ORDERS_PATH, "--uid", "orders", "-o", "-", "--format", "csv"]) == cli.BAD_INPUT
    assert "redirect the output" in capsys.readouterr().err
    assert cli.main(["export", ORDERS_PATH, "--uid", "orders", "-o", "-", "--format", "json", "--columns", "key"]) == 0
    assert '"key": "amelia"' in capsys.readouterr().out
