"""State from nothing: every kind of state with every type of key and value, which real Flink restores with both backends.

One savepoint holds a state for each line of the table, and an operator for each type of key. It is written once; each version of
Flink restores it in one JVM, with one of the backends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle, groupby, islice
from typing import Any

import pyarrow as pa
import pytest

from state_processor.backends.metadata.operator_id import operator_id
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.state.descriptions import BROADCAST, LIST, MAP, OPERATOR_KINDS, StateDescription
from state_processor.backends.state.hash_inference import HashRule, LearnedHash
from state_processor.backends.write.assembly import commit_savepoint
from state_processor.backends.write.entry_encoder import KeyHash
from state_processor.backends.write.staging import Staging
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.core.pojo import PojoSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.runtime.namespaces import TimerSerializer, VoidNamespaceSerializer
from state_processor.serializers.runtime.wrapping import TtlSerializer
from state_processor.types.flink_types import Types
from tests.backends.operator_files import OperatorColumnsWriter, SubtaskHandles, new_operator
from tests.interop import flink
from tests.interop.rewriting import write_keyed
from tests.interop.selection import asking, in_turn
from tests.interop.type_specimens import (
    ARRAYS,
    AS_USERS_HAVE_THEM,
    COMPOSITES,
    NULLABLES,
    SCALARS,
    VALUES,
    Specimen,
    pojo,
    specimen,
)

pytestmark = pytest.mark.interop

VERSIONS = ("1.20.5", "2.3.0")
BACKENDS = ("hashmap", "rocksdb")
MAX_PARALLELISM = 128
WRITTEN_PARALLELISM, RESTORED_PARALLELISM = 3, 2
NOW = 1_900_000_000_000
TIMERS = {"EVENT_TIMER": "event", "PROCESSING_TIMER": "processing"}
KINDS = ("VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING")
LISTED = ("OPERATOR_LIST", "UNION_LIST")

USER_KEY = Types.POJO("fixtures.UserKey", {"tenant": Types.STRING(), "id": Types.INT()})
USER_KEYS = [{"id": n, "tenant": tenant} for n, tenant in enumerate((None, "", "acme", "zürich", "acme"))]
HASHED_LIKE = HashRule("Objects.hash", ("tenant", "id"))

BY_LABEL = {s.id: s for s in (*VALUES, *AS_USERS_HAVE_THEM, *NULLABLES)}
KEYS = (
    *SCALARS,
    *(s for s in COMPOSITES if s.label.startswith(("TUPLE", "ROW", "LIST", "MAP<STRING,LONG", "EITHER"))),
    specimen("POJO<fixtures.UserKey>", USER_KEY, *USER_KEYS, printed=[pojo("fixtures.UserKey", k) for k in USER_KEYS]),
    *(s for s in AS_USERS_HAVE_THEM if s.variant in ("timestamp", "date", "integer", "large", "decimal")),
)
"""Types whose hashCode Flink's jobs and we compute alike, so that keys are found where Flink looks for them."""

WINDOWS = [{"start": 60_000 * n, "end": 60_000 * (n + 1)} for n in (-1, 0, 28_000_000)]
NAMESPACES = {
    "VOID_NAMESPACE": VoidNamespaceSerializer(),
    "TIME_WINDOW": Types.TIME_WINDOW(),
    "GLOBAL_WINDOW": Types.GLOBAL_WINDOW(),
}


@dataclass(frozen=True)
class Line:
    """A state; without a key it is operator state."""

    kind: str
    value: Specimen
    key: Specimen | None = None
    map_key: Specimen | None = None
    ttl: bool = False
    namespace: str = "VOID_NAMESPACE"

    @property
    def operator(self) -> str:
        """The uid of the operator that has the state."""
        return f"keyed by {self.key.id}" if self.key else "without keys"

    @property
    def name(self) -> str:
        """The name of the state, or of the timer service."""
        words = [self.kind, "TTL" if self.ttl else "", *(s.id for s in (self.key, self.map_key) if s), self.value.id]
        return " ".join([*filter(None, words), *([] if self.namespace == "VOID_NAMESPACE" else [self.namespace])])


def _pairs(specimens: Sequence[Specimen], others: Sequence[Specimen], start: int = 0) -> Iterator[tuple[Specimen, Specimen]]:
    """Each specimen with one of the other specimens in turn."""
    return zip(specimens, islice(cycle(others), start, None), strict=False)


