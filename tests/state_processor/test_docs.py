"""What the pages of the documentation show is true: each block of Python runs."""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from importlib import import_module
from inspect import signature
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import griffe
import pytest

import state_processor as sp
from state_processor import serializers
from state_processor.serializers import registrations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if "```python\n" in page.read_text("utf-8"))
SAMPLE = "tests/fixtures/2.3.0/orders-rocksdb-canonical/savepoint"

_BLOCK = re.compile(r"^(?:```python|<!-- before the examples)\n(.*?)^(?:```|-->)", re.MULTILINE | re.DOTALL)
_OF_PAGE = re.compile(r"\A---\nsavepoint: (\S+)\n---\n")
_NOT_RUN = {"kernel.md"}
"""Pages with fragments of code."""


def test_most_pages_have_examples() -> None:
    assert len(PAGES) > 20
    assert {page.name for page in PAGES} >= {"index.md", "fix-values.md", "sinks.md"}


@pytest.mark.spark
@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in _NOT_RUN], ids=lambda page: page.stem)
def test_examples_run(spark: SparkSession, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = page.read_text("utf-8")
    savepoint = _OF_PAGE.match(text)
    names: dict[str, object] = {
        "__name__": "__main__",
        "spark": spark,
        "savepoint": savepoint[1] if savepoint else SAMPLE,
        "target": str(tmp_path / "savepoint"),
    }
    assert "import state_processor as sp" in text or "from state_processor" in text
    with registrations():
        for block in _BLOCK.finditer(text):
            line = text.count("\n", 0, block.start(1))
            exec(compile("\n" * line + block[1], str(page), "exec"), names)


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
    names = ("own_members_first", "dataclass_parameters")
    extensions = griffe.load_extensions(*(ROOT / "docs" / f"{name}.py" for name in names))
    return griffe.load("state_processor", extensions=extensions, search_paths=[ROOT])


def test_the_reference_has_the_parameters_of_dataclasses(reference: Any) -> None:
    for described in DESCRIBED:
        found = attrgetter(described.removeprefix("state_processor."))(sp)
        if is_dataclass(found):
            shown = reference[found.__module__.removeprefix("state_processor.")][found.__qualname__]
            assert [p.name for p in shown.parameters][1:] == [*signature(found).parameters], described


def test_the_reference_begins_with_the_members_that_a_class_defines(reference: Any) -> None:
    first_and_inherited = {"reader.SavepointReader": ("read", "plot_sizes"), "writer.SavepointWriter": ("new", "with_list_state")}
    for name, (first, inherited) in first_and_inherited.items():
        shown = [member for member in reference[name].all_members if not member.startswith("_")]
        assert (shown[0], shown.count(inherited)) == (first, 1)
        own = reference[name].members
        assert [own[member].is_alias for member in shown] == sorted(own[member].is_alias for member in shown)


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
