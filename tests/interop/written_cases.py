"""New savepoints and changed savepoints of real Flink from ``SavepointWriter``, and their expected content in Flink."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import state_processor as sp
from tests.archives import unpacked
from tests.interop import expectations as e
from tests.interop import flink, flink_jars
from tests.interop.patch_chains import ASYNCHRONOUS_STEPS, STEPS, Step, chain
from tests.interop.rows import table_of
from tests.interop.selection import in_turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = sp.Types
FIXTURES = flink_jars.ROOT / "tests" / "fixtures"
START = 1_704_067_200_000
FAR = 4_000_000_000_000
"""A processing time that no test will see."""

BACKENDS = ("hashmap", "rocksdb")
CLAIMED = dict.fromkeys(("execution.savepoint-restore-mode", "execution.state-recovery.claim-mode"), "CLAIM")
HEAP_TIMERS = {"state.backend.rocksdb.timer-service.factory": "HEAP"}


@dataclass(frozen=True)
class Written:
    """A savepoint, and what to do with it.

    ``operators`` is the expected content in Flink, ``restores`` the backends and parallelisms. ``more`` lets the job continue,
    with arguments of :func:`flink.request`; then ``finally_`` is the content of its last savepoint, and ``fired`` the results of
    timers and windows. A patch names its ``base``, and which keys of which states it touched (all states where the name is
    empty). With ``heap_timers``, the job that is started again has its timers on the heap. A job that has ``claimed`` the
    savepoint has its files from then on, and removes them in time.
    """

    target: Path
    operators: e.Operators
    max_parallelism: int = 128
    restores: tuple[tuple[str, int], ...] = (("hashmap", 2), ("rocksdb", 3))  # "rocksdb with heap timers" is a backend too
    more: dict[str, Any] = field(default_factory=dict)
    finally_: e.Operators = field(default_factory=list)
    fired: list[Any] = field(default_factory=list)
    base: Path | None = None
    heap_timers: bool = False
    claimed: bool = False
    touched: dict[str, set[str]] = field(default_factory=dict)

    def requests(self) -> Iterator[dict[str, Any]]:
        """What to ask of Flink."""
        for name, parallelism in self.restores:
            backend, _, timers = name.partition(" with ")
            options: dict[str, Any] = {"backend": backend, "parallelism": parallelism, "max_parallelism": self.max_parallelism}
            options["settings"] = (HEAP_TIMERS if timers else {}) | (CLAIMED if self.claimed else {})
            if self.more:
                after = f"after-{self.target.name}-{backend}-{parallelism}"
                options |= self.more | {"savepoint_to": self.target.parent / after}
            yield flink.request(self.operators, self.target, **options)


@dataclass
class Workshop:
    """Where the cases of one version of Flink are written: canonical, or for the one ``backend`` that is to restore them.

    Spark writes them; the writer without Spark if there is no session. Both write the same bytes (test_engines.py).
    """

    spark: SparkSession | None
    version: str
    directory: Path
    backend: str | None = None
    made: dict[str, Written] = field(default_factory=dict)

    def written(self, name: str) -> Written:
        """A case, written if it is not there yet."""
        if name not in self.made:
            written = CASES[name].write(self, self.directory / name.replace(" ", "-"))
            if self.backend is not None:
                backend = f"{self.backend} with heap timers" if written.heap_timers else self.backend
                restores = dict.fromkeys((backend, parallelism) for _, parallelism in written.restores)
                more = written.more | {"format": "incremental"} if written.more else {}
                written = replace(written, restores=tuple(restores), more=more)
            self.made[name] = replace(written, restores=tuple(self._in_turn(name, written.restores)))
        return self.made[name]

    def _in_turn(self, name: str, restores: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
        """Return each other restore; another version of Flink, if the case has one, does the others."""
        versions = CASES[name].versions
        if len(versions) == 1:
            return restores
        return in_turn(restores, list(CASES).index(name) + versions.index(self.version))

    def write(self, writer: sp.SavepointWriter, target: Path) -> None:
        """Write in the format of the workshop."""
        if self.backend is None:
            writer.write(target)
        else:
            writer.write(target, format="native", backend=self.backend)

    def fixture(self, name: str) -> tuple[Path, e.Operators]:
        """A snapshot from real Flink, and its content."""
        directory = FIXTURES / self.version / name
        if not directory.is_dir():
            directory = unpacked() / self.version / name
        expected = json.loads((directory / "expected.json").read_text("utf-8"))
        return directory / expected["snapshot_dir"], expected["operators"]

    def new(self) -> sp.SavepointWriter:
        if self.spark is None:
            return sp.arrow.SavepointWriter.new(flink_version=self.version)  # type: ignore[return-value]  # with the same methods
        return sp.SavepointWriter.new(self.spark, flink_version=self.version)

    def from_existing(self, base: Path) -> sp.SavepointWriter:
        if self.spark is None:
            return sp.arrow.SavepointWriter.from_existing(base)  # type: ignore[return-value]
        return sp.SavepointWriter.from_existing(self.spark, base)

    def rows(self, rows: Iterable[Sequence[Any]], schema: str) -> Any:
        """Rows with a schema in Spark's notation: a DataFrame, or a table."""
        return table_of(rows, schema) if self.spark is None else self.spark.createDataFrame(list(rows), schema)


