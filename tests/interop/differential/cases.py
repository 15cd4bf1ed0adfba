"""Random cases: one operator with states of random kinds and types, and their content."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.interop.differential.draw import Draw
from tests.interop.differential.forms import (
    BASIC_ARRAYS,
    PRIMITIVE_ARRAYS,
    Either,
    Mapped,
    Nullable,
    Row,
    Tuple,
    array_of,
    list_of,
    parse,
    random_pairs,
)
from tests.interop.differential.pojos import POJOS, TIER
from tests.interop.differential.scalars import BYTES, KRYO, SCALARS, Form, as_text, canonical_of
from tests.interop.differential.sql_forms import RowData, random_row_data

VERSION = 5
"""Of the generator: a seed gives the same case as long as it is the same."""

MAX_PARALLELISMS = ((2, 1), (5, 128), (2, 4096), (1, 32768))
KEYED = ("VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING")
LISTED = ("OPERATOR_LIST", "UNION_LIST")
TIMERS = ("EVENT_TIMER", "PROCESSING_TIMER")
VOID, TIME_WINDOW, GLOBAL_WINDOW = "VOID_NAMESPACE", "TIME_WINDOW", "GLOBAL_WINDOW"
NOW = 1_790_000_000_000

_DEPTH = 3
_HUGE = 100_000
_MOST_FAMILIES = 25
_NAMES = ("state", "f0", "value", "Zustand-ü", "with space", "a/b", "_timer", "x" * 200)


def random_form(draw: Draw, depth: int = _DEPTH, key: bool = False, every: bool = True) -> Form:
    """A type of at most this depth, that can be a key if asked for; not ``every`` is without POJOs and maps."""
    arrays = (BYTES, *PRIMITIVE_ARRAYS, *BASIC_ARRAYS)
    leaf = draw.weighted(((8, SCALARS), (0 if key else 3, arrays), (2 if every else 0, (*POJOS, TIER)), (0 if key else 1, KRYO)))
    if depth <= 1 or draw.one_in(2):
        return draw.choice([form for form in leaf if form.is_key or not key])

    def inner() -> Form:
        return random_form(draw, depth - 1, key, every)

    def fields(most: int) -> tuple[Form, ...]:
        return tuple(inner() for _ in range(draw.weighted(((8, draw.randint(1, 4)), (1, draw.randint(1, most))))))

    def row() -> Form:
        parts = fields(12)
        names = draw.sample(("f1", "f0", "name", "a", "b", "ä", "kind", "count", "value", "key", "x", "y"), len(parts))
        return Row(parts, tuple(names) if draw.one_in(2) else ())

    def array() -> Form:
        return array_of(draw.choice((draw.choice(POJOS), Tuple(fields(3)))))

    makers: list[Callable[[], Form]] = [
        lambda: Tuple(fields(25)),
        row,
        lambda: list_of(inner()),
        *([] if not every else [lambda: Mapped(random_form(draw, depth - 1, True, every), inner())]),
        lambda: Either(inner(), inner()),
        *([] if key else [array]),
    ]
    return draw.choice(makers)()


def case_of(seed: int, direction: str) -> dict[str, Any]:
    """The case of a seed.

    In addition to the keys of expected.json, an operator has ``max_parallelism`` and ``parallelism`` for the write, and states
    with TTL have ``last_access``: the milliseconds of each entry, or of each element of lists and maps.
    """
    read = direction == "read"  # Spark writes the same bytes as writes without Spark
    draw = Draw(f"{VERSION} {'read' if read else 'written'} {seed}", lone_surrogates=read)
    max_parallelism = draw.weighted(MAX_PARALLELISMS)
    keyed, others = draw.weighted(((6, (True, False)), (1, (False, True)), (1, (True, True))))
    key = _key_form(draw) if keyed else None
    states = []
    if key is not None:
        keys = _keys(key, draw)
        states += [_keyed(draw, key, keys, number) for number in range(draw.randint(1, 6))]
        states += [_huge_list(draw, key, keys)] if draw.one_in(60) else []
    if others:
        states += [_listed(draw, number) for number in range(draw.randint(1, 4))]
    if direction == "native" and key is not None:
        states = _column_families(draw, key, keys, states)
    return {
        "uid": f"seed-{seed}",
        "max_parallelism": max_parallelism,
        "parallelism": min(max_parallelism, draw.randint(1, 4)),
        "key_type": key and key.label,
        "states": states,
    }


def _key_form(draw: Draw) -> Form:
    """A type of keys, without maps: RocksDB finds one only if its entries lie in the order that Java's ``HashMap`` has them in.

    POJOs inside of others have no ``hashCode`` that could be learned.
    """
    if draw.one_in(12):
        return random_row_data(draw, key=True)
    if draw.one_in(8):
        return draw.choice([pojo for pojo in POJOS if pojo.is_key])
    return random_form(draw, 2, key=True, every=False)


def _column_families(draw: Draw, key: Form, keys: list[Any], states: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The states of an operator, sometimes with many more, some of them without entries."""
    last = draw.randint(len(states), _MOST_FAMILIES) if draw.one_in(6) else len(states)
    states = states + [_keyed(draw, key, keys, number) for number in range(len(states), last)]
    return [_of(state, slice(0)) if draw.one_in(6) else state for state in states]


