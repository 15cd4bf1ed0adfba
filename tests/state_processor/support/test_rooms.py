"""Rooms list names of other modules, and import a module when its name is used."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = ("command_line", "options", "snapshots", "spark", "states", "support", "types", "write")


@pytest.fixture(params=ROOMS)
def room(request: pytest.FixtureRequest) -> ModuleType:
    return import_module(f"state_processor.{request.param}")


def test_all_names_are_there(room: ModuleType) -> None:
    names = dir(room)
    assert names == sorted(set(names)) == room.__all__
    assert [name for name in names if getattr(room, name, None) is None] == []


def test_other_names_are_missing(room: ModuleType) -> None:
    with pytest.raises(AttributeError, match=rf"^module '{room.__name__}' has no attribute 'lost'$"):
        room.lost  # noqa: B018


def test_no_name_hides_a_module(room: ModuleType) -> None:
    """The import of a module in a package binds its name there."""
    folder = Path(room.__file__ or "")
    assert [n for n in dir(room) if folder.name == "__init__.py" and folder.with_name(f"{n}.py").exists()] == []


def test_the_module_of_a_name_is_imported_alone() -> None:
    code = "from state_processor.options import duration_ms; import sys; print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    ours = {name for name in printed if name.startswith("state_processor.")}
    assert "state_processor.types.durations" in ours
    assert [name for name in ours if name.startswith(("state_processor.backends", "state_processor.options."))] == []


def test_pages_name_all_rooms() -> None:
    for page in ("docs/how-to/build-an-application.md", "ARCHITECTURE.md"):
        rooms = set(re.findall(r"^\| `state_processor\.(\w+)` \|", (ROOT / page).read_text("utf-8"), re.MULTILINE))
        assert rooms == {"errors", *ROOMS}, page