# From nothing

KEYS = range(-3, 47)
RICH = "rich"


def _common(name: str, kind: str, value_type: str | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "key_type": "LONG", "value_type": value_type, "ttl": False, **more}


def _content(key: int) -> dict[str, Any]:
    """What every state holds for a key; nothing where it is empty."""
    return {
        "total": key * 1_000_000_007,
        "history": [f"{n} × tea" for n in range(key % 4)],
        "items": {f"item {n}": key * n for n in range(key % 3)},
        "sum": 7 * key,
        "mean": (key, 1 + key % 5),
        "session": f"s-{key}" if key % 3 else None,
        "recent": [f"page {n}" for n in range(key % 2)],
        "seen": {"first": key},
    }


RICH_TYPES = {
    "total": (sp.ValueState(T.LONG()), "long", _common("total", "VALUE", "LONG")),
    "history": (sp.ListState(T.STRING()), "array<string>", _common("history", "LIST", "STRING")),
    "items": (
        sp.MapState(T.STRING(), T.LONG()),
        "map<string,long>",
        _common("items", "MAP", "LONG", map_key_type="STRING"),
    ),
    "sum": (sp.ReducingState(T.LONG()), "long", _common("sum", "REDUCING", "LONG")),
    "mean": (
        sp.AggregatingState(T.TUPLE([T.LONG(), T.LONG()])),
        "struct<f0:long,f1:long>",
        _common("mean", "AGGREGATING", "TUPLE<LONG,LONG>"),
    ),
    "session": (sp.ValueState(T.STRING(), ttl=True), "string", _common("session", "VALUE", "STRING", ttl=True)),
    "recent": (sp.ListState(T.STRING(), ttl=True), "array<string>", _common("recent", "LIST", "STRING", ttl=True)),
    "seen": (
        sp.MapState(T.STRING(), T.LONG(), ttl=True),
        "map<string,long>",
        _common("seen", "MAP", "LONG", map_key_type="STRING", ttl=True),
    ),
}


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return [list(pair) for pair in value.items()]
    return list(value) if isinstance(value, tuple) else value


