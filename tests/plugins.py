"""Modules in the test folders of plug-ins, for tests that include all plug-ins."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

FOLDERS = Path(__file__).parent / "state_processor" / "plugins"


def modules_of_plugins(name: str) -> list[ModuleType]:
    """Import the module of a name in the test folder of each plug-in that has one."""
    files = sorted(FOLDERS.glob(f"*/{name}.py"))
    return [import_module(f"tests.state_processor.plugins.{file.parent.name}.{name}") for file in files]
