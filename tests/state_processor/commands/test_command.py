"""Functions that commands call with their arguments, and commands of installed packages."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

import pytest

from state_processor import OperatorIdentifier, cli
from state_processor.backends.read.read_options import Kind
from state_processor.commands.command import (
    ANY_OPERATOR,
    DIRECTORY,
    ENTRY_POINT_GROUP,
    Argument,
    argument,
    arguments_of,
    call,
    defaults_of,
    flags,
    repeated,
    switch,
)
from state_processor.options.groups import DirectoryOptions
from state_processor.options.keywords import takes_options
from tests.state_processor.samples import ORDERS_PATH

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
    assert [*rows[0]] == ["operator_name", "operator_uid", "operator_total_size_in_bytes"]
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
    """Return the arguments."""
    return {"directory": directory, "uid": uid, "top": top, "unit": unit, "names": names, "full": full, **options}


_OF_SIZES: tuple[Argument, ...] = (
    DIRECTORY,
    ANY_OPERATOR,
    argument("--top", type=int),
    argument("--unit"),
    repeated("--name", "a name", dest="names"),
    switch("--fast", "skip parts", clears="full"),
    switch("--json", "as JSON"),
    flags(Kind.SNAPSHOTS),
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
    assert arguments_of(_sizes, _parsed("jobs")) == {"directory": "jobs", "names": [], "full": True}
    assert call(_sizes, _parsed("jobs"))["top"] == 5


def test_a_parameter_without_a_default_is_none_if_its_argument_is_not_given() -> None:
    def unit(unit: str | None) -> str | None:
        return unit

    assert call(unit, _parsed("jobs")) is None


def test_a_flag_that_the_function_does_not_have_is_not_dropped() -> None:
    with pytest.raises(TypeError, match="path_mapping"):
        call(lambda directory: directory, _parsed("jobs", "--map", "s3://old=/new"))


def test_arguments_have_the_defaults_of_the_function() -> None:
    with_defaults = (*_OF_SIZES, defaults_of(_sizes))
    assert vars(_parsed("jobs", arguments=with_defaults)).items() >= {"top": 5, "unit": None, "full": True}.items()
    assert _parsed("jobs", "--top", "3", "--fast", arguments=with_defaults).top == 3
    assert _parsed(arguments=(argument("--top", default=1), defaults_of(_sizes))).top == 1