def _rich(workshop: Workshop, writer: sp.SavepointWriter) -> dict[str, Any]:
    """An operator with every kind of state, and timers."""
    rows = [(key, *_content(key).values()) for key in KEYS]
    schema = ", ".join(["key long", *(f"{name} {column}" for name, (_, column, _) in RICH_TYPES.items())])
    states = {name: spec for name, (spec, _, _) in RICH_TYPES.items()}
    writer.with_keyed_state(RICH, workshop.rows(rows, schema), key_type=T.LONG(), states=states, parallelism=2)
    timers = [(key, "event_time", START + 1000 * key) for key in KEYS]
    timers += [(key, "processing_time", (1000 if key % 2 else FAR) + key) for key in KEYS]
    writer.with_timers(RICH, workshop.rows(timers, "key long, domain string, timestamp long"))
    expected = []
    for name, (_, _, state) in RICH_TYPES.items():
        values = [(key, _shown(_content(key)[name])) for key in KEYS]
        expected.append(state | {"entries": [{"key": key, "value": v} for key, v in values if v not in (None, [])]})
    for domain, kind in (("event_time", e.EVENT), ("processing_time", e.PROCESSING)):
        entries = [{"key": key, "namespace": "VoidNamespace", "timestamp": t} for key, d, t in timers if d == domain]
        expected.append(_common("user-timers", kind, namespace_type="VOID_NAMESPACE", entries=entries))
    return {"uid": RICH, "key_type": "LONG", "states": expected}


def _time(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)


def _windows(workshop: Workshop, writer: sp.SavepointWriter) -> dict[str, Any]:
    """The state of a window operator."""
    slots = [(f"user-{n % 4}", START + 10_000 * n, START + 10_000 * (n + 1), n) for n in range(12)]
    rows = [
        (user, tuple(datetime.fromtimestamp(t / 1000, UTC) for t in (start, end)), n, end - 1) for user, start, end, n in slots
    ]
    schema = "key string, window struct<start:timestamp,end:timestamp>, contents long, timestamp long"
    frame = workshop.rows(rows, schema)
    states = {"contents": sp.ReducingState(T.LONG(), namespace=T.TIME_WINDOW())}
    writer.with_keyed_state("windows", frame, states=states, columns={"contents": "window-contents"}, parallelism=2)
    schema = "key string, window struct<start:timestamp,end:timestamp>, timestamp long, service string"
    timers = workshop.rows([(user, window, time, "window-timers") for user, window, _, time in rows], schema)
    writer.with_timers("windows", timers, namespace=T.TIME_WINDOW())
    entries = [{"key": user, "namespace": {"start": start, "end": end}} for user, start, end, _ in slots]
    contents = [entry | {"value": n} for entry, (_, _, _, n) in zip(entries, slots, strict=True)]
    fires = [entry | {"timestamp": end - 1} for entry, (_, _, end, _) in zip(entries, slots, strict=True)]
    space = {"key_type": "STRING", "namespace_type": "TIME_WINDOW"}
    states_ = [
        _common("window-contents", "REDUCING", "LONG", entries=contents) | space,
        _common("window-timers", e.EVENT, entries=fires) | space,
    ]
    return {"uid": "windows", "key_type": "STRING", "states": states_}


def _lists(workshop: Workshop, writer: sp.SavepointWriter) -> dict[str, Any]:
    """List, union and broadcast state."""
    elements = [f"restock {n}" for n in range(7)]
    offsets = [(f"stock-{n}", 37 * n) for n in range(3)]
    discounts = [("tea", 0.5), ("mug €", 0.0)]
    pending = workshop.rows([(element,) for element in elements], "value string")
    writer.with_list_state("lists", "pending", pending, T.STRING(), parallelism=2)
    union = workshop.rows([(pair,) for pair in offsets], "value struct<f0:string,f1:long>")
    writer.with_union_state("lists", "offsets", union, T.TUPLE([T.STRING(), T.LONG()]))
    writer.with_broadcast_state("lists", "discounts", workshop.rows(discounts, "key string, value double"))
    states = [
        {"name": "pending", "kind": "OPERATOR_LIST", "value_type": "STRING", "entries": elements},
        {"name": "offsets", "kind": "UNION_LIST", "value_type": "TUPLE<STRING,LONG>", "entries": [list(p) for p in offsets]},
        {
            "name": "discounts",
            "kind": "BROADCAST",
            "map_key_type": "STRING",
            "value_type": "DOUBLE",
            "entries": [{"key": key, "value": value} for key, value in discounts],
        },
    ]
    return {"uid": "lists", "key_type": None, "states": states}


