"""JSON that users write, in columns and in options."""

from __future__ import annotations

import json
import math
from typing import Any


def parse_json(text: str) -> Any:
    """Return the value of a JSON text."""
    try:
        return json.loads(text, parse_float=_finite, object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice[:40]!r} is twice in an object of JSON")
    return values


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits[:40]} in JSON is too large for a double")
    return number


def json_text_of(value: Any) -> str:
    """Return a value as JSON. Bytes are hexadecimal digits; values of types that JSON lacks are their text."""
    return json.dumps(
        value, ensure_ascii=False, default=lambda unknown: unknown.hex() if isinstance(unknown, bytes) else str(unknown)
    )
