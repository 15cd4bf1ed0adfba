"""Options of data sources: text under names in any case.

Unknown names are refused, unless Spark adds them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from state_processor.options.allowed_modules import check_allowed
from state_processor.options.option import Option
from state_processor.support.errors import OptionError

_OF_SPARK: Final = frozenset(
    {"path", "paths", "owner", "provider", "location", "comment", "collation", "external", "is_managed_location"}
)
"""Spark 4 adds these to the user's options: the path, and properties of a table that is made in SQL."""
_INTERNAL: Final = "__"
"""Prefix of Spark's own options, such as ``__partition_columns``."""
_TABLE_OPTION: Final = "option."
"""``CREATE TABLE`` repeats each option with this prefix. Names without a repetition are properties of the table."""


def parse_options(place: str, options: Sequence[Option], texts: Mapping[str, str], allowed: Iterable[str] = ()) -> dict[str, Any]:
    """Return the normal forms of options, by keyword argument.

    ``place``: what takes the options, for messages: ``reading flink-savepoint``. ``options``: the options of the data source.
    ``texts``: options as Spark hands them over. ``allowed``: modules that the owner of the session allows options to import.
    """
    by_lower = {name.lower(): text for name, text in texts.items()}
    for option in options:
        if option.prefix:
            by_lower |= _gathered(option, by_lower)
    prefixes = tuple(option.prefix for option in options if option.prefix)
    names = [name for name in texts if not name.lower().startswith(prefixes)]
    check_option_names({name: texts[name] for name in names}, [o.name for o in options], place)
    values = {o.argument: o.kind.of_text(o.name, by_lower[o.name.lower()]) for o in options if o.name.lower() in by_lower}
    check_allowed(values.get("serializers", ()), allowed)
    return values


def format_options(accepted: Iterable[Option], values: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of options from their normal forms, by keyword argument; the inverse of :func:`parse_options`."""
    options = [o for o in accepted if o.argument in values]
    text = {o.name: o.kind.encode(values[o.argument]) for o in options if not o.prefix}
    for option in options:
        if option.prefix:
            entries = json.loads(option.kind.encode(values[option.argument]))
            text |= {f"{option.prefix}{name}": entry for name, entry in entries.items()}
    return text


def _gathered(option: Option, by_lower: Mapping[str, str]) -> dict[str, str]:
    """Return the text of an option whose entries are options; nothing if no entry is given."""
    entries = {n.removeprefix(option.prefix): text for n, text in by_lower.items() if n.startswith(option.prefix)}
    return {option.name.lower(): json.dumps(entries)} if entries else {}


def required_path(texts: Mapping[str, str], method: str, note: str = "") -> str:
    """Return the option ``path``. Spark sets it from an argument of the user's call. A note extends the message."""
    for name, path in texts.items():
        if name.lower() == "path":
            return path
    raise OptionError(f"no path: pass the snapshot's directory to {method}(path){note}")


def check_option_names(texts: Mapping[str, str], names: Collection[str], place: str) -> None:
    """Check that all options are known.

    ``texts``: options as Spark hands them over, in any case. ``place``: what takes the options, for messages: ``reading
    flink-savepoint``.
    """
    by_lower = set(map(str.lower, names))
    lower = list(map(str.lower, texts))
    for name in lower:
        if name in by_lower or name in _OF_SPARK or name.startswith((_INTERNAL, _TABLE_OPTION)):
            continue
        if is_of_table(texts) and _TABLE_OPTION + name not in lower:
            continue
        raise OptionError(f"{place}: there is no option {name!r}; {hint(name, names)}")


def is_of_table(texts: Mapping[str, str]) -> bool:
    """Return whether options belong to a table that is made in SQL."""
    return any(name.lower() == "provider" for name in texts)


def hint(name: str, names: Collection[str]) -> str:
    """Return the part of a message that names the nearest known name, or all of them."""
    plain = {re.sub(r"[^a-z]", "", known_name.lower()): known_name for known_name in names}
    near = get_close_matches(re.sub(r"[^a-z]", "", name.lower()), plain, n=1, cutoff=0.75)
    return f"did you mean {plain[near[0]]!r}?" if near else f"there are {', '.join(sorted(names))}"