def bootstrapped(workshop: Workshop, target: Path) -> Written:
    """Every kind of state, written for this version."""
    return _bootstrapped(workshop, target)


def bootstrapped_asynchronous(workshop: Workshop, target: Path) -> Written:
    """The same in the asynchronous API of Flink 2, which drops TTL as it restores where the backend is not ForSt."""
    written = _bootstrapped(workshop, target, (RICH, "windows"))
    return replace(written, operators=e.asynchronous(written.operators, (RICH, "windows")))


def _bootstrapped(workshop: Workshop, target: Path, asynchronous: tuple[str, ...] = ()) -> Written:
    writer = workshop.new()
    operators = [part(workshop, writer) for part in (_rich, _windows, _lists)]
    for uid in asynchronous:
        writer.with_async_state(uid)
    workshop.write(writer, target)
    return Written(target, operators, restores=tuple((backend, p) for backend in BACKENDS for p in (2, 3)))


def synchronous(workshop: Workshop, target: Path) -> Written:
    """What an asynchronous job of Flink left, TTL included, for the same job without ``enableAsyncState``."""
    base, operators = workshop.fixture("asynchronous-forst-incremental")
    workshop.write(workshop.from_existing(base).with_async_state(enabled=False), target)
    return Written(target, [{name: part for name, part in o.items() if name != "asynchronous"} for o in operators])


def asynchronous(workshop: Workshop, target: Path) -> Written:
    """Every kind of state of a synchronous job, TTL included, for the same job with ``enableAsyncState``."""
    base = workshop.written("bootstrapped")
    workshop.write(workshop.from_existing(base.target).with_async_state(), target)
    return Written(target, e.asynchronous(base.operators, (RICH, "windows")))


# Key groups, and going on


def rescaled(source: str, max_parallelism: int, parallelism: int) -> Callable[[Workshop, Path], Written]:
    """Other key groups, of a case or of a fixture; restored at this parallelism and at another."""

    def write(workshop: Workshop, target: Path) -> Written:
        if source in CASES:
            base, operators = workshop.written(source).target, workshop.written(source).operators
        else:
            base, operators = workshop.fixture(source)
        writer = workshop.from_existing(base)
        for operator in operators:
            writer.with_parallelism(operator["uid"], min(parallelism, 2))
        writer.with_max_parallelism(max_parallelism)
        for operator in operators:
            writer.with_parallelism(operator["uid"], parallelism)
        workshop.write(writer, target)
        other = min(max_parallelism, 3 if parallelism == 2 else 2)
        return Written(target, operators, max_parallelism, (("hashmap", parallelism), ("rocksdb", other)))

    return write


GO_ON = [
    {"operator": RICH, "state": "total", "key": 5, "value": 77},
    {"operator": RICH, "state": "history", "key": 6, "value": "one more"},
    {"operator": RICH, "state": "items", "key": 5, "value": ["scarf", 5]},
    {"operator": RICH, "state": "items", "key": 5, "value": ["item 1", -5]},
    {"operator": RICH, "state": "sum", "key": 7, "value": 100},
    {"operator": RICH, "state": "mean", "key": 8, "value": 100},
    {"operator": RICH, "state": "session", "key": 4, "value": None},
    {"operator": RICH, "state": "session", "key": 5, "value": "s-new"},
    {"operator": RICH, "state": "recent", "key": 5, "value": "page new"},
    {"operator": RICH, "state": "seen", "key": 5, "value": ["second", 2]},
    {"operator": RICH, "state": "total", "key": 1000, "value": 1},
    {"operator": RICH, "state": "(event timer)", "key": 1000, "value": START + 9_000_000},
    {"operator": "lists", "state": "pending", "value": "restock scarf"},
    {"operator": "lists", "state": "discounts", "value": ["tea", 0.25]},
]