def _lines() -> Iterator[Line]:
    long, text = BY_LABEL["LONG"], BY_LABEL["STRING"]
    plain = [s for s in SCALARS if s.label in ("LONG", "STRING", "INT", "LOCAL_DATE", "BIG_INT", "CHAR", "INSTANT")]
    yield from (Line("VALUE", value, key) for value, key in _pairs((*VALUES, *AS_USERS_HAVE_THEM, *NULLABLES), plain))
    yield from (Line("VALUE", value, key) for key, value in _pairs(KEYS, VALUES, 4))
    yield from (Line("LIST", value, key) for value, key in _pairs(VALUES, plain, 1))
    yield from (
        Line("MAP", value, key, map_key) for (value, map_key), key in zip(_pairs(VALUES, KEYS), cycle(KEYS), strict=False)
    )
    yield from (Line("REDUCING", value, key) for value, key in _pairs((*ARRAYS, *COMPOSITES), plain, 2))
    yield from (Line("AGGREGATING", value, key) for value, key in _pairs(SCALARS, plain, 3))
    for kind in KINDS:
        yield from (Line(kind, s, long, text if kind == "MAP" else None, ttl=True) for s in (text, *COMPOSITES))
    yield from (Line("EVENT_TIMER", long, key) for key in KEYS)
    yield from (Line("PROCESSING_TIMER", long, key, namespace="TIME_WINDOW") for key in KEYS)
    for namespace in ("TIME_WINDOW", "GLOBAL_WINDOW"):
        for kind in ("VALUE", "LIST", "REDUCING", "AGGREGATING"):
            yield from (Line(kind, BY_LABEL["TUPLE<STRING,INT>"], key, namespace=namespace) for key in (text, long))
    for kind in LISTED:
        yield from (Line(kind, value) for value in VALUES)
    yield from (Line("BROADCAST", value, None, key) for value, key in _pairs(VALUES, KEYS, 5))


LINES = {line.name: line for line in _lines()}


def _repeated(specimen_: Specimen, count: int) -> tuple[list[Any], list[Any]]:
    """So many values, over and over, and how they print."""
    return list(islice(cycle(specimen_.values), count)), list(islice(cycle(specimen_.printed), count))


def _contents(line: Line, count: int) -> tuple[pa.Array, list[Any]]:
    """The column of values of so many keys, and how each prints."""
    value, column = line.value, line.value.column
    if line.kind == LIST:
        sizes = [1 + n % 3 for n in range(count)]
        lists = [_repeated(value, size) for size in sizes]
        return pa.array([given for given, _ in lists], pa.list_(column)), [printed for _, printed in lists]
    if line.kind == MAP:
        assert line.map_key is not None
        maps = [[_repeated(s, 1 + n % len(line.map_key)) for s in (line.map_key, value)] for n in range(count)]
        given = [list(zip(keys[0], values[0], strict=True)) for keys, values in maps]
        printed = [[list(pair) for pair in zip(keys[1], values[1], strict=True)] for keys, values in maps]
        return pa.array(given, pa.map_(line.map_key.column, column)), printed
    given, printed = _repeated(value, count)
    return pa.array(given, column), printed


def _description(line: Line) -> StateDescription:
    namespace = NAMESPACES[line.namespace]
    assert line.key is not None
    if line.kind in TIMERS:
        queue = f"_timer_state/{TIMERS[line.kind]}_{line.name}"
        return StateDescription.of(
            queue, line.kind, line.key.serializer, namespace, None, TimerSerializer(line.key.serializer, namespace)
        )
    value: TypeSerializer = line.value.serializer
    map_key = line.map_key.serializer if line.map_key else None
    value = TtlSerializer.of(value) if line.ttl else value
    return StateDescription.of(line.name, line.kind, line.key.serializer, namespace, map_key, value)


def _window(window: dict[str, int] | None) -> Any:
    """A window as its column holds it."""
    if window is None:
        return None
    return {name: datetime.fromtimestamp(millis / 1000, UTC) for name, millis in window.items()}


def _rows(line: Line) -> tuple[pa.RecordBatch, list[dict[str, Any]]]:
    """The rows of a keyed state, and the entries that Flink has to find."""
    key = line.key
    assert key is not None
    windows = WINDOWS if line.namespace == "TIME_WINDOW" else [None]
    slots = [(k, window) for k in range(len(key)) for window in windows]
    columns: dict[str, pa.Array] = {"key": pa.array([key.values[k] for k, _ in slots], key.column)}
    entries: list[dict[str, Any]] = [{"key": key.printed[k]} for k, _ in slots]
    if line.namespace != "VOID_NAMESPACE" or line.kind in TIMERS:
        names = {"VOID_NAMESPACE": "VoidNamespace", "GLOBAL_WINDOW": "GlobalWindow"}
        for entry, (_, window) in zip(entries, slots, strict=True):
            entry["namespace"] = window or names[line.namespace]
    if line.namespace != "VOID_NAMESPACE":
        type_ = NAMESPACES[line.namespace].arrow_type(DecodeOptions())
        columns["window"] = pa.array([_window(window) for _, window in slots], type_)
    if line.kind in TIMERS:
        times = [NOW + 1000 * n for n in range(len(slots))]
        columns["timestamp"] = pa.array(times, pa.int64())
        values: list[dict[str, Any]] = [{"timestamp": time} for time in times]
    else:
        columns["value"], printed = _contents(line, len(slots))
        values = [{"value": value} for value in printed]
    return pa.RecordBatch.from_pydict(columns), [entry | value for entry, value in zip(entries, values, strict=True)]


def _key_hash(key: TypeSerializer) -> KeyHash | None:
    return LearnedHash(key, (HASHED_LIKE,), MAX_PARALLELISM) if isinstance(key, PojoSerializer) else None


