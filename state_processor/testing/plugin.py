"""Fixtures and flags of pytest. Pytest imports this module in each of its runs: it imports the rest when a fixture is used."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any, Final

import pytest

_FLAG: Final = "--update-state-schema"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag that writes the files of ``state_schema``."""
    group = parser.getgroup("state-processor")
    group.addoption(_FLAG, action="store_true", help="write the files that the fixture state_schema compares savepoints with")


@pytest.fixture
def savepoint(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes a savepoint and returns its directory.

    ``savepoint(orders={"total": {"amelia": 3950}})`` writes an operator with the uid ``orders``. Pass a dictionary for other
    uids: ``savepoint({"my-op": {...}})``. A dictionary of values by key is a keyed state: a list state if all values are lists,
    a map state if all values are dictionaries. A list is an operator list state.

    ``types={"orders": {"total": Types.LONG()}}`` declares types, or states such as ``ValueState(Types.LONG(), ttl=True)``;
    ``key_types={"orders": Types.STRING()}`` declares keys. Without them, ``int``, ``float``, ``bool``, ``str`` and ``bytes``
    are ``LONG``, ``DOUBLE``, ``BOOLEAN``, ``STRING`` and ``BYTES``.
    """
    numbers = count(1)

    def write(
        operators: Mapping[str, Mapping[str, Any]] | None = None,
        /,
        *,
        types: Mapping[str, Mapping[str, Any]] | None = None,
        key_types: Mapping[str, Any] | None = None,
        max_parallelism: int = 128,
        flink_version: str = "1.20",
        **by_uid: Mapping[str, Any],
    ) -> str:
        from state_processor.applications.testing import write_savepoint

        path = str(tmp_path / f"savepoint-{next(numbers)}")
        write_savepoint(path, {**(operators or {}), **by_uid}, types or {}, key_types or {}, max_parallelism, flink_version)
        return path

    return write


@pytest.fixture
def state_schema(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return a function that compares the states of a savepoint with a file of the project.

    The file is ``state_schema/TEST.json`` in the directory of the test, or ``file``. ``--update-state-schema`` writes the file.
    A change that Flink would refuse to restore fails the test with the reason; other changes are warnings.
    """
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.name)
    stored_schema = request.path.parent / "state_schema" / f"{name}.json"

    def check(path: str | PathLike[str], *, file: str | PathLike[str] | None = None, **options: Any) -> None:
        __tracebackhide__ = True
        from state_processor.applications.testing import check_schema, write_schema

        golden = stored_schema if file is None else Path(file)
        if request.config.getoption(_FLAG):
            write_schema(path, golden, options)
            return
        if not golden.exists():
            pytest.fail(f"{golden} does not exist: run pytest once with {_FLAG}, and commit the file", pytrace=False)
        try:
            changes = check_schema(path, golden, options)
        except AssertionError as refused:
            pytest.fail(str(refused), pytrace=False)
        for change in changes:
            warnings.warn(f"{change}; {_FLAG} updates {golden.name}", stacklevel=2)

    return check
