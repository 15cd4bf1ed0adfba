"""State of the asynchronous API, as ForSt registers it, written for all backends. That Flink restores it: tests/interop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import state_processor as sp
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.keyed_splits import keyed_handles
from state_processor.cli import main
from state_processor.options.access import SnapshotAccess
from state_processor.write.build import SavepointBuild
from state_processor.write.tasks.local_engine import LocalEngine
from tests import corpus
from tests.archives import unpacked
from tests.interop.selection import in_turn

UIDS = ("asynchronous", "asynchronous-ttl")
(SOURCE,) = (case.snapshot for case in corpus.packed_cases("2.3.0/asynchronous-forst-incremental"))
(OF_2_0,) = corpus.cases(unpacked("untyped"), "2.0.2/asynchronous-forst-incremental")
PREFIXES = {"EVENT_TIMER": "_timer_state/event_", "PROCESSING_TIMER": "_timer_state/processing_"}


def rewritten(
    source: str | Path, target: Path, format: str, backend: str | None, *, asynchronous: bool | None = None, parallelism: int = 2
) -> Path:
    plan = SavepointBuild.from_existing(source, None, SnapshotAccess())
    for uid in UIDS:
        plan.set_parallelism(uid, parallelism)
        if asynchronous is not None:
            plan.set_asynchronous(uid, asynchronous)
    plan.choose_format(format, backend)
    plan.write_to(target, LocalEngine())
    return target


def differences(savepoint: str | Path) -> list[str]:
    """What is not as Flink's job left it."""
    (case,) = corpus.packed_cases("2.3.0/asynchronous-forst-incremental")
    found = []
    for operator in case.expected["operators"]:
        for state in operator["states"]:
            name = PREFIXES.get(state["kind"], "") + state["name"]
            batches = sp.arrow.read_state(savepoint, operator["uid"], name, flatten=False, nanos="string")
            found += corpus.differences([row for batch in batches for row in batch.to_pylist()], state)
    return found


def registrations(savepoint: str | Path, uid: str = UIDS[0]) -> dict[str, tuple[bool, str]]:
    """Of each state, whether it is in raw keyed state, and how it is registered."""
    snapshot = open_snapshot(savepoint)
    (operator,) = (o for o in snapshot.metadata.operators if o.uid == uid)
    return {
        state.name: (handle.raw, state.backend_type)
        for handle in keyed_handles(operator, snapshot)
        for state in handle.open(snapshot).header.states
    }


ASYNCHRONOUS = registrations(SOURCE)
TIMERS = frozenset(name for name in ASYNCHRONOUS if name.startswith("_timer_state/"))


def test_what_flink_wrote() -> None:
    assert len(TIMERS) == 2
    assert {n: (True, "PRIORITY_QUEUE") if n in TIMERS else (False, "KEY_VALUE_V2") for n in ASYNCHRONOUS} == ASYNCHRONOUS
    assert differences(SOURCE) == []


FORMATS: list[tuple[str, str | None]] = [
    ("canonical", None),
    ("native", "hashmap"),
    ("native", "rocksdb"),
    ("native", "forst"),
]
"""Formats and backends."""


@pytest.mark.parametrize(
    ("format", "backend", "parallelism"),
    [
        (*pair, parallelism)
        for number, pair in enumerate(FORMATS)  # subtasks as in the source, and others, in turn
        for parallelism in in_turn((3, 2), number)
    ],
)
def test_states_are_those_of_other_backends_and_those_are_asynchronous_ones(
    format: str, backend: str | None, parallelism: int, tmp_path: Path
) -> None:
    there = rewritten(SOURCE, tmp_path / "there", format, backend, asynchronous=False, parallelism=parallelism)
    assert differences(there) == []
    assert registrations(there) == {n: (False, "PRIORITY_QUEUE" if n in TIMERS else "KEY_VALUE") for n in ASYNCHRONOUS}
    back = rewritten(there, tmp_path / "back", "native", "forst", asynchronous=True)
    assert differences(back) == []
    assert registrations(back) == ASYNCHRONOUS


@pytest.mark.parametrize("parallelism", [2, 3])
def test_the_default_is_what_the_source_has(parallelism: int, tmp_path: Path) -> None:
    new = rewritten(SOURCE, tmp_path / "new", "native", "forst", parallelism=parallelism)
    assert (registrations(new), differences(new)) == (ASYNCHRONOUS, [])
    canonical = rewritten(SOURCE, tmp_path / "canonical", "canonical", None, parallelism=parallelism)
    assert {kind for _, kind in registrations(canonical).values()} == {"PRIORITY_QUEUE", "KEY_VALUE"}
    assert differences(canonical) == []