def _write_keyed(staging: Staging, uid: str, lines: Sequence[Line]) -> tuple[dict[int, SubtaskHandles], list[list[Any]]]:
    """The keyed states of an operator, and the entries of each that Flink has to find."""
    assert lines[0].key is not None
    rows = [_rows(line) for line in lines]
    states = [(_description(line), [batch]) for line, (batch, _) in zip(lines, rows, strict=True)]
    key_hash = _key_hash(lines[0].key.serializer)
    handles = write_keyed(staging, operator_id(uid), states, WRITTEN_PARALLELISM, MAX_PARALLELISM, NOW, key_hash)
    return {subtask: SubtaskHandles(keyed=handle) for subtask, handle in handles.items()}, [entries for _, entries in rows]


def _write_operator_state(staging: Staging, uid: str, lines: Sequence[Line]) -> tuple[dict[int, SubtaskHandles], list[list[Any]]]:
    """The same for operator state: the elements of lists are in the second subtask, broadcast state is in all."""
    keys = [line.map_key.serializer if line.map_key else None for line in lines]
    states = [
        StateDescription.of(li.name, li.kind, key=key, value=li.value.serializer) for li, key in zip(lines, keys, strict=True)
    ]
    contents = [_repeated(line.value, len(line.map_key or line.value)) for line in lines]
    subtasks = {}
    for subtask in range(WRITTEN_PARALLELISM):
        writer = OperatorColumnsWriter(staging.open(staging.file_name(operator_id(uid), "operator", subtask)), states)
        for line, (values, _) in zip(lines, contents, strict=True):
            column = pa.array(values, line.value.column)
            if line.map_key:
                writer.add_broadcast(line.name, pa.array(line.map_key.values, line.map_key.column), column)
            elif subtask == 1:
                writer.add_list(line.name, column)
        subtasks[subtask] = SubtaskHandles(operator=writer.close())
    return subtasks, [
        [{"key": k, "value": v} for k, v in zip(line.map_key.printed, printed, strict=True)] if line.map_key else printed
        for line, (_, printed) in zip(lines, contents, strict=True)
    ]


def _write(staging: Staging, uid: str, lines: Sequence[Line]) -> tuple[OperatorState, dict[str, Any]]:
    """An operator with its files, and Flink's expected result."""
    subtasks, entries = (_write_keyed if lines[0].key else _write_operator_state)(staging, uid, lines)
    states = [
        {
            "name": line.name,
            "kind": line.kind,
            "map_key_type": line.map_key and line.map_key.label,
            "value_type": line.value.label,
            "namespace_type": line.namespace,
            "ttl": line.ttl,
            "entries": found,
        }
        for line, found in zip(lines, entries, strict=True)
    ]
    expected = {"uid": uid, "key_type": lines[0].key and lines[0].key.label, "states": states}
    return new_operator(uid, WRITTEN_PARALLELISM, MAX_PARALLELISM, subtasks), expected


Entries = dict[tuple[str, str, str], list[str]]


@dataclass(frozen=True)
class Outcome:
    """The written state, and Flink's results by version and backend."""

    expected: Entries
    found: dict[tuple[str, str], Entries]


@pytest.fixture(scope="module")
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    asked = [LINES[item.callspec.params["name"]] for item in asking(request, "outcome")]
    target = tmp_path_factory.mktemp("matrix") / "savepoint"
    staging = Staging(str(target), "matrix")
    staging.prepare()
    by_operator = sorted(asked, key=lambda line: line.operator)
    written = [_write(staging, uid, list(lines)) for uid, lines in groupby(by_operator, key=lambda line: line.operator)]
    commit_savepoint(staging, [operator for operator, _ in written])
    operators = [operator for _, operator in written]
    found = {}
    for number, version in enumerate(VERSIONS):
        backends = in_turn(BACKENDS, number)
        requests = [flink.request(operators, target, backend=b, parallelism=RESTORED_PARALLELISM) for b in backends]
        for backend, answer in zip(backends, flink.restore(version, requests), strict=True):
            assert "error" not in answer, f"{version}, {backend}: {answer['error'][:4000]}"
            found[version, backend] = flink.entries(answer["operators"])
    return Outcome(flink.entries(operators), found)


@pytest.mark.parametrize("name", LINES)
def test_flink_finds_every_entry(name: str, outcome: Outcome) -> None:
    state = LINES[name].operator, name, LINES[name].kind
    assert outcome.expected[state]
    assert {where: found[state] for where, found in outcome.found.items()} == dict.fromkeys(
        outcome.found, outcome.expected[state]
    )


def test_the_table_is_wide() -> None:
    """Every kind of state that the writer has, every type of value, and every type of key."""
    lines = LINES.values()
    assert {line.kind for line in lines} == {*KINDS, *OPERATOR_KINDS, *TIMERS}
    assert {line.key.id for line in lines if line.key} == {key.id for key in KEYS}
    for kind in ("VALUE", LIST, MAP, *LISTED, BROADCAST):
        assert {line.value.id for line in lines if line.kind == kind} >= {value.id for value in VALUES}, kind
