"""Values of the fixture ``savepoint`` that Arrow would take for others are refused."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.applications.testing import write_savepoint

T = sp.Types
POINT = T.POJO("com.acme.Point", {"x": T.INT(), "y": T.INT()})


@pytest.mark.parametrize(
    ("value", "type_", "message"),
    [
        ({"x": 1}, POINT, "does not have the field 'y'; write None for a null"),
        (datetime(2024, 1, 1), T.INSTANT(), "a time without a time zone, in a column of times with one"),
    ],
)
def test_values_of_another_type_are_refused(tmp_path: Path, value: Any, type_: Any, message: str) -> None:
    with pytest.raises(sp.OptionError, match=message):
        write_savepoint(str(tmp_path / "new"), {"op": {"v": {"a": value}}}, {"op": {"v": type_}}, {}, 128, "1.20")
