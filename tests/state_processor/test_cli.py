from __future__ import annotations

import importlib
import json
import pkgutil
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from state_processor import applications, backends, cli, serializers
from state_processor.cli import BAD_INPUT, SHELLS, main, names_on_line
from state_processor.display.text_tables import display_width
from state_processor.serializers.kernel import compiler
from state_processor.serializers.kernel.compiler import DeclaredKernel, EntryPoint
from tests.state_processor.samples import ORDERS, ORDERS_PATH, TYPES, TYPES_PATH, WINDOWS_PATH, expected_state, expected_values
from tests.waiting import SECONDS


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in run(capsys, *arguments, "--json").splitlines()]


@pytest.mark.parametrize("spelling", ["key_group", "key-group", "KEY_GROUP"])
def test_choices_have_the_spellings_of_python_and_of_flags(spelling: str) -> None:
    assert cli.command_parser("sizes").parse_args(["sizes", ORDERS_PATH, "--by", spelling]).by == "key_group"
    assert cli.command_parser("history").parse_args(["history", ".", "--by", spelling]).by == "key_group"
    assert cli.command_parser("convert").parse_args(["convert", "a", "b", "--format", "Native"]).format == "native"


def test_inspect(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "inspect", ORDERS_PATH)
    assert out.startswith("checkpoint 1, 5 operators\n")
    (line,) = (line for line in out.splitlines() if line.startswith("orders ") or " orders " in line)
    assert "bc4197a480c92c793190a9f8c0afc54c" in line or "…" in line
    assert line.endswith("KiB")
    by_uid = {r["operator_uid"]: r for r in run_json(capsys, "inspect", ORDERS_PATH)}
    assert by_uid["orders"]["operator_parallelism"] == 2
    assert by_uid["orders"]["operator_uid_hash"] == "bc4197a480c92c793190a9f8c0afc54c"


def test_files(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "inspect", ORDERS_PATH, "--files")
    assert len([line for line in out.splitlines() if "managed keyed" in line]) == 2
    for row in run_json(capsys, "inspect", "--files", ORDERS_PATH):
        assert (Path(ORDERS_PATH) / str(row["path"])).stat().st_size == row["size_in_bytes"]


def test_states(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "states", ORDERS_PATH)
    assert [line for line in out.splitlines() if line.startswith("operator ")] == ["operator orders", "operator catalog"]
    assert "VOID_NAMESPACE" not in out
    of_catalog = run(capsys, "states", ORDERS_PATH, "--uid", "catalog")
    assert of_catalog.startswith("operator catalog")
    assert "orders" not in of_catalog
    assert "TIME_WINDOW" in run(capsys, "states", WINDOWS_PATH)
    kinds = {r["state_name"]: r["state_kind"] for r in run_json(capsys, "states", ORDERS_PATH)}
    assert (kinds["total"], kinds["items"], kinds["discounts"]) == ("VALUE", "MAP", "BROADCAST")


def test_a_name_in_place_of_a_uid(capsys: pytest.CaptureFixture[str]) -> None:
    unnamed = str(Path(__file__).parents[2] / "tests" / "fixtures" / "without-uids" / "savepoint")
    assert cli.main(["show", unnamed, "--uid", "KeyedProcess"]) == 2
    hash_ = "21ba4176628e90b2becc6e42249d6acb"
    assert f"no operator has the uid 'KeyedProcess'; this is in the name of '{hash_}'" in capsys.readouterr().err


def test_tables_fit_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["inspect"], ["inspect", "--files"], ["states"], ["show", "--uid", "orders"]):
        out = run(capsys, *arguments, ORDERS_PATH)
        assert max(map(display_width, out.splitlines())) <= 100


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    rows = run_json(capsys, "show", ORDERS_PATH, "--uid", "orders", "--state", "total", "--limit", "1000")
    assert {r["key"]: r["value"] for r in rows} == expected_values(ORDERS, "orders", "total")
    out = run(capsys, "show", ORDERS_PATH, "--uid", "orders", "--state", "total", "--limit", "3").splitlines()
    assert len(out) == 6
    assert out[-1] == "… only the first 3 rows; --limit shows more"
    assert "only the first" not in run(capsys, "show", ORDERS_PATH, "--uid", "orders", "--state", "total", "--limit", "50")


