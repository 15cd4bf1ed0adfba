"""The normal form of the JSON of a plan: equal for nodes that do the same, whichever version of Flink compiled them.

Versions of Flink differ in what they leave out, in names that nothing refers to, and in the numbers of types of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from state_processor.backends.sql.plan import PlanNode
from state_processor.backends.sql.plan_types import row_fields
from state_processor.serializers.errors import OptionError

_EMPTY: Final[tuple[Any, ...]] = (None, [], {})
"""What a plan may leave out: Flink 2 does not write empty lists."""

_DEFAULTS: Final = {"upsertMaterializeStrategy": "LEGACY"}
"""Members that plans leave out where they have this value."""

_TYPE: Final = re.compile(r"(stream-exec-(?:sink|table-source-scan))_[12]")
"""Types of nodes whose versions 1 and 2 keep the same state; versions of other types are told apart."""

_OWN: Final = frozenset({"id", "description", "inputProperties", "outputType", "state", "configuration", "unboundedOverVersion"})
"""Members that do not say what a node does: names, numbers, time-to-live, the version of its states."""


def normal_node(node: PlanNode) -> dict[str, Any]:
    """Return what a node does, without its columns, its number, and what plans call them."""
    found: dict[str, Any] = normal_form({name: part for name, part in node.content.items() if name not in _OWN})
    return found


def normal_form(part: Any) -> Any:
    """Return JSON without what does not decide what a node does.

    Members that are null, empty or have their default are left out, and so are the names of aggregate calls. Row types are the
    types of their fields.
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