def copied(workshop: Workshop, target: Path) -> Written:
    """Every kind of state under other uids, copied into a savepoint with an operator ``orders``."""
    base, operators = workshop.fixture("orders-hashmap-native")
    source, writer = workshop.written("bootstrapped"), workshop.from_existing(base)
    for operator in source.operators:
        writer.copy_operator(source.target, operator["uid"], f"copied {operator['uid']}")
    workshop.write(writer, target)
    return Written(target, [*operators, *({**o, "uid": f"copied {o['uid']}"} for o in source.operators)])


def going_on(source: str, *, claimed: bool = False, copied: bool = False) -> Callable[[Workshop, Path], Written]:
    """A job that goes on with all kinds of state: it sees and changes them, and timers of both domains fire."""

    def write(workshop: Workshop, target: Path) -> Written:
        base = workshop.written(source)
        operators = [o for o in base.operators if o["uid"] != "windows"]
        writer = workshop.new() if copied else workshop.from_existing(base.target).remove_operator("windows")
        writer.with_max_parallelism(512)
        for operator in operators if copied else ():
            writer.copy_operator(base.target, operator["uid"])
        workshop.write(writer, target)
        watermark = START + 20_000
        final, by_event = e.fired(e.after(operators, GO_ON), e.EVENT, watermark)
        final, by_clock = e.fired(final, e.PROCESSING, FAR - 1000)
        if workshop.version.startswith("2.0."):  # it does not store the type of keys of asynchronous maps
            final = [{**o, "states": [s for s in o["states"] if s["kind"] != "MAP" or "asynchronous" not in o]} for o in final]
        more = {"steps": GO_ON, "watermark": watermark, "fired": len(by_event + by_clock)}
        written = Written(target, operators, 512, more=more, finally_=final, fired=by_event + by_clock)
        return replace(written, claimed=True, restores=(("rocksdb", 3),)) if claimed else written  # it can be claimed once

    return write


def windows_going_on(workshop: Workshop, target: Path) -> Written:
    """Window operators that go on with windows that are open: they take one more event, and fire."""
    base, operators = workshop.fixture("windows-hashmap-canonical")
    workshop.write(workshop.from_existing(base).with_max_parallelism(512), target)
    event, watermark = {"amount": 1000, "time": START + 46_000, "user": "user-3"}, START + 49_999
    final, fired = e.windows_after(operators, event, watermark)
    more = {"case": "windows", "steps": [event], "watermark": watermark, "fired": len(fired)}
    return Written(target, operators, 512, more=more, finally_=final, fired=fired)


def asynchronous_windows_going_on(workshop: Workshop, target: Path) -> Written:
    """The same with asynchronous tumbling windows: Flink does not have asynchronous merging windows."""
    base, operators = workshop.fixture("windows-hashmap-canonical")
    workshop.write(workshop.from_existing(base).with_async_state("tumbling-reduce"), target)
    event, watermark = {"amount": 1000, "time": START + 46_000, "user": "user-3"}, START + 49_999
    final, fired = e.windows_after(operators, event, watermark)
    more = {"case": "asynchronous-windows", "steps": [event], "watermark": watermark, "fired": len(fired)}
    operators = e.asynchronous(operators, ("tumbling-reduce",))
    return Written(target, operators, more=more, finally_=final, fired=fired)


# Patches of what real Flink wrote

Patch = Callable[[Workshop, sp.SavepointWriter, e.Operators], tuple[e.Operators, dict[str, set[str]]]]


