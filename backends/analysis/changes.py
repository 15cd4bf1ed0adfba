"""Columns and kinds of differences."""

from __future__ import annotations

from typing import Final

CHANGE: Final = "change"
BEFORE: Final = "before"
AFTER: Final = "after"

INSERT: Final = "insert"
DELETE: Final = "delete"
UPDATE: Final = "update"
