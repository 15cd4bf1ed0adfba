"""Chains of patches of one state each, on stores of RocksDB: their content and unchanged files afterwards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row

import state_processor as sp
from state_processor.backends.formats.sst.manifest import read_manifest
from state_processor.backends.metadata.handles import IncrementalRemoteKeyedStateHandle
from state_processor.backends.metadata.snapshot import open_snapshot
from tests.interop import expectations as e

if TYPE_CHECKING:
    from tests.interop.written_cases import Workshop

Values = Mapping[str, Any]
_TIMERS = {"_timer_state/event_user-timers": e.EVENT, "_timer_state/processing_user-timers": e.PROCESSING}


@dataclass(frozen=True)
class Step:
    """A patch, the column families that it changes, and the expected result."""

    families: frozenset[str]
    patch: Callable[[Workshop, sp.SavepointWriter], Any]
    after: Callable[[e.Operators], e.Operators]


@dataclass(frozen=True)
class Patches:
    """Makes patches of states of an operator whose keys are strings."""

    uid: str

    def _step(
        self, state: str, patch: Callable[[Workshop, sp.SavepointWriter], Any], left: Callable[[e.Operators], Values]
    ) -> Step:
        """Return a patch of one state from the expected values of the changed keys."""
        return Step(frozenset({state}), patch, lambda operators: e.changed(operators, self.uid, state, left(operators)))

    def update(self, state: str, values: Values, schema: str) -> Step:
        """Write other values for some keys: all of a key's map or list is replaced."""

        def patch(workshop: Workshop, writer: sp.SavepointWriter) -> None:
            rows = workshop.rows(list(values.items()), f"key string, value {schema}")
            writer.update_keyed_state(self.uid, state, rows)

        return self._step(state, patch, lambda _: {key: _shown(value) for key, value in values.items()})

    def elements(self, state: str, values: Mapping[str, Sequence[str]]) -> Step:
        """Write lists as rows of elements."""
        rows = [(key, i, element) for key, elements in values.items() for i, element in enumerate(elements)]

        def patch(workshop: Workshop, writer: sp.SavepointWriter) -> None:
            frame = workshop.rows(rows, "key string, list_index int, list_value string")
            writer.update_keyed_state(self.uid, state, frame)

        return self._step(state, patch, lambda _: values)

    def delete(self, state: str, *keys: str) -> Step:
        """Delete keys from one state, or from one queue of timers."""

        def patch(workshop: Workshop, writer: sp.SavepointWriter) -> None:
            writer.delete_keys(self.uid, _keys(workshop, keys), state)

        if state not in _TIMERS:
            return self._step(state, patch, lambda _: dict.fromkeys(keys))
        return Step(
            frozenset({state}), patch, lambda operators: e.without_keys(operators, self.uid, keys, kinds=(_TIMERS[state],))
        )

    def forget(self, families: Collection[str], *keys: str) -> Step:
        """Delete keys from all states and timers; ``families`` are the column families with some of these keys."""

        def patch(workshop: Workshop, writer: sp.SavepointWriter) -> None:
            writer.delete_keys(self.uid, _keys(workshop, keys))

        return Step(frozenset(families), patch, lambda operators: e.without_keys(operators, self.uid, keys))

    def entries(self, state: str, types: str, key: str, entries: Mapping[Any, Any], *gone: Any) -> Step:
        """Change or delete single entries of a map; others stay. ``types`` are the types of its keys and values."""
        of_key, of_value = types.split()

        def patch(workshop: Workshop, writer: sp.SavepointWriter) -> None:
            schema = f"key string, map_key {of_key}, map_value {of_value}"
            if entries:
                rows = workshop.rows([(key, *pair) for pair in entries.items()], schema)
                writer.update_keyed_state(self.uid, state, rows)
            if gone:
                rows = workshop.rows([(key, name, None) for name in gone], schema)
                writer.delete_map_entries(self.uid, state, rows)

        def after(operators: e.Operators) -> Values:
            left = dict(_before(operators, self.uid, state, key)) | {_plain(k): value for k, value in entries.items()}
            return {key: [[name, value] for name, value in left.items() if name not in map(_plain, gone)] or None}

        return self._step(state, patch, after)


def _keys(workshop: Workshop, keys: Sequence[str]) -> Any:
    return workshop.rows([(key,) for key in keys], "key string")


def _before(operators: e.Operators, uid: str, state: str, key: str) -> Any:
    return next(entry["value"] for entry in e.state_of(operators, uid, state)["entries"] if entry["key"] == key)


def _shown(value: Any) -> Any:
    """A value as ``expected.json`` has it."""
    if isinstance(value, dict):
        return [[_plain(key), part] for key, part in value.items()]
    if isinstance(value, Row):
        return {"@class": "fixtures.Simple", **value.asDict()}
    return list(value) if isinstance(value, tuple) else value


def _plain(key: Any) -> Any:
    return key.isoformat() if isinstance(key, date) else key


