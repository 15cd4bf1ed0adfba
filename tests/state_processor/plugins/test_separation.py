"""A plug-in can be taken out as a whole: nothing outside of its folders names it, and its tests take few modules along."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from state_processor.support.plugin_table import PLUGINS
from tests.generated import GENERATED

ROOT = Path(__file__).parents[3]
MODULES = ROOT / "state_processor" / "plugins"
TESTS = ROOT / "tests" / "state_processor" / "plugins"
PAGES = ROOT / "docs" / "plugins"
NAMES = sorted(path.stem for path in MODULES.glob("[!_]*") if path.suffix == ".py" or (path / "__init__.py").is_file())
MAY_NAME = {*GENERATED, "CHANGELOG.md"}
"""Files that name plug-ins beside the row in the table, which has names below ``state_processor.plugins``."""
SHARED = re.compile(
    r"tests\.(backends\.(state_files|connectors\.(content_strategies|java_data|layout_tests|sink_rows|source_operators|source_tests))"
    r"|serializers\.harness|interop\.(flink|flink_jars))"
)
"""Modules of tests that are copied with a plug-in that leaves the tree."""
_CLASSES = re.compile(r"^class (\w+)", re.MULTILINE)
_QUOTED = re.compile(r'"([A-Z]\w+)"')
_IMPORTS = re.compile(r"^ *from (tests[\w.]*) import \(?\s*(\w+)", re.MULTILINE)


def folders(name: str) -> tuple[str, ...]:
    """Return what is taken out with a plug-in."""
    modules, tests, pages = (str(folder.relative_to(ROOT) / name) for folder in (MODULES, TESTS, PAGES))
    return f"{modules}/", f"{modules}.py", f"{tests}/", f"{pages}.md"


@cache
def texts() -> dict[str, str]:
    """Return the modules, tests and pages of the repository, and its settings."""
    rooms = (ROOT / room for room in ("state_processor", "serializers", "backends", "tests", "docs", "bench"))
    files = [path for room in rooms for path in room.rglob("*") if path.suffix in (".py", ".pyi", ".md", ".json")]
    files += [*ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "mkdocs.yml"]
    by_path = {str(path.relative_to(ROOT)): path for path in files if "fixtures" not in path.parts}
    return {name: path.read_text("utf-8") for name, path in by_path.items() if name not in MAY_NAME}


@cache
def classes() -> dict[str, set[str]]:
    """Return the files that define each class."""
    files: dict[str, set[str]] = {}
    for path, text in texts().items():
        for name in _CLASSES.findall(text) if path.endswith(".py") else ():
            files.setdefault(name, set()).add(path)
    return files


@cache
def naming_classes() -> dict[str, set[str]]:
    """Return the files that have the name of a class of a plug-in as text, such as lists of classes in tests."""
    of_plugins = {name for name, paths in classes().items() if any(path.startswith("state_processor/plugins/") for path in paths)}
    files: dict[str, set[str]] = {}
    for path, text in texts().items():
        for name in of_plugins.intersection(_QUOTED.findall(text)):
            files.setdefault(name, set()).add(path)
    return files


@pytest.mark.parametrize("name", NAMES)
def test_nothing_outside_names_a_plugin(name: str) -> None:
    naming = re.compile(rf"plugins[./]{name}\b")
    assert [path for path, text in texts().items() if naming.search(text) and not path.startswith(folders(name))] == []


@pytest.mark.parametrize("name", NAMES)
def test_nothing_outside_names_a_class_of_a_plugin(name: str) -> None:
    own = [c for c, paths in classes().items() if all(path.startswith(folders(name)) for path in paths)]
    naming = {c: [path for path in naming_classes().get(c, ()) if not path.startswith(folders(name))] for c in own}
    assert {c: paths for c, paths in naming.items() if paths} == {}


@pytest.mark.parametrize("name", NAMES)
def test_tests_of_a_plugin_import_what_can_be_copied(name: str) -> None:
    own = f"tests.state_processor.plugins.{name}."
    tests = [text for path, text in texts().items() if path.startswith(folders(name)[2])]
    modules = [f"{package}.{module}" for text in tests for package, module in _IMPORTS.findall(text)]
    assert [module for module in modules if not (module.startswith(own) or SHARED.match(module))] == []


def test_plugins_have_tests() -> None:
    assert [name for name in NAMES if not [*TESTS.glob(f"{name}/test_*.py")]] == []


@pytest.mark.parametrize("module", [plugin.connectors for plugin in PLUGINS if plugin.connectors])
def test_plugins_test_their_layouts(module: str) -> None:
    connectors = import_module(f"state_processor.plugins.{module}").CONNECTORS
    name = module.partition(".")[0]
    tests = "".join(text for path, text in texts().items() if path.startswith(folders(name)[2]))
    assert ("(LayoutTests):" in tests) == any(connector.layouts for connector in connectors)
