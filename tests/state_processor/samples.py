"""The fixtures for the tests of this package, and their content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[1] / "fixtures"
ORDERS = FIXTURES / "2.3.0" / "orders-hashmap-canonical"
TYPES = FIXTURES / "2.3.0" / "types-hashmap-canonical"
WINDOWS = FIXTURES / "2.3.0" / "windows-hashmap-canonical"
ORDERS_OF_1 = FIXTURES / "1.20.5" / "orders-hashmap-canonical"
"""The same of a Flink that records hashes of uids only."""
ORDERS_PATH = str(ORDERS / "savepoint")
TYPES_PATH = str(TYPES / "savepoint")
WINDOWS_PATH = str(WINDOWS / "savepoint")


def expected_state(directory: Path, uid: str, name: str) -> dict[str, Any]:
    """A state of ``expected.json``."""
    expected = json.loads((directory / "expected.json").read_text("utf-8"))
    (operator,) = (o for o in expected["operators"] if o["uid"] == uid)
    return next(s for s in operator["states"] if s["name"] == name)


def expected_values(directory: Path, uid: str, name: str) -> dict[str, Any]:
    """Values by key of a keyed state whose keys are text or numbers."""
    return {e["key"]: e["value"] for e in expected_state(directory, uid, name)["entries"]}
