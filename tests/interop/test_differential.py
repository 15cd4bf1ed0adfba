"""Random cases in both directions (see :mod:`differential`): about ten seeds, and seeds that found bugs before.

``./dev differential --seeds N`` runs more. A seed that fails there is shrunk; the case that it prints belongs in
``differential/regressions.json``, with a name.
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.interop.differential import reading, writing
from tests.interop.differential.cases import KEYED, LISTED, MAX_PARALLELISMS, TIMERS, canonical, case_of
from tests.interop.differential.forms import parse
from tests.interop.differential.running import (
    BACKENDS,
    DIRECTIONS,
    FORST,
    NATIVE,
    READ,
    SPARK,
    VERSIONS,
    WRITTEN,
    Setting,
    run,
    settings,
)
from tests.interop.differential.scalars import SCALARS
from tests.interop.selection import EVERY_CASE, asking

pytestmark = pytest.mark.slow

SEEDS = {WRITTEN: range(4), NATIVE: range(30, 32), READ: range(10, 14), SPARK: range(20, 21)}
REGRESSIONS: list[dict[str, Any]] = json.loads((Path(reading.__file__).parent / "regressions.json").read_text("utf-8"))
CASES = {
    **{(direction, f"seed {seed}"): case_of(seed, direction) for direction in DIRECTIONS for seed in SEEDS[direction]},
    **{(direction, found["name"]): found["case"] for found in REGRESSIONS for direction in found["directions"]},
}
_MARKS = {WRITTEN: (), NATIVE: (), READ: (), SPARK: (pytest.mark.spark,)}


def settings_of(direction: str, case: dict[str, Any]) -> tuple[Setting, ...]:
    """Return a setting for each version, with the backends in turn, and ForSt; all settings if all cases are tried.

    Cases of the same max parallelism are operators of one job. They have the same settings.
    """
    turn = [size for _, size in MAX_PARALLELISMS].index(case["max_parallelism"]) + DIRECTIONS.index(direction)
    chosen = {(version, BACKENDS[(number + turn) % 2]) for number, version in enumerate(VERSIONS)} | {FORST}
    return tuple(s for s in settings(direction) if EVERY_CASE or (s.version, s.backend) in chosen)


@pytest.fixture(scope="module")
def outcome(request: pytest.FixtureRequest) -> dict[tuple[str, str], list[str]]:
    """What differs in each case that is asked for."""
    asked = [(item.callspec.params["direction"], item.callspec.params["name"]) for item in asking(request, "outcome")]
    if any(direction == SPARK for direction, _ in asked):
        request.getfixturevalue("spark")  # the session of other tests, which would not replace one that is made here
    together: dict[tuple[Setting, ...], list[tuple[str, str]]] = defaultdict(list)
    for direction, name in asked:
        together[settings_of(direction, CASES[direction, name])].append((direction, name))
    differences: dict[tuple[str, str], list[str]] = {case: [] for case in asked}
    for where, cases in together.items():
        for (number, setting), words in run([CASES[case] for case in cases], where).items():
            differences[cases[number]].append(f"{setting}: {words[0]}")
    return differences


@pytest.mark.interop
@pytest.mark.parametrize(("direction", "name"), [pytest.param(*case, marks=_MARKS[case[0]]) for case in CASES])
def test_flink_and_we_agree(direction: str, name: str, outcome: dict[tuple[str, str], list[str]]) -> None:
    differences = outcome[direction, name]
    assert not differences, "\n".join([json.dumps(CASES[direction, name])[:2000], *differences])


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_each_case_is_in_both_versions(direction: str) -> None:
    """They are in both backends, too, as operators of jobs with several cases."""
    for case in CASES.values():
        chosen = settings_of(direction, case)
        assert {setting.version for setting in chosen} == set(VERSIONS)
        assert {setting.backend for setting in chosen} >= set(BACKENDS)


def test_a_seed_is_a_case() -> None:
    assert case_of(7, "written") == case_of(7, "written") != case_of(8, "written")


def test_seeds_reach_every_kind_of_state_and_type() -> None:
    cases = [case_of(seed, "written") for seed in range(150)]
    states = [state for case in cases for state in case["states"]]
    assert {case["max_parallelism"] for case in cases} == {size for _, size in MAX_PARALLELISMS}
    assert {state["kind"] for state in states} == {*KEYED, *LISTED, *TIMERS, "BROADCAST"}
    labels = {state[name] for state in states for name in ("value_type", "map_key_type") if name in state}
    assert labels >= {form.label for form in SCALARS}
    assert {label.partition("<")[0] for label in labels} >= {
        *(
            "TUPLE",
            "ROW",
            "LIST",
            "MAP",
            "EITHER",
            "OBJECT_ARRAY",
            "ENUM",
            "POJO",
            "NULLABLE",
            "BYTES",
            "LONG_ARRAY",
            "ROW_DATA",
            "KRYO",
        )
    }
    assert any(state.get("ttl") for state in states)
    assert any(len(entry["value"]) == 100_000 for s in states if s["kind"] == "LIST" for entry in s["entries"])
    assert all(parse(label).label == label for label in labels)


def test_native_seeds_have_many_column_families_and_empty_ones() -> None:
    cases = [case_of(seed, NATIVE) for seed in range(60)]
    states = [state for case in cases for state in case["states"] if case["key_type"]]
    assert max(len(case["states"]) for case in cases) > 15
    assert {bool(state["entries"]) for state in states if state["kind"] in KEYED} == {True, False}
    assert all(len(state["last_access"]) == len(state["entries"]) for state in states if state.get("ttl"))


@pytest.mark.parametrize("seed", range(0, 10, 3))
def test_another_value_is_noticed(seed: int, tmp_path: Path) -> None:
    """What is compared is content: an entry that is not there, or one too many, differs."""
    case = case_of(seed, "written")
    writing.write([case], tmp_path / "savepoint", "2.3.0")
    assert reading.read(tmp_path / "savepoint", case) == canonical(case)
    other = copy.deepcopy(case)
    state = next(state for state in other["states"] if state["entries"])
    del state["entries"][0]
    assert reading.read(tmp_path / "savepoint", case) != canonical(other)