_orders = Patches("orders")
EVENT_TIMERS, PROCESSING_TIMERS = _TIMERS
STEPS: tuple[Step, ...] = (
    _orders.update("total", {"amelia": 100, "nobody yet": 2, "anders": None}, "long"),
    _orders.delete("history", "bjorn", "who is not there"),
    _orders.update("items", {"amelia": {"scarf": 5, "teapot": 7}, "nobody yet": {"mug": 1}}, "map<string,long>"),
    _orders.update("session", {"amelia": "s-new", "nobody yet": "s-newer"}, "string"),
    _orders.entries("items", "string long", "amelia", {"scarf": 6, "tray": 8}),
    _orders.update("total", {"amelia": 101, "anders": 3, "nobody yet": None}, "long"),
    _orders.delete("profile", "amelia"),
    _orders.elements("history", {"amelia": ["1 × scarf", "2 × mug"], "nobody yet": ["3 × tray"]}),
    _orders.entries("items", "string long", "anders", {}, "teapot", "what is not there"),
    _orders.delete("items", "anders", "beatriz"),
    _orders.update("history", {"amelia": ["4 × tray"], "chidi": None}, "array<string>"),
    _orders.delete("session", "amelia", "anders"),
    _orders.update("items", {"anders": {"scarf": 9}, "amelia": None}, "map<string,long>"),
    _orders.delete("total", "amelia", "clara"),
    _orders.delete(EVENT_TIMERS, "clara", "who is not there"),
    _orders.forget(("total", "history", "items", "session", "profile", EVENT_TIMERS), "zoë", "chidi"),
)
"""Patches of an operator of synchronous state."""

_days = Patches("asynchronous")
_simple = "struct<score:double,seq:bigint,text:string>"


ASYNCHRONOUS_STEPS: tuple[Step, ...] = (
    _days.update("reducing", {"#12": 100, "nobody yet": 2, "#8": None}, "long"),
    _days.delete("list", "#12", "who is not there"),
    _days.update("map", {"": {date(2024, 5, 1): 0.5}, "nobody yet": {date(1969, 1, 1): -1.0}}, "map<date,double>"),
    _days.entries("map", "date double", "#12", {date(2024, 2, 13): 7.25, date(2030, 1, 1): 8.0}, date(2024, 2, 29)),
    _days.update("value", {"": Row(score=0.25, seq=4, text="new"), "#12": None}, _simple),
    _days.elements("list", {"": ["one", "two"], "#12": ["three"], "nobody yet": ["four"]}),
    _days.update("aggregating", {"#12": (7, 1), "nobody yet": (8, 2)}, "struct<f0:long,f1:long>"),
    _days.delete("map", "#8", ""),
)
"""Patches of an operator of asynchronous state."""


def chain(workshop: Workshop, base: Path, operators: e.Operators, steps: Sequence[Step], targets: Sequence[Path]) -> e.Operators:
    """Write each patch on top of the previous one; return the content of the last savepoint."""
    for step, target in zip(steps, targets, strict=True):
        writer = workshop.from_existing(base)
        step.patch(workshop, writer)
        writer.write(target, format="native", backend=workshop.backend)  # type: ignore[arg-type]
        operators = step.after(operators)
        check_files(base, target, step.families)
        base = target
    return operators


def check_files(base: Path, target: Path, families: Collection[str]) -> None:
    """The files of all states exist unchanged. Only changed states have additional files above them."""
    old, new = (dict(_families(path)) for path in (base, target))
    assert old.keys() == new.keys()
    grown = set()
    for place, before in old.items():
        added = {name: file for name, file in new[place].items() if name not in before}
        assert {name: new[place].get(name) for name in before} == before, place
        assert all(level == 0 and len(data) < 3000 for level, data in added.values()), place
        grown |= {place[2]} if added else set()
    assert grown == set(families)


def _families(path: Path) -> Iterator[tuple[tuple[str, int, str], dict[str, tuple[int, bytes]]]]:
    """The files of each column family with their levels, by operator and subtask, and the files of heap timers."""
    snapshot = open_snapshot(path)
    for operator in snapshot.metadata.operators:
        for subtask in operator.subtasks:
            if subtask.raw_keyed is not None:
                data = bytes(snapshot.open(subtask.raw_keyed.stream).read())  # type: ignore[union-attr]
                yield (operator.operator_id, subtask.index, "timers on the heap"), {"": (0, data)}
            if not isinstance(handle := subtask.managed_keyed, IncrementalRemoteKeyedStateHandle):
                continue
            files = {file.local_name: bytes(snapshot.open(file.stream).read()) for file in handle.files}
            (manifest,) = (data for name, data in files.items() if name.startswith("MANIFEST"))
            for family in read_manifest(manifest, str(path)).families.values():
                found = {file.name: (file.level, files[file.name]) for file in family.files}
                yield (operator.operator_id, subtask.index, family.name), found