def _update(workshop: Workshop, writer: sp.SavepointWriter, operators: e.Operators) -> tuple[e.Operators, dict[str, set[str]]]:
    values = {"amelia": 100, "nobody yet": 2, "anders": None}
    writer.update_keyed_state("orders", "total", workshop.rows(list(values.items()), "key string, value long"))
    return e.changed(operators, "orders", "total", values), {"total": set(values)}


def _delete(workshop: Workshop, writer: sp.SavepointWriter, operators: e.Operators) -> tuple[e.Operators, dict[str, set[str]]]:
    frame = workshop.rows([("clara",), ("zoë",)], "key string")
    writer.delete_keys("orders", frame)
    writer.delete_keys("orders", workshop.rows([("bjorn",)], "key string"), state="history")
    expected = e.without_keys(operators, "orders", ("clara", "zoë"))
    return e.without_keys(expected, "orders", ("bjorn",), ("history",)), {"": {"clara", "zoë"}, "history": {"bjorn"}}


def _delete_asynchronous(
    workshop: Workshop, writer: sp.SavepointWriter, operators: e.Operators
) -> tuple[e.Operators, dict[str, set[str]]]:
    """Keys with their timers in raw keyed state."""
    writer.delete_keys("asynchronous", workshop.rows([("#12",), ("",)], "key string"))
    return e.without_keys(operators, "asynchronous", ("#12", "")), {"": {"#12", ""}}


def _add(workshop: Workshop, writer: sp.SavepointWriter, operators: e.Operators) -> tuple[e.Operators, dict[str, set[str]]]:
    scores = [("amelia", 1.5), ("somebody else", -0.25)]
    frame = workshop.rows(scores, "key string, score double")
    writer.with_keyed_state("orders", frame, states={"score": T.DOUBLE()})
    entries = [{"key": key, "value": score} for key, score in scores]
    state = {"name": "score", "kind": "VALUE", "key_type": "STRING", "value_type": "DOUBLE", "ttl": False, "entries": entries}
    return e.with_states(operators, "orders", [state]), {}


def _remove(workshop: Workshop, writer: sp.SavepointWriter, operators: e.Operators) -> tuple[e.Operators, dict[str, set[str]]]:
    writer.remove_state("orders", "session")
    return e.with_states(operators, "orders", removed="session"), {}


def patched(source: str, patch: Patch) -> Callable[[Workshop, Path], Written]:
    """A patch of a fixture, or of a checkpoint that Flink made for this (:data:`CHECKPOINTS`)."""

    def write(workshop: Workshop, target: Path) -> Written:
        base, operators = workshop.fixture(source) if source not in CHECKPOINTS else checkpoint(workshop, source)
        writer = workshop.from_existing(base)
        expected, touched = patch(workshop, writer, operators)
        workshop.write(writer, target)
        return Written(target, expected, base=base, touched=touched)

    return write


def patched_in_steps(source: str, chosen: Sequence[Step]) -> Callable[[Workshop, Path], Written]:
    """Native patches of a fixture on top of each other."""

    def write(workshop: Workshop, target: Path) -> Written:
        base, operators = workshop.fixture(source)
        targets = [target.with_name(f"{target.name}-{n}") for n in range(len(chosen) - 1)]
        expected = chain(workshop, base, operators, chosen, [*targets, target])
        return Written(target, expected)

    return write


def sharing_files(workshop: Workshop, target: Path) -> Written:
    """Patches of states with TTL in a native savepoint; the new one refers to the files of that."""
    base = workshop.written("bootstrapped")
    writer = workshop.from_existing(base.target)
    seen = {5: {"first": 50, "second": 2}, 1000: {"first": 1}, 8: None}
    recent = {1: ["page 1", "page 2"], 3: None}
    session = {4: "s-new", 1000: "s-first"}
    writer.update_keyed_state(RICH, "seen", workshop.rows(list(seen.items()), "key long, value map<string,long>"))
    writer.delete_map_entries(RICH, "seen", workshop.rows([(6, "first"), (7, "other")], "key long, map_key string"))
    writer.update_keyed_state(RICH, "recent", workshop.rows(list(recent.items()), "key long, value array<string>"))
    writer.update_keyed_state(RICH, "session", workshop.rows(list(session.items()), "key long, value string"))
    writer.write(target, format="native", backend=workshop.backend, share_files=True)
    maps = {key: None if value is None else _shown(value) for key, value in seen.items()} | {6: None}
    operators = base.operators
    for state, values in (("seen", maps), ("recent", recent), ("session", session)):
        operators = e.changed(operators, RICH, state, values)
    return Written(target, operators, base=base.target)


