"""The normal form of the JSON of a plan. It is equal for nodes that do the same, independent of Flink's version.

Versions of Flink differ in omitted members, in unused names, and in the versions of node types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from state_processor.backends.sql.plan import PlanNode
from state_processor.backends.sql.plan_types import row_fields
from state_processor.serializers.errors import OptionError

_EMPTY: Final[tuple[Any, ...]] = (None, [], {})
"""Values that a plan may omit: Flink 2 does not write empty lists."""

_DEFAULTS: Final = {"upsertMaterializeStrategy": "LEGACY"}
"""Members that plans omit if they have this value."""

_TYPE: Final = re.compile(r"(stream-exec-(?:sink|table-source-scan))_[12]")
"""Types of nodes with the same state in versions 1 and 2. Versions of other types are distinguished."""

_OWN: Final = frozenset({"id", "description", "inputProperties", "outputType", "state", "configuration", "unboundedOverVersion"})
"""Members that do not define the function of a node: names, numbers, time-to-live, the version of its states."""


def normal_node(node: PlanNode) -> dict[str, Any]:
    """Return the function of a node, without its columns, its number, and its name."""
    found: dict[str, Any] = normal_form({name: part for name, part in node.content.items() if name not in _OWN})
    return found


def normal_form(part: Any) -> Any:
    """Return JSON with only the members that define the function of a node.

    Members that are null, empty or equal to their default are omitted. The names of aggregate calls are omitted. A row type
    becomes the types of its fields.
    """
    if isinstance(part, list):
        return [normal_form(one) for one in part]
    if not isinstance(part, Mapping):
        return part
    found = {name: _member(name, one) for name, one in part.items() if not (name == "name" and "argList" in part)}
    return {name: one for name, one in found.items() if one not in _EMPTY and _DEFAULTS.get(name) != one}


def _member(name: str, part: Any) -> Any:
    if name == "type" and isinstance(part, str):
        return _TYPE.sub(r"\1", part)
    if name.endswith("RowType"):
        try:
            return [str(one.type) for one in row_fields(part)]
        except (OptionError, KeyError, TypeError):
            return normal_form(part)
    return normal_form(part)
