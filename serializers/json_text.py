"""JSON that users write, in columns and in options."""

from __future__ import annotations

import json
import math
from typing import Any


def parse_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises
    ------
    ValueError
        If it is not JSON, is nested too deeply, or has a number that does not fit a double: Python would make it infinite.
    """
    try:
        return json.loads(text, parse_float=_finite)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits[:40]} in JSON is too large for a double")
    return number


def json_text_of(value: Any) -> str:
    """Return a value as JSON. Bytes are hexadecimal digits; values of types that JSON lacks are their text."""
    return json.dumps(value, ensure_ascii=False, default=lambda other: other.hex() if isinstance(other, bytes) else str(other))
