"""Documents name existing files, and generated documents are current."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from tests.generated import GENERATED, text

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PREFIXES = (
    *("", "serializers/", "serializers/core/", "state_processor/", "state_processor/write/", "state_processor/applications/"),
    *("backends/connectors/", "backends/formats/", "state_processor/applications/flink_sql/"),
    *(f"state_processor/plugins/{folder.name}/" for folder in ROOT.glob("state_processor/plugins/[!_]*")),
)
"""Folders that a path may leave out where the text before it names them."""

_FILES = re.compile(r"`([\w./-]+\.(?:py|md))`")
_FOLDERS = re.compile(r"`([\w./-]+/)`")
_NAMES = re.compile(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`")
_TESTS = re.compile(r"\btests/[\w./-]*\w")
_MODULES = re.compile(r"python -m (tests[\w.]+\w)")
_LINKS = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
_SECTIONS = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")
_HEADINGS = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FENCES = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_exist(document: Path) -> None:
    text = document.read_text("utf-8")
    folders = [line.rpartition("/")[0] + "/" for line in _FILES.findall(text) if "/" in line]
    prefixes = {*PREFIXES, *folders, *(f"serializers/{folder}" for folder in folders)}
    missing = [name for name in _FILES.findall(text) if not any((ROOT / prefix / name).is_file() for prefix in prefixes)]
    assert not missing
    modules = [name.replace(".", "/") for name in _MODULES.findall(text)]
    assert not [name for name in modules if not ((ROOT / name).is_dir() or (ROOT / f"{name}.py").is_file())]
    assert not [name for name in _TESTS.findall(text) if not (ROOT / name).exists()]
    assert not [link for link in _LINKS.findall(text) if not (document.parent / link).exists()]


def anchors(document: Path) -> set[str]:
    """Return the anchors that the site gives to the headings of a page."""
    headings = _HEADINGS.findall(_FENCES.sub("", document.read_text("utf-8")))
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower(), flags=re.ASCII).strip()) for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_sections(document: Path) -> None:
    sections = _SECTIONS.findall(_FENCES.sub("", document.read_text("utf-8")))
    assert [
        (page, section) for page, section in sections if section not in anchors(document.parent / page if page else document)
    ] == []


@pytest.mark.parametrize("index", ["mkdocs.yml", "docs/index.md", "docs/tasks.md"])
def test_every_guide_is_in_the_indexes(index: str) -> None:
    text = (ROOT / index).read_text("utf-8")
    guides = (page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs" / "how-to").glob("*.md"))
    assert sorted(guide for guide in guides if guide not in text) == []


def test_the_navigation_has_every_page_once() -> None:
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    pages = sorted(pages + [f"notebooks/{notebook.stem}.md" for notebook in (ROOT / "notebooks").glob("*.ipynb")])
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    of_plugins = runpy.run_path(str(ROOT / "docs" / "plugin_pages.py"))["pages"]().values()
    assert sorted([*re.findall(r": (\S+\.md)$", navigation, re.MULTILINE), *of_plugins]) == pages


def test_pages_at_former_addresses_lead_to_pages(tmp_path: Path) -> None:
    former_pages = runpy.run_path(str(ROOT / "docs" / "former_pages.py"))
    former_pages["on_post_build"]({"site_dir": str(tmp_path)})
    for former, address in former_pages["MOVED"].items():
        assert not (ROOT / "docs" / f"{former}.md").exists()
        assert (ROOT / "docs" / f"{address}.md").exists()
        assert f'<a href="../../{address}/">' in (tmp_path / former / "index.html").read_text("utf-8")


@pytest.mark.parametrize("notebook", sorted(ROOT.glob("notebooks/*.ipynb")), ids=lambda path: path.stem)
def test_the_site_shows_notebooks_with_their_output(notebook: Path) -> None:
    page = runpy.run_path(str(ROOT / "docs" / "notebook_pages.py"))["page"](notebook)
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    shown = page.count("\n```text\n") + page.count("<table") + page.count("](data:image/png;base64,")
    assert page.startswith("# ")
    code = sum(c["cell_type"] == "code" or "```python\n" in c["source"] for c in cells)
    assert (page.count("```python\n"), shown) == (code, len(outputs))
    links = [link for link in _LINKS.findall(_FENCES.sub("", page)) if not link.startswith("data")]
    assert [link for link in links if not (ROOT / "docs" / link.removeprefix("../")).exists()] == []


@pytest.mark.parametrize("document", ["docs/extending.md", "docs/kernel.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_names_and_folders_of_the_code_exist(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    folders = _FOLDERS.findall(text)
    assert not [
        f
        for f in folders
        if not any((ROOT / prefix / f).is_dir() for prefix in ("", "serializers/kernel/", "backends/connectors/"))
    ]
    files = (f for folder in ("state_processor", "backends", "serializers", "tests") for f in (ROOT / folder).rglob("*.py"))
    words = {word for file in files for word in re.findall(r"\w+", file.read_text("utf-8"))}
    names = [name for name in _NAMES.findall(text) if not name.endswith((".py", ".md", ".json"))]
    assert not [name for name in names if not words.issuperset(name.split("."))]


def test_the_promise_names_every_variable_of_the_environment() -> None:
    modules = (path for room in ("backends", "serializers", "state_processor") for path in (ROOT / room).rglob("*.py"))
    read = {n for p in modules for n in re.findall(r'"(STATE_PROCESSOR_\w+|SOURCE_\w+)"', p.read_text("utf-8"))}
    promised = set(re.findall(r"`(STATE_PROCESSOR_\w+|SOURCE_\w+)`", (ROOT / "docs" / "versions.md").read_text("utf-8")))
    assert read == promised


def test_every_room_of_the_layout_exists() -> None:
    layout = (ROOT / "ARCHITECTURE.md").read_text("utf-8").split("```")[1]
    package, rooms = "", []
    for line in layout.splitlines():
        if match := re.match(r" (\w+)/ ", line):
            package = match[1]
        elif match := re.match(r"   ((?:\w+/ +)+)", line):
            rooms += [f"{package}/{name.strip('/')}" for name in match[1].split()]
    assert len(rooms) > 15
    folders = [f for package in ("state_processor", "backends", "serializers") for f in (ROOT / package).iterdir()]
    found = [f.relative_to(ROOT).as_posix() for f in folders if (f / "__init__.py").is_file() and not f.is_symlink()]
    assert sorted(rooms) == sorted(found)


@pytest.mark.parametrize("room", ["serializers/core", "serializers/table", "serializers/evolution", "state_processor/types"])
def test_the_description_of_a_room_names_its_modules(room: str) -> None:
    description = (ROOT / room / "__init__.py").read_text("utf-8")
    assert [p.stem for p in sorted((ROOT / room).glob("[!_]*.py")) if f"``{p.stem}``" not in description] == []
    named = re.findall(r"``([a-z_]+)``", description)
    assert [name for name in named if not (ROOT / room / f"{name}.py").is_file()] == []


_IMPORTING_SPARK = {"docs/support.md"}


@pytest.mark.parametrize("path", [pytest.param(p, marks=[pytest.mark.spark] * (p in _IMPORTING_SPARK)) for p in GENERATED])
def test_generated_files_are_current(path: str) -> None:
    assert (ROOT / path).read_text("utf-8") == text(path), f"{path} differs from the code: run ./dev generate"


KEPT = ROOT / "docs" / "kept.md"
_CACHES = re.compile(
    r"^@(?:functools\.)?(?:lru_cache|cache)\b|"
    r"^_?\w+(?:: [^=\n]+)? = (?:\{\}|\[\]|set\(\)|OrderedDict\(\)|(?:weakref\.)?Weak\w+\(\)|ContextVar\()",
    re.MULTILINE,
)
"""Functions whose results are kept, and containers of a module that begin empty."""


def test_the_page_about_what_is_kept_names_every_cache() -> None:
    modules = [path for room in ("backends", "serializers", "state_processor") for path in (ROOT / room).rglob("*.py")]
    caches = {str(path.relative_to(ROOT)): match[0] for path in modules if (match := _CACHES.search(path.read_text("utf-8")))}
    assert "backends/state/state_headers.py" in caches
    described = set(_FILES.findall(KEPT.read_text("utf-8")))
    of_plugins = {path for path, match in caches.items() if path.startswith("state_processor/plugins/") and match[0] == "@"}
    assert caches.keys() - described - of_plugins == set()


def test_the_page_about_what_is_kept_names_tests_that_exist() -> None:
    tests = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", KEPT.read_text("utf-8"))
    assert len(tests) > 20
    for file, name in tests:
        assert f"def {name or 'test_'}" in (ROOT / file).read_text("utf-8"), (file, name)