def _distinct(form: Form, values: Iterable[Any]) -> list[Any]:
    return list({as_text(form.canonical(value)): value for value in values}.values())


def _keys(key: Form, draw: Draw) -> list[Any]:
    count = draw.weighted(((8, draw.randint(1, 12)), (1, 60), (1, 1)))
    values = [key.random(draw) for _ in range(count)]
    keys = _distinct(key, [value | {"kind": "+I"} for value in values] if isinstance(key, RowData) else values)
    if key.label == "STRING":
        keys = list(dict.fromkeys([*keys, "Aa", "BB"]))
    return keys


def _name(draw: Draw, number: int) -> str:
    return f"{number} {draw.choice(_NAMES)}"


def _random_value_form(draw: Draw) -> Form:
    if draw.one_in(10):
        return random_row_data(draw)
    form = random_form(draw)
    return Nullable(form) if draw.one_in(8) and form in SCALARS else form


def _keyed(draw: Draw, key: Form, keys: list[Any], number: int) -> dict[str, Any]:
    kind = draw.weighted(((3, "VALUE"), (3, "LIST"), (3, "MAP"), (1, "REDUCING"), (1, "AGGREGATING"), (1, "timer")))
    namespace = draw.weighted(((7, VOID), (2, TIME_WINDOW), (1, GLOBAL_WINDOW)))
    slots = [(k, n) for k in keys for n in _namespaces(draw, namespace) if not draw.one_in(5)]
    common = {"name": _name(draw, number), "key_type": key.label, "namespace_type": namespace}
    if kind == "timer":
        kind = draw.choice(TIMERS)
        entries = [_slot(k, n, True) | {"timestamp": t} for k, n in slots for t in _times(draw, kind)]
        return common | {"kind": kind, "entries": entries}
    value = _random_value_form(draw)
    map_key = random_form(draw, 2, key=True) if kind == "MAP" else None
    entries = [
        _slot(k, n, False) | {"value": found}
        for k, n in slots
        for found in [_contents(draw, kind, map_key, value)]
        if found is not None and (found or kind not in ("LIST", "MAP"))
    ]
    ttl = draw.one_in(4)
    state = common | {"kind": kind, "value_type": value.label, "ttl": ttl, "entries": entries}
    if map_key is not None:
        state["map_key_type"] = map_key.label
    if ttl:
        state["last_access"] = [_last_access(draw, kind, entry["value"]) for entry in entries]
    return state


def _namespaces(draw: Draw, label: str) -> list[Any]:
    if label == VOID:
        return ["VoidNamespace"]
    if label == GLOBAL_WINDOW:
        return ["GlobalWindow"]
    starts = (0, -60_000, 1_700_000_000_000, draw.randint(-(1 << 45), 1 << 45))
    some = draw.sample(starts, draw.randint(1, 3))
    return [{"start": start, "end": start + draw.choice((1, 60_000, 1 << 40))} for start in some]


def _slot(key: Any, namespace: Any, timer: bool) -> dict[str, Any]:
    return {"key": key} if namespace == "VoidNamespace" and not timer else {"key": key, "namespace": namespace}


def _times(draw: Draw, kind: str) -> list[int]:
    """Times of timers that do not fire: event time does not advance, and the clock not that far."""
    lowest = 4_000_000_000_000 if kind == "PROCESSING_TIMER" else -(1 << 62)
    return sorted({draw.choice((lowest, (1 << 63) - 1, draw.randint(lowest, 1 << 45))) for _ in range(draw.randint(1, 3))})


def _contents(draw: Draw, kind: str, map_key: Form | None, value: Form) -> Any:
    if kind == "LIST":
        return [value.random(draw) for _ in range(draw.length())]
    if map_key is not None:
        return random_pairs(map_key, value, draw, draw.length(), value.knows_null)
    return value.random(draw)


