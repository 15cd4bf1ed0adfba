"""Tests that are left out where Spark or pandas is not installed: ``./dev test --without-spark``.

A test needs Spark by its marker or by the fixture ``spark``, and pandas by its marker. A module needs them if it imports them at
its top, or a module of tests that does. What the project itself imports does not count: a module of tests fails where
``state_processor`` imports Spark without need.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).resolve().parents[1]
_WITH_SPARK: Final = tuple(f"state_processor.{name}" for name in ("demo", "reader", "spark", "sql.spark_views", "writer"))
"""Modules of the project that import Spark, and are meant to."""
PACKAGES: Final = {"spark": ("pyspark", "py4j", *_WITH_SPARK), "pandas": ("pandas",)}
"""What needs the packages of an extra, by the marker of its tests."""
ABSENT: Final = {marker for marker, package in (("spark", "py4j"), ("pandas", "pandas")) if find_spec(package) is None}
"""Markers of tests that can't run here. The package pyspark-client has no py4j: it starts no JVM."""


def can_import(path: Path) -> bool:
    """Whether everything that a module of tests imports at its top is installed."""
    return not _needs(path) & ABSENT


def can_run(item: pytest.Item) -> bool:
    """Whether everything that a test needs is installed."""
    needs = {marker for marker in PACKAGES if item.get_closest_marker(marker) is not None}
    if {"spark", "spark_python"} & {*getattr(item, "fixturenames", ())}:
        needs.add("spark")
    return not needs & ABSENT


@cache
def _needs(path: Path) -> frozenset[str]:
    needs: set[str] = set()
    for name in _imports(ast.parse(path.read_text("utf-8")).body):
        needs |= {marker for marker, packages in PACKAGES.items() if _is_in(name, packages)}
        module = _ROOT / f"{name.replace('.', '/')}.py"
        if name.startswith("tests.") and module != path and module.is_file():
            needs |= _needs(module)
    return frozenset(needs)


def _is_in(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _imports(statements: list[ast.stmt]) -> Iterator[str]:
    """The names of modules, and of what is taken from them, that statements import when a module is loaded."""
    for statement in statements:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            yield str(statement.module)
            yield from (f"{statement.module}.{alias.name}" for alias in statement.names)
        elif isinstance(statement, ast.Try | ast.With):
            yield from _imports(statement.body)