def rescaled_checkpoint(source: str, max_parallelism: int) -> Callable[[Workshop, Path], Written]:
    """Other key groups, of a checkpoint that Flink made for this."""

    def write(workshop: Workshop, target: Path) -> Written:
        base, operators = checkpoint(workshop, source)
        workshop.write(workshop.from_existing(base).with_max_parallelism(max_parallelism), target)
        restores = (("hashmap", 2), ("rocksdb", 3), ("rocksdb with heap timers", 2))
        on_heap = source == HEAP and workshop.backend == "rocksdb"
        return Written(target, operators, max_parallelism, restores, heap_timers=on_heap)

    return write


_LOGGED = {  # each option under its names in Flink 1 and 2
    **dict.fromkeys(("state.backend.changelog.enabled", "state.changelog.enabled"), "true"),
    **CLAIMED,
}
HEAP, CHANGELOG = "heap timers", "changelog"
CHECKPOINTS = (HEAP, CHANGELOG)
"""Checkpoints of RocksDB jobs that went on with a fixture: with timers on the heap, and with the changelog."""

BEFORE = [
    {"operator": "orders", "state": "total", "key": "amelia", "value": 1},
    {"operator": "orders", "state": "history", "key": "amelia", "value": "1 × scarf"},
    {"operator": "orders", "state": "items", "key": "newcomer", "value": ["scarf", 5]},
    {"operator": "orders", "state": "session", "key": "anders", "value": None},
    {"operator": "orders", "state": "(event timer)", "key": "newcomer", "value": 2_000_000_000_000},
    {"operator": "orders", "state": "(processing timer)", "key": "amelia", "value": FAR},
    {"operator": "catalog", "state": "pending", "value": "restock scarf"},
]


def checkpoint(workshop: Workshop, name: str) -> tuple[Path, e.Operators]:
    """The checkpoint and its content; all checkpoints are made at once."""
    base, orders = workshop.fixture("orders-hashmap-canonical")
    timers = {
        "name": "user-timers",
        "kind": e.PROCESSING,
        "key_type": "STRING",
        "namespace_type": "VOID_NAMESPACE",
        "entries": [],
    }
    operators = e.with_states(orders, "orders", [timers])
    directory = workshop.directory / "checkpoints"
    if not directory.exists():
        directory.mkdir()
        common: dict[str, Any] = {"backend": "rocksdb", "format": "incremental"}
        requests = [
            flink.request(operators, base, savepoint_to=directory / "heap-timers", settings=HEAP_TIMERS, steps=BEFORE, **common),
            flink.request(operators, base, savepoint_to=directory / "plain", **common),
        ]
        made = dict(zip((HEAP, "plain"), _checkpoints(workshop.version, requests), strict=True))
        # The changelog has to own its start snapshot. It can't be a savepoint: Flink would not find its files again.
        go_on = flink.request(
            operators, made["plain"], savepoint_to=directory / "changelog", settings=_LOGGED, steps=BEFORE, **common
        )
        (made[CHANGELOG],) = _checkpoints(workshop.version, [go_on], directory / "log")
        (directory / "made.json").write_text(json.dumps(made), "utf-8")
    # Each subtask of such a job keeps all elements of union state.
    kept = e.repeated(e.after(operators, BEFORE), "UNION_LIST", {HEAP: 2, CHANGELOG: 4}[name])
    return Path(json.loads((directory / "made.json").read_text("utf-8"))[name]), kept