def test_show_whole_operator_by_hash(capsys: pytest.CaptureFixture[str]) -> None:
    rows = run_json(capsys, "show", ORDERS_PATH, "--uid-hash", "bc4197a480c92c793190a9f8c0afc54c", "--key", "amelia")
    assert [(r["key"], r["total"], r["items"]) for r in rows] == [("amelia", 3950, [["teapot", 1]])]


def test_show_keys_of_other_types(capsys: pytest.CaptureFixture[str]) -> None:
    rows = run_json(capsys, "show", TYPES_PATH, "--uid", "types", "--state", "long", "--key", "0", "--key", "1")
    assert {r["key"]: r["value"] for r in rows} == {0: -(2**63), 1: -1}


def test_keys_of_another_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", TYPES_PATH, "--uid", "types", "--state", "long", "--key", '["0", "1"]']) == cli.BAD_INPUT
    assert "state 'long' has keys of type INT, found ['0', '1'] of type list" in capsys.readouterr().err


def test_show_all_digits_of_times(capsys: pytest.CaptureFixture[str]) -> None:
    rows = run_json(capsys, "show", TYPES_PATH, "--uid", "types", "--state", "instant")
    assert {r["key"]: r["value"] for r in rows} == expected_values(TYPES, "types", "instant")


def test_show_timers_and_nested(capsys: pytest.CaptureFixture[str]) -> None:
    timers = run_json(capsys, "show", ORDERS_PATH, "--uid", "orders", "--timers", "--limit", "100")
    assert {(r["key"], r["timestamp"]) for r in timers} == {
        (e["key"], e["timestamp"]) for e in expected_state(ORDERS, "orders", "user-timers")["entries"]
    }
    arguments = ("--uid", "orders", "--state", "history", "--no-flatten", "--metadata", "--key", "anders")
    (row,) = run_json(capsys, "show", ORDERS_PATH, *arguments)
    assert (row["value"], row["_subtask"]) == (expected_values(ORDERS, "orders", "history")["anders"], row["_subtask"])
    assert row.keys() == {"key", "value", "_key_group", "_subtask", "_last_access"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "/does/not/exist"], "/does/not/exist is not a directory"),
        (["inspect", "/does/not/exist"], "/does/not/exist does not exist"),
        (["states", str(ORDERS)], "Snapshots below it"),
        (["show", ORDERS_PATH, "--uid", "order"], "Did you mean 'orders'"),
        (["show", ORDERS_PATH, "--uid", "orders", "--state", "totl"], "Did you mean 'total'"),
        (["show", ORDERS_PATH, "--uid-hash", "orders"], "32 hexadecimal digits"),
        (["inspect", ORDERS_PATH, "--map", "old"], "OLD=NEW"),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("state-processor: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err


@pytest.mark.parametrize(
    "arguments", [[], ["show", ORDERS_PATH], ["show", ORDERS_PATH, "--uid", "x", "--limit", "0"], ["unknown"]]
)
def test_bad_usage(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_spark_is_not_started_and_pipes_may_close() -> None:
    script = (
        "import sys\n"
        "from state_processor.cli import main\n"
        f"code = main(['show', {ORDERS_PATH!r}, '--uid', 'orders', '--json', '--limit', '1000'])\n"
        "print('pyspark' in sys.modules, file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=SECONDS)
    assert (err.strip(), process.returncode) == ("False", 0)


def _kernels() -> set[DeclaredKernel]:
    names = [
        m.name for package in (serializers, backends) for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    root = Path(applications.__file__).parents[2]
    files = sorted(Path(applications.__file__).parent.rglob("*.py"))
    compiled = [file for file in files if "serializers.kernel.compiler" in file.read_text("utf-8")]  # others may need Spark
    names += [".".join(file.relative_to(root).with_suffix("").parts) for file in compiled]
    values = [value for name in names for value in vars(importlib.import_module(name)).values()]
    return {value for value in values if isinstance(value, DeclaredKernel)}


def test_warm_up_compiles_every_kernel(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: set[DeclaredKernel] = set()
    for kind in (DeclaredKernel, EntryPoint):
        monkeypatch.setattr(kind, "compile", lambda kernel: compiled.add(kernel))
    out = run(capsys, "warm-up")
    assert compiled == _kernels()
    assert out.startswith(f"{len(compiled)} kernels in ")
    monkeypatch.setattr(DeclaredKernel, "is_new", True)
    monkeypatch.setattr(compiler, "writable_folder", lambda: None)
    assert cli.main(["warm-up"]) == 2
    assert "name a directory with the environment variable STATE_PROCESSOR_CACHE" in capsys.readouterr().err


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
