"""What the pages of the documentation show is true: each block of Python runs."""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from inspect import signature
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import griffe
import pytest

import state_processor as sp
from state_processor import cli, serializers
from state_processor.applications.serving.flight import FlightServer
from state_processor.applications.serving.following import Followed
from state_processor.applications.serving.limits import Limits, Permission
from state_processor.cli import command_parser
from state_processor.serializers import registrations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


def commands_shown(text: str) -> Iterator[tuple[int, str]]:
    """The lines of the blocks of a page that call the command line, with their numbers."""
    language: str | None = None
    joined = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            language = line[3:] if language is None else None
        elif language in ("", "sh") and (joined or re.match(r"(\$ )?state-processor ", line)):
            joined += line.removeprefix("$ ")
            if not joined.endswith("\\"):
                yield number, joined
                joined = ""
            joined = joined.removesuffix("\\")


PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if "```python\n" in page.read_text("utf-8"))
COMMANDS = [
    pytest.param(command, id=f"{page.stem}:{line}")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for line, command in commands_shown(page.read_text("utf-8"))
]

_SESSION = re.compile(r"^(?:\$ )?(state-processor (?!sample)\w+ shop\b.*)\n((?:(?!\$ |```|state-processor ).*\n)*)", re.MULTILINE)
"""A command on the sample, and what it prints."""
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
NOT_RUN = {"kernel.md"}
"""Pages with fragments of code."""


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_pages_are_accepted(command: str) -> None:
    arguments = shlex.split(command, comments=True)[1:]
    assert command_parser(arguments[0]).parse_args(arguments).run


def test_commands_on_the_sample_print_what_pages_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    assert cli.main(["sample", "shop"]) == 0
    run = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for command, shown in _SESSION.findall(page.read_text("utf-8")):
            monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(re.findall(r"^sql> (.*)$", shown, re.MULTILINE))))
            capsys.readouterr()
            assert cli.main(shlex.split(command)[1:]) == 0, page
            answers = re.sub(r"^sql> .*$", "", shown, flags=re.MULTILINE).split()
            assert capsys.readouterr().out.split() == answers or not answers, page
            run.append(command)
    assert len(run) >= 4


def test_the_sample_is_what_flink_wrote() -> None:
    fixture = ROOT / "tests" / "fixtures" / "2.3.0" / "orders-rocksdb-canonical" / "savepoint"
    files, written = ({f.name: f.read_bytes() for f in Path(where).iterdir()} for where in (sp.sample_savepoint(), fixture))
    assert files == written
    assert sum(map(len, files.values())) < 300_000


def test_every_block_of_python_runs() -> None:
    """Blocks that :func:`test_examples_run` does not run are parts of Python, or run elsewhere."""
    elsewhere = {
        "extending.md": 1,  # a field of a dataclass
        "kernel.md": 1,  # a fragment of a serializer
        "scaling.md": 1,  # a session of Spark Connect
        "custom-connectors.md": 1,  # a part of the module of a plug-in
        "test-a-job.md": 4,  # tests/state_processor/testing/test_plugin.py and tests/interop/test_tests_of_jobs.py
    }
    pages = sorted((ROOT / "docs").rglob("*.md"))
    blocks = {page: re.findall(r"^ *```py(?:thon)?$", page.read_text("utf-8"), re.MULTILINE) for page in pages}
    run = {page: len(_BLOCK.findall(page.read_text("utf-8"))) for page in PAGES if page.name not in NOT_RUN}
    left = {page.name: len(found) - run.get(page, 0) for page, found in blocks.items()}
    assert {name: count for name, count in left.items() if count} == elsewhere
    assert sum(run.values()) > 140


def test_most_pages_have_examples() -> None:
    assert len(PAGES) > 20
    assert {page.name for page in PAGES} >= {"index.md", "fix-values.md", "sinks.md"}


