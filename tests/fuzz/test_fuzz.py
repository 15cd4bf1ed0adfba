"""Regressions of the fuzzer, a run of fresh inputs, and the fuzzer itself: it classifies the results of inputs.

``--fuzz-minutes N`` sets how long fresh inputs of all classes are read together.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from state_processor.support.errors import CorruptSnapshotError
from tests.fuzz import campaign
from tests.fuzz.campaign import FINE, HANG, READ, input_of, load, minimised, outcome_of, run_class, store, table
from tests.fuzz.edits import Edit, Edits, Field, Seed, apply, draw
from tests.fuzz.targets import TARGETS
from tests.fuzz.targets.base import InvalidArrowError, Target, WrongRowsError

pytestmark = pytest.mark.slow

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda p: p.stem)
def test_inputs_that_failed_once_are_read_or_refused(path: Path) -> None:
    outcome, signature, message = outcome_of(load(path))
    assert outcome in FINE, f"{signature}: {message}"


@pytest.mark.parametrize("name", TARGETS)
def test_fresh_inputs_are_read_or_refused(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    minutes = request.config.getoption("--fuzz-minutes")
    number = int(time.time())
    end = time.monotonic() + 60 * minutes / len(TARGETS)
    report = run_class(name, 1_000_000, end, number, tmp_path)
    kept = "\n".join(path.read_text() for path in tmp_path.glob("*.json"))
    assert not report.failures, f"seed {number}\n{table({name: report})}\n{kept}"
    assert report.counts[READ] or report.inputs < 100  # so few are run where time is short, on a busy machine


class Misbehaving(Target):
    """Does what the first byte of the input selects."""

    name = "misbehaving"

    def find_seeds(self) -> Iterator[Seed]:
        yield Seed("all", bytes(8), find_fields=lambda: (Field(0, 1),))

    def run(self, seed: Seed, data: bytes, edits: Edits, rng: random.Random) -> None:
        match data[:1]:
            case b"\1":
                raise CorruptSnapshotError("refused")
            case b"\2":
                raise KeyError("foreign")
            case b"\3":
                os.kill(os.getpid(), signal.SIGSEGV)
            case b"\4":
                while True:
                    pass
            case b"\5":
                bytearray(3 << 30)
            case b"\6":
                raise InvalidArrowError
            case b"\7":
                raise WrongRowsError


@pytest.fixture
def misbehaving(monkeypatch: pytest.MonkeyPatch) -> Any:
    target = Misbehaving()
    monkeypatch.setitem(TARGETS, target.name, target)
    monkeypatch.setattr(campaign, "_CPU_SECONDS", 0.2)
    return target


def case_of(target: Target, first: int) -> campaign.Input:
    return campaign.Input(target.name, target.seeds[0], (Edit(0, 1, bytes([first])), Edit(4, 1, b"x")), "1")


@pytest.mark.parametrize(
    ("first", "outcome"),
    list(enumerate([READ, "refused", "foreign", "crash", HANG, "memory", "invalid Arrow", "wrong rows"])),
)
def test_each_outcome_is_told(misbehaving: Target, first: int, outcome: str) -> None:
    assert outcome_of(case_of(misbehaving, first))[0] == outcome


def test_a_run_goes_on_behind_what_ends_its_child(misbehaving: Target, tmp_path: Path) -> None:
    report = run_class(misbehaving.name, 60, time.monotonic() + 600, 1, tmp_path)
    assert report.inputs == 60
    assert report.counts["crash"]
    assert report.counts[HANG]
    assert len(list(tmp_path.glob("*.json"))) >= 5


def test_a_failure_is_minimised_kept_and_loaded(misbehaving: Target, tmp_path: Path) -> None:
    case = case_of(misbehaving, 2)
    failure = minimised(campaign.Failure(case, *outcome_of(case)))
    assert len(failure.input.edits) == 1
    assert load(store(failure, tmp_path)).edits == failure.input.edits


def test_a_kept_failure_without_its_seed_is_named(misbehaving: Target, tmp_path: Path) -> None:
    case = case_of(misbehaving, 2)
    path = store(campaign.Failure(case, *outcome_of(case)), tmp_path)
    path.write_text(path.read_text().replace('"seed": "all"', '"seed": "gone"'))
    with pytest.raises(LookupError, match="no seed 'gone'"):
        load(path)


def test_inputs_are_the_same_for_the_same_seed(misbehaving: Target) -> None:
    assert [input_of(misbehaving, 1, i).edits for i in range(50)] == [input_of(misbehaving, 1, i).edits for i in range(50)]


def test_edits_of_recorded_lengths_keep_them_or_truncate() -> None:
    seed = Seed("fixed", bytes(range(200)), fixed=True, find_fields=lambda: (Field(4, 4), Field(20, 30, "text")))
    for number in range(500):
        assert len(apply(seed.data, draw(random.Random(number), seed))) <= 200