def test_timers_are_as_flink_writes_them(tmp_path: Path) -> None:
    """The same blocks: of each key group, with all services."""
    new = rewritten(SOURCE, tmp_path / "new", "native", "forst", parallelism=3)

    def blocks(savepoint: str | Path) -> dict[int, bytes]:
        snapshot = open_snapshot(savepoint)
        (operator,) = (o for o in snapshot.metadata.operators if o.uid == UIDS[0])
        found = {}
        for handle in keyed_handles(operator, snapshot):
            if handle.raw:
                data = bytes(snapshot.open(handle.handle.stream).read())  # type: ignore[union-attr]
                starts = list(handle.handle.offsets)  # type: ignore[union-attr]
                for key_group, start, end in zip(handle.key_groups, starts, [*starts[1:], len(data)], strict=True):
                    found[key_group] = data[start:end]
        return found

    assert len(blocks(SOURCE)) == 128
    assert blocks(new) == blocks(SOURCE)


@pytest.mark.parametrize("named", ["*", "asynchronous"])
def test_convert(named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All operators, or one of them."""
    there, back = tmp_path / "there", tmp_path / "back"
    native = ["--format", "native", "--backend", "forst"]
    assert main(["convert", str(SOURCE), str(there), *native, "--sync-state", named]) == 0
    assert set(registrations(there).values()) == {(False, "KEY_VALUE"), (False, "PRIORITY_QUEUE")}
    other = {kind for _, kind in registrations(there, UIDS[1]).values()}
    assert other == {"PRIORITY_QUEUE", "KEY_VALUE" if named == "*" else "KEY_VALUE_V2"}
    assert differences(there) == []
    operators = ["--async-state", UIDS[0], "--async-state", UIDS[1]]
    assert main(["convert", str(there), str(back), *native, *operators]) == 0
    assert (registrations(back), differences(back)) == (ASYNCHRONOUS, [])
    assert {s["operator_uid"] for s in sp.arrow.states(back).to_pylist()} == {*UIDS, "synchronous"}
    assert {kind for _, kind in registrations(back, "synchronous").values()} == {"PRIORITY_QUEUE", "KEY_VALUE"}
    capsys.readouterr()
    assert main(["convert", str(SOURCE), str(tmp_path / "no"), *native, "--async-state", "asynchronos"]) != 0
    assert "asynchronous" in capsys.readouterr().err


@pytest.mark.parametrize(("format", "backend"), [("canonical", None), ("native", "rocksdb"), ("native", "hashmap")])
def test_time_to_live_that_flink_does_not_restore(format: str, backend: str | None, tmp_path: Path) -> None:
    def plan(version: str | None) -> SavepointBuild:
        made = SavepointBuild.from_existing(SOURCE, version, SnapshotAccess())
        made.set_asynchronous(None, True)
        made.choose_format(format, backend)
        return made

    of_2_1 = plan("2.1")
    with pytest.raises(sp.errors.OptionError, match=r"asynchronous-ttl: .*ForSt.*'ttl-list', 'ttl-map'.*flink_version='2.1'"):
        of_2_1.write_to(tmp_path / "2.1", LocalEngine())
    assert not (tmp_path / "2.1").exists()
    for state in ("ttl-list", "ttl-map", "ttl-value"):
        of_2_1.remove_state("asynchronous-ttl", state)
    of_2_1.write_to(tmp_path / "2.1", LocalEngine())
    assert set(registrations(tmp_path / "2.1", "asynchronous-ttl")) == {"count", *TIMERS}
    for version in ("2.2", None):
        plan(version).write_to(tmp_path / str(version), LocalEngine())
        assert differences(tmp_path / str(version)) == []


def test_no_operator_with_keyed_state() -> None:
    with pytest.raises(sp.errors.OptionError, match="no operator with keyed state yet"):
        SavepointBuild.new(128, "2.3", SnapshotAccess()).set_asynchronous(None, True)


def test_maps_of_flink_2_0_have_bytes_for_keys(tmp_path: Path) -> None:
    """It does not store their type: a reader may say it, and a writer needs it for other backends."""
    wanted = [s for o in OF_2_0.expected["operators"] for s in o["states"] if o["uid"] == UIDS[0] and s["name"] == "map"]

    def rows(savepoint: str | Path, **options: Any) -> list[Mapping[str, Any]]:
        batches = sp.arrow.read_state(savepoint, UIDS[0], "map", flatten=False, **options)
        return [row for batch in batches for row in batch.to_pylist()]

    keys = [key for row in rows(OF_2_0.snapshot) for key, _ in row["value"]]
    assert {len(key) for key in keys} == {6}
    typed = {"schema": {"map_key": sp.Types.LOCAL_DATE()}}
    new = rewritten(OF_2_0.snapshot, tmp_path / "new", "native", "forst", parallelism=3)
    for savepoint in (OF_2_0.snapshot, new):
        assert [*corpus.differences(rows(savepoint, **typed), wanted[0])] == []
    with pytest.raises(sp.errors.UnsupportedFormatError, match="does not store the type of a map's keys"):
        rewritten(OF_2_0.snapshot, tmp_path / "canonical", "canonical", None)
