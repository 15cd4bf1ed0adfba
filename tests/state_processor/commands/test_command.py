"""Functions that commands call with their arguments, and commands of installed packages."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa
import pytest

from state_processor import OperatorIdentifier, cli
from state_processor.backends.read.read_options import Kind
from state_processor.commands.command import (
    ANY_OPERATOR,
    ENTRY_POINT_GROUP,
    Argument,
    argument,
    arguments_of,
    call,
    flags,
    parameters_of,
    print_json,
    print_table,
    repeated,
    switch,
)
from state_processor.options.groups import DirectoryOptions
from state_processor.options.keywords import takes_options
from tests.state_processor.samples import FIXTURES, ORDERS_PATH, TYPES_PATH

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "build-an-application.md"
Installing = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installing:
    """Installs the module ``acme_sizes`` of a text, with entry points."""

    def installing(module: str, points: str) -> None:
        (tmp_path / "acme_sizes.py").write_text(module)
        metadata = tmp_path / "acme_sizes-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-sizes\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text(points)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "acme_sizes", raising=False)

    return installing


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(text)


@pytest.fixture
def _example(install: Installing) -> None:
    points = block("toml").replace('[project.entry-points."state_processor.commands"]', f"[{ENTRY_POINT_GROUP}]")
    install(block("python"), points.replace('"', ""))


@pytest.mark.usefixtures("_example")
def test_the_example_prints_rows_and_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["large-operators", ORDERS_PATH, "--bytes", "1", "--json"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0].keys() >= {"operator_name", "operator_uid", "operator_total_size_in_bytes"}
    assert {"orders"} <= {row["operator_uid"] for row in rows}
    sizes = [row["operator_total_size_in_bytes"] for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert cli.main(["large-operators", ORDERS_PATH, "--bytes", "1"]) == 1
    assert "operator_total_size_in_bytes" in capsys.readouterr().out
    assert cli.main(["large-operators", ORDERS_PATH]) == 0
    assert cli.main(["large-operators", f"{ORDERS_PATH}-lost"]) == 2
    assert "state-processor: " in capsys.readouterr().err


@pytest.mark.usefixtures("_example")
def test_the_help_lists_the_example() -> None:
    assert re.search(r"^    large-operators +operators above a size$", cli.command_parser().format_help(), re.MULTILINE)


@pytest.mark.usefixtures("_example")
def test_a_built_in_command_does_not_import_packages() -> None:
    assert cli.main(["states", ORDERS_PATH]) == 0
    assert "acme_sizes" not in sys.modules


@pytest.mark.parametrize(
    ("module", "points", "problem"),
    [
        ("", "lost = acme_sizes:lost", "lost (acme_sizes:lost) failed with AttributeError: module 'acme_sizes' has no attribute"),
        (
            "raise ValueError('no such file')",
            "broken = acme_sizes:run",
            "broken (acme_sizes:run) failed with ValueError: no such",
        ),
        ("run = print", "plain = acme_sizes:run", "plain (acme_sizes:run) is of type builtin_function_or_method, not a function"),
        (
            block("python").replace('python=("acme_sizes.large_operators"', 'python=("acme_sizes.largest"'),
            "large-operators = acme_sizes:show_large_operators",
            "failed with AttributeError: module 'acme_sizes' has no attribute 'largest'",
        ),
        (
            block("python").replace('python=("acme_sizes.large_operators"', 'python=("acme_sizes.__name__"'),
            "large-operators = acme_sizes:show_large_operators",
            "names acme_sizes.__name__ for Python, which is not a function",
        ),
        (block("python"), "sizes-of = acme_sizes:show_large_operators", "has another name than its command, large-operators"),
        (
            block("python").replace('"large-operators"', '"states"'),
            "states = acme_sizes:show_large_operators",
            "has the name of a command of this package",
        ),
    ],
)
def test_packages_that_fail_are_named(
    install: Installing, capsys: pytest.CaptureFixture[str], module: str, points: str, problem: str
) -> None:
    install(module, f"[{ENTRY_POINT_GROUP}]\n{points}\n")
    assert "large-operators" not in cli.command_parser().format_help()
    message = capsys.readouterr().err
    assert problem in message
    assert "the command is not known" in message
    assert cli.main(["states", ORDERS_PATH]) == 0


@takes_options
def _sizes(
    directory: str,
    uid: str | OperatorIdentifier | None = None,
    top: int = 5,
    unit: str | None = None,
    names: tuple[str, ...] = (),
    *,
    full: bool = True,
    **options: Unpack[DirectoryOptions],
) -> dict[str, Any]:
    """Return the arguments.

    Parameters
    ----------
    directory
        A directory, as :func:`~state_processor.list_snapshots` searches it: ``chk-1``, 50 %. It exists.
    uid
        One operator.
    """
    return {"directory": directory, "uid": uid, "top": top, "unit": unit, "names": names, "full": full, **options}


_OF_SIZES: tuple[Argument, ...] = (
    ANY_OPERATOR,
    argument("--top", type=int),
    argument("--unit"),
    repeated("--name", "a name", dest="names"),
    switch("--fast", "skip parts", clears="full"),
    switch("--json", "as JSON"),
    flags(Kind.SNAPSHOTS),
    parameters_of(_sizes),
)


def _parsed(*words: str, arguments: tuple[Argument, ...] = _OF_SIZES) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for add in arguments:
        add(parser)
    return parser.parse_args(words)


def test_a_function_gets_the_arguments_with_the_names_of_its_parameters() -> None:
    words = ("jobs", "--uid-hash", "0" * 32, "--top", "3", "--name", "a", "--name", "b", "--fast", "--json")
    assert call(_sizes, _parsed(*words, "--map", "s3://old=/new")) == {
        "directory": "jobs",
        "uid": OperatorIdentifier.for_uid_hash("0" * 32),
        "top": 3,
        "unit": None,
        "names": ["a", "b"],
        "full": False,
        "path_mapping": {"s3://old": "/new"},
    }
    assert call(_sizes, _parsed("jobs", "--uid", "orders"), directory="others")["uid"] == OperatorIdentifier.of("orders")
    assert call(_sizes, _parsed("jobs", "--uid", "orders"), directory="others")["directory"] == "others"


def test_arguments_that_are_not_given_are_left_to_the_function() -> None:
    without_defaults = (argument("directory"), *_OF_SIZES[:-1])
    assert arguments_of(_sizes, _parsed("jobs", arguments=without_defaults)) == {"directory": "jobs", "names": [], "full": True}
    assert call(_sizes, _parsed("jobs", arguments=without_defaults))["top"] == 5


def test_a_parameter_without_a_default_is_none_if_its_argument_is_not_given() -> None:
    def unit(unit: str | None) -> str | None:
        return unit

    assert call(unit, _parsed("jobs")) is None


def test_a_flag_that_the_function_does_not_have_is_not_dropped() -> None:
    with pytest.raises(TypeError, match="path_mapping"):
        call(lambda directory: directory, _parsed("jobs", "--map", "s3://old=/new"))


def test_arguments_have_the_defaults_of_the_function() -> None:
    assert vars(_parsed("jobs")).items() >= {"top": 5, "unit": None, "full": True}.items()
    assert _parsed("jobs", "--top", "3", "--fast").top == 3
    assert _parsed("jobs", arguments=(argument("--top", default=1), parameters_of(_sizes))).top == 1


def _positionals(function: Callable[..., Any], *arguments: Argument) -> list[argparse.Action]:
    parser = argparse.ArgumentParser()
    for add in (*arguments, parameters_of(function)):
        add(parser)
    return [action for action in parser._actions if not action.option_strings]


def test_required_parameters_without_a_flag_are_positional_arguments() -> None:
    def between(old: str, new: str, uid: str, depth: int = 4, *, full: bool = False, **options: Any) -> None:
        """Do nothing."""

    assert [action.dest for action in _positionals(between, argument("--uid"))] == ["old", "new"]
    assert [action.dest for action in _positionals(between)] == ["old", "new", "uid"]
    assert [(action.dest, action.metavar) for action in _positionals(_sizes)] == [("directory", "DIRECTORY")]


def test_the_first_parameter_may_be_optional() -> None:
    def explained(snapshot: str | None = None, error: str | None = None) -> str | None:
        return snapshot

    for words, snapshot in (((), None), (("savepoint",), "savepoint")):
        assert call(explained, _parsed(*words, arguments=(parameters_of(explained),))) == snapshot


def test_annotations_say_how_many_words_and_which() -> None:
    def of_several(paths: Path | Sequence[Path], number: int) -> None:
        """Do nothing."""

    options = _parsed("a", "b", "3", arguments=(parameters_of(of_several),))
    assert (options.paths, options.number) == (["a", "b"], 3)
    with pytest.raises(SystemExit):
        _parsed("a", "-1", arguments=(parameters_of(of_several),))


def test_the_help_of_a_positional_argument_is_in_the_docstring() -> None:
    (directory,) = _positionals(_sizes)
    assert directory.help == "a directory, as list_snapshots searches it: chk-1, 50 %%"
    assert [action.help for action in _positionals(lambda path: path)] == [""]


@dataclass(frozen=True)
class _File:
    path: str
    size: int
    modified: datetime | None = None
    users: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Report:
    files: tuple[_File, ...]

    def records(self) -> Iterator[_File]:
        return iter(self.files)


FILE = _File("a", 3, datetime(2026, 1, 2, tzinfo=UTC), ("chk-1",))
LINE = '{"path": "a", "size_in_bytes": 3, "modified": "2026-01-02T00:00:00Z", "users": ["chk-1"]}\n'


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        (FILE, LINE),
        ([FILE, FILE], LINE * 2),
        (iter([FILE]), LINE),
        (_Report((FILE,)), LINE),
        ([{"file": FILE}], f'{{"file": {LINE.strip()}}}\n'),
        (pa.table({"key": [b"\x01", None]}), '{"key": "01"}\n{"key": null}\n'),
        ([], ""),
    ],
)
def test_lines_of_json(value: Any, lines: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_json(value)
    assert capsys.readouterr().out == lines


def test_json_instead_of_a_table_is_the_value(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"path": "a"}]
    print_table(["path"], rows, argparse.Namespace(json=True), value=[FILE])
    print_table(["path"], rows, argparse.Namespace(json=True))
    assert capsys.readouterr().out == f'{LINE}{{"path": "a"}}\n'
    print_table(["path"], rows, argparse.Namespace(vertical=False))
    assert capsys.readouterr().out.split() == ["path", "────", "a"]


JOBS = str(FIXTURES / "running")
SINK = str(FIXTURES / "sinks" / "2.3.0")
PRINTED: dict[str, tuple[str, ...]] = {
    "list": (JOBS,),
    "history": (JOBS,),
    "fleet": (JOBS,),
    "sizes": (ORDERS_PATH, "--top", "2"),
    "sink-state": (SINK, "--uid", "rolling"),
    "explain": (TYPES_PATH, "--job", ORDERS_PATH),
    "check": (ORDERS_PATH, "--job", TYPES_PATH),
    "files": (JOBS,),
    "orphans": (JOBS, "--older-than", "0s"),
    "retain": (JOBS, "--keep", "1", "--older-than", "0s"),
    "dispose": (ORDERS_PATH, "--older-than", "0s"),
}
"""Commands that print with ``--json`` what their function returns."""
PRINTED_OTHERWISE = {
    "inspect": "operators have their kinds",
    "states": "types of PyFlink are advised",
    "show": "the first rows only",
    "get": "the rows of all states, with the names of the states",
    "offsets": "printed as the rows of sink-state are; no fixture has a source",
    "diff": "the states that differ, or the first values",
    "find": "places, state that was searched as bytes, and jobs with --fleet",
    "erase": "one document, as --report writes it",
    "match": "one document, which rename-uid --mapping takes",
    "sync": "one commit after the other with --follow",
    "sql": "a query may be left out, for a prompt",
}


def test_all_commands_with_json_are_tried() -> None:
    with_json = set()
    for command in cli._commands(None):
        parser = argparse.ArgumentParser()
        for add in command.arguments:
            add(parser)
        if command.function is not None and any(action.dest == "json" for action in parser._actions):
            with_json.add(command.name)
    assert with_json == PRINTED.keys() | PRINTED_OTHERWISE.keys()


@pytest.mark.parametrize("name", PRINTED)
def test_json_is_what_the_function_returns(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [name, *PRINTED[name], "--json"]
    (command,) = cli._commands(name)
    assert command.function is not None
    value = call(command.function, cli.command_parser(name).parse_args(words))
    capsys.readouterr()
    print_json(value)
    expected = capsys.readouterr().out
    cli.main(words)
    printed = capsys.readouterr().out
    age = re.compile(r'"age_seconds": [0-9.]+')
    assert age.sub("", printed) == age.sub("", expected)
    assert printed