def _checkpoints(version: str, requests: list[dict[str, Any]], changelogs: Path | None = None) -> list[str]:
    answers = flink.restore(version, requests, changelogs=changelogs)
    for answer in answers:
        if "savepoint" not in answer:
            raise flink.FlinkError(f"Flink {version} made no checkpoint: {answer['error']}")
    return [answer["savepoint"] for answer in answers]


@dataclass(frozen=True)
class Case:
    """A line of the table: which versions of Flink, and how it is written."""

    write: Callable[[Workshop, Path], Written]
    versions: tuple[str, ...] = ("1.20.5", "2.3.0")


CASES = {
    "bootstrapped": Case(bootstrapped, flink_jars.VERSIONS),
    "canonical updated": Case(patched("orders-hashmap-canonical", _update)),
    "native updated": Case(patched("orders-rocksdb-native", _update)),
    "incremental updated": Case(patched("orders-rocksdb-incremental", _update)),
    "changelog updated": Case(patched(CHANGELOG, _update)),
    "native with keys deleted": Case(patched("orders-rocksdb-native", _delete)),
    "native with a sixth state": Case(patched("orders-rocksdb-native", _add)),
    "native patched in steps": Case(patched_in_steps("orders-rocksdb-native", STEPS[::2])),
    "incremental patched in steps": Case(patched_in_steps("orders-rocksdb-incremental", STEPS[1::2])),
    "native with four states": Case(patched("orders-rocksdb-native", _remove)),
    "native with shared files": Case(sharing_files),
    "heap timers": Case(patched(HEAP, _update)),
    "heap timers in 512 key groups": Case(rescaled_checkpoint(HEAP, 512)),
    "changelog in 512 key groups": Case(rescaled_checkpoint(CHANGELOG, 512)),
    "all kinds in 512 key groups": Case(rescaled("bootstrapped", 512, 3)),
    "all kinds in 32 key groups": Case(rescaled("bootstrapped", 32, 1)),
    "windows in 32 key groups": Case(rescaled("windows-rocksdb-canonical", 32, 3)),
    "orders in 1 key group": Case(rescaled("orders-rocksdb-native", 1, 1)),
    "orders in 32768 key groups": Case(rescaled("orders-rocksdb-native", 32768, 3)),
    "orders in as many key groups as subtasks": Case(rescaled("orders-rocksdb-native", 4, 4)),
    "a job that goes on": Case(going_on("bootstrapped")),
    "copied operators": Case(copied),
    "a copied job that goes on": Case(going_on("bootstrapped", copied=True)),
    "a job that claims": Case(going_on("bootstrapped", claimed=True)),
    "asynchronous": Case(bootstrapped_asynchronous, ("2.0.2", "2.3.0")),
    "an asynchronous job that goes on": Case(going_on("asynchronous"), ("2.0.2", "2.3.0")),
    "an asynchronous job that claims": Case(going_on("asynchronous", claimed=True), ("2.0.2", "2.3.0")),
    "asynchronous patched in steps": Case(patched_in_steps("asynchronous-forst-incremental", ASYNCHRONOUS_STEPS), ("2.3.0",)),
    "asynchronous with keys deleted": Case(patched("asynchronous-forst-incremental", _delete_asynchronous), ("2.3.0",)),
    "asynchronous becomes synchronous": Case(synchronous, ("2.3.0",)),
    "synchronous becomes asynchronous": Case(asynchronous, ("2.0.2", "2.3.0")),
    "windows that go on": Case(windows_going_on),
    "asynchronous windows that go on": Case(asynchronous_windows_going_on, ("2.3.0",)),
}


def all_of(names: Iterable[str]) -> list[tuple[str, str]]:
    """Cases by name and version."""
    return [(name, version) for name in names for version in CASES[name].versions]