def _last_access(draw: Draw, kind: str, value: Any) -> Any:
    def one() -> int:
        return NOW - draw.randint(0, 1 << 40)

    return [one() for _ in value] if kind in ("LIST", "MAP") else one()


def _listed(draw: Draw, number: int) -> dict[str, Any]:
    kind = draw.choice((*LISTED, "BROADCAST"))
    value = _random_value_form(draw)
    state: dict[str, Any] = {"name": _name(draw, 100 + number), "kind": kind, "value_type": value.label}
    if kind != "BROADCAST":
        return state | {"entries": [value.random(draw) for _ in range(draw.length() * 3)]}
    map_key = random_form(draw, 2, key=True)
    pairs = random_pairs(map_key, value, draw, draw.length(), False)
    return state | {"map_key_type": map_key.label, "entries": [{"key": k, "value": v} for k, v in pairs]}


def _huge_list(draw: Draw, key: Form, keys: list[Any]) -> dict[str, Any]:
    """A list with so many elements that it spans buffers."""
    value = draw.choice(SCALARS)
    few = [value.random(draw) for _ in range(50)]
    entries = [{"key": keys[0], "value": few * (_HUGE // len(few))}]
    common = {"name": "huge", "key_type": key.label, "namespace_type": VOID, "kind": "LIST", "value_type": value.label}
    return common | {"ttl": False, "entries": entries}


Entries = dict[tuple[str, str], list[str]]
"""Entries as text, by the state's name and kind."""


def canonical(case: dict[str, Any]) -> Entries:
    """The entries of each state by name and kind, as sorted text, with maps in one order."""
    key = case["key_type"] and parse(case["key_type"])
    return {
        (state["name"], state["kind"]): sorted(as_text(_canonical_entry(state, key, entry)) for entry in state["entries"])
        for state in case["states"]
    }


def _canonical_entry(state: dict[str, Any], key: Form | None, entry: Any) -> Any:
    value = parse(state["value_type"]) if state.get("value_type") else None
    if state["kind"] in LISTED:
        return canonical_of(value, entry)  # type: ignore[arg-type]
    found = dict(entry)
    map_key = parse(state["map_key_type"]) if state.get("map_key_type") else None
    if key is not None and map_key is not None and state["kind"] == "MAP":
        found["value"] = Mapped(map_key, value).canonical(entry["value"])  # type: ignore[arg-type]
    elif state["kind"] == "LIST":
        found["value"] = [canonical_of(value, each) for each in entry["value"]]  # type: ignore[arg-type]
    elif value is not None:
        found["value"] = canonical_of(value, entry["value"])
    form = map_key if state["kind"] == "BROADCAST" else key
    found["key"] = form.canonical(entry["key"])  # type: ignore[union-attr]
    return found


def smaller(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Cases with a part left out, the largest parts first; of one state and entry, with a simpler value."""
    states = case["states"]
    if len(states) > 1:
        yield from ({**case, "states": [state]} for state in states)
        return
    (state,) = states
    entries = state["entries"]
    if len(entries) > 1:
        half = len(entries) // 2
        parts = [slice(0, half), slice(half, None), *([slice(i, i + 1) for i in range(len(entries))] if half < 5 else [])]
        for part in parts:
            yield {**case, "states": [_of(state, part)]}
        return
    for entry in entries:
        yield from ({**case, "states": [{**state, "entries": [found]}]} for found in _simpler_entries(case, state, entry))
    for change in ({"parallelism": 1}, {"max_parallelism": 128}):
        if any(case[name] != value for name, value in change.items()):
            yield {**copy.deepcopy(case), **change}


def _of(state: dict[str, Any], part: slice) -> dict[str, Any]:
    found = {**state, "entries": state["entries"][part]}
    if "last_access" in state:
        found["last_access"] = state["last_access"][part]
    return found


def _simpler_entries(case: dict[str, Any], state: dict[str, Any], entry: Any) -> Iterator[Any]:
    if not state.get("value_type") or state.get("ttl"):
        return
    value = parse(state["value_type"])
    if state["kind"] in LISTED:
        yield from value.simpler(entry)
    elif state["kind"] in ("LIST", "MAP"):
        found = entry["value"]
        form: Form = list_of(value) if state["kind"] == "LIST" else Mapped(parse(state["map_key_type"]), value)
        yield from ({**entry, "value": simple} for simple in form.simpler(found) if simple)
    else:
        yield from ({**entry, "value": simple} for simple in value.simpler(entry["value"]))
    if case["key_type"]:
        yield from ({**entry, "key": simple} for simple in parse(case["key_type"]).simpler(entry["key"]))
