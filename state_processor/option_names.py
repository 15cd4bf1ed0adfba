"""Names of options: an option that nobody knows is refused, one that Spark adds by itself is not."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Final

from state_processor.serializers.errors import OptionError

_OF_SPARK: Final = frozenset(
    {"path", "paths", "owner", "provider", "location", "comment", "collation", "external", "is_managed_location"}
)
"""What Spark 4 passes on beside the user's options: the path, and properties of a table that is made in SQL."""
_INTERNAL: Final = "__"
"""How Spark's own options begin, such as ``__partition_columns``."""
_TABLE_OPTION: Final = "option."
"""``CREATE TABLE`` gives each option a second time under this prefix; what has none there is a property of the table."""


def check_option_names(given: Mapping[str, str], known: Collection[str], what: str) -> None:
    """Refuse options that are not known.

    Parameters
    ----------
    given
        Options as Spark hands them over, in any case.
    known
        The names of options.
    what
        What takes the options, for messages: ``reading flink-savepoint``.

    Raises
    ------
    OptionError
        If there is an option of another name; the message names the nearest, or all.
    """
    by_lower = {name.lower(): name for name in known}
    lower = [name.lower() for name in given]
    for_table = "provider" in lower
    for name in lower:
        if name in by_lower or name in _OF_SPARK or name.startswith((_INTERNAL, _TABLE_OPTION)):
            continue
        if for_table and _TABLE_OPTION + name not in lower:
            continue
        plain = re.sub(r"[^a-z]", "", name)
        near = [plain] if plain in by_lower else get_close_matches(plain, by_lower, n=1, cutoff=0.75)
        hint = f"did you mean {by_lower[near[0]]!r}?" if near else f"there are {', '.join(sorted(known))}"
        raise OptionError(f"{what}: there is no option {name!r}; {hint}")