@pytest.mark.spark
@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in NOT_RUN], ids=lambda page: page.stem)
def test_examples_run(spark: SparkSession, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = page.read_text("utf-8")
    savepoint, target = sp.sample_savepoint(), str(tmp_path / "savepoint")
    names: dict[str, object] = {"__name__": "__main__", "spark": spark, "savepoint": savepoint, "target": target}
    if page.name == "serve.md":  # its command runs until it is stopped
        server = FlightServer(("127.0.0.1", 0), Followed(savepoint, {}), Permission.of("127.0.0.1", None), Limits())
        names["server"], text = server, text.replace("127.0.0.1:8815", f"127.0.0.1:{server.port}")
    with registrations():
        for block in _BLOCK.finditer(text):
            line = text.count("\n", 0, block.start(1))
            exec(compile("\n" * line + block[1], str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_say_that_their_examples_need_the_repository(page: Path) -> None:
    """The tests add no other names than the first page of the documentation explains."""
    text = page.read_text("utf-8")
    needs = any("tests" in block for block in _BLOCK.findall(text))
    assert needs == ("in a checkout of the repository" in text)


REFERENCE = "".join(page.read_text("utf-8") for page in sorted((ROOT / "docs" / "reference").glob("*.md")))
DESCRIBED = re.findall(r"^::: (\S+)$", REFERENCE, re.MULTILINE)
_FILES = {name: ROOT / name.replace(".", "/") for name in DESCRIBED}
MODULES = [name for name, file in _FILES.items() if file.is_dir() or file.with_suffix(".py").is_file()]


@pytest.mark.parametrize("name", MODULES)
def test_an_import_of_all_names_gives_those_of_the_reference(name: str) -> None:
    """The reference has the names in ``__all__``, and other names that the module itself defines."""
    module = import_module(name)
    defined = {n for n, v in vars(module).items() if n[0] != "_" and getattr(v, "__module__", "") == name and v.__doc__}
    imported: dict[str, object] = {}
    exec(f"from {name} import *", imported)
    assert imported.keys() - {"__builtins__"} == {*module.__all__} == defined | {*module.__all__}
    assert list(module.__all__) == sorted(module.__all__, key=lambda n: (not n.isupper(), not n[0].isupper(), n))
    assert f"::: {name}\n    options:" not in REFERENCE


@pytest.fixture(scope="module")
def reference() -> Any:
    """The package as the pages of the reference show it."""
    names = ("full_signatures", "own_members_first")
    extensions = griffe.load_extensions(*(ROOT / "docs" / f"{name}.py" for name in names))
    return griffe.load("state_processor", extensions=extensions, search_paths=[ROOT])


@pytest.mark.spark
def test_the_reference_has_the_parameters_of_dataclasses(reference: Any) -> None:
    for described in DESCRIBED:
        found = attrgetter(described.removeprefix("state_processor."))(sp)
        if is_dataclass(found):
            shown = reference[found.__module__.removeprefix("state_processor.")][found.__qualname__]
            assert [p.name for p in shown.parameters][1:] == [*signature(found).parameters], described


@pytest.mark.parametrize(
    "name", ["arrow.read_state", "reader.SavepointReader.read_keyed_state", "writer.SavepointWriter.new", "duckdb.query"]
)
def test_the_reference_lists_and_describes_options(reference: Any, name: str) -> None:
    function = reference[name]
    assert "**options" not in function.docstring.value
    named = [p.name for p in function.parameters if p.name not in ("self", "cls")]
    assert len(named) > 5
    assert [p for p in named if not re.search(rf"\b{p}\b", function.docstring.value)] == []


def test_the_reference_shows_the_values_of_defaults(reference: Any) -> None:
    defaults = {p.name: p.default for p in reference["writer.SavepointWriter.new"].parameters}
    assert (defaults["max_parallelism"], defaults["flink_version"]) == ("128", "'1.20'")
    assert reference["arrow.read_state"].parameters["nanos"].default == "'check'"


def test_the_reference_begins_with_the_members_that_a_class_defines(reference: Any) -> None:
    first_and_inherited = {"reader.SavepointReader": ("read", "plot_sizes"), "writer.SavepointWriter": ("new", "with_list_state")}
    for name, (first, inherited) in first_and_inherited.items():
        shown = [member for member in reference[name].all_members if not member.startswith("_")]
        assert (shown[0], shown.count(inherited)) == (first, 1)
        own = reference[name].members
        assert [own[member].is_alias for member in shown] == sorted(own[member].is_alias for member in shown)


@pytest.mark.spark
def test_every_public_name_is_in_the_reference() -> None:
    described = {name.removeprefix("state_processor.") for name in DESCRIBED}
    public = {name for name in sp.__all__ if getattr(sp.errors, name, None) is None}
    assert public - described == {"SchemaCompatibility"}
    assert "SchemaCompatibility" in serializers.__all__
    assert {name.removeprefix("state_processor.") for name in MODULES} == {
        "arrow",
        "connectors",
        "duckdb",
        "errors",
        "polars",
        "pyflink",
        "serializers",
    }
    imported: dict[str, object] = {}
    exec("from state_processor import *", imported)
    assert imported.keys() - {"__builtins__"} == {*sp.__all__}
