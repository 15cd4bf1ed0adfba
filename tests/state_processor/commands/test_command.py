"""Commands of installed packages: the example of the documentation, and packages that fail."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from state_processor import cli
from state_processor.commands.command import ENTRY_POINT_GROUP
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
