"""Random cases in both directions (see :mod:`differential`): about twenty seeds, and seeds that found bugs before.

``./dev differential --seeds N`` runs more. A seed that fails there is shrunk; the case that it prints belongs in
``differential/regressions.json``, with a name.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.interop.differential import reading, writing
from tests.interop.differential.cases import KEYED, LISTED, MAX_PARALLELISMS, TIMERS, canonical, case_of
from tests.interop.differential.forms import parse
from tests.interop.differential.running import DIRECTIONS, NATIVE, READ, SPARK, WRITTEN, Problems, run, settings
from tests.interop.differential.scalars import SCALARS
from tests.interop.selection import asking

pytestmark = pytest.mark.slow

SEEDS = {WRITTEN: range(8), NATIVE: range(30, 34), READ: range(10, 18), SPARK: range(20, 22)}
REGRESSIONS: list[dict[str, Any]] = json.loads((Path(reading.__file__).parent / "regressions.json").read_text("utf-8"))
CASES = {
    **{(direction, f"seed {seed}"): case_of(seed, direction) for direction in DIRECTIONS for seed in SEEDS[direction]},
    **{(direction, found["name"]): found["case"] for found in REGRESSIONS for direction in found["directions"]},
}
_MARKS = {WRITTEN: (), NATIVE: (), READ: (), SPARK: (pytest.mark.spark,)}


@pytest.fixture(scope="module")
def outcome(request: pytest.FixtureRequest) -> dict[str, tuple[list[str], Problems]]:
    """The names of the cases of each direction, and what differed."""
    asked = [(item.callspec.params["direction"], item.callspec.params["name"]) for item in asking(request, "outcome")]
    names = {direction: [name for d, name in asked if d == direction] for direction in DIRECTIONS}
    if names[SPARK]:
        request.getfixturevalue("spark")  # the session of other tests, which would not replace one that is made here
    return {
        direction: (some, run([CASES[direction, name] for name in some], settings(direction)))
        for direction, some in names.items()
        if some
    }


@pytest.mark.interop
@pytest.mark.parametrize(("direction", "name"), [pytest.param(*case, marks=_MARKS[case[0]]) for case in CASES])
def test_flink_and_we_agree(direction: str, name: str, outcome: dict[str, tuple[list[str], Problems]]) -> None:
    names, problems = outcome[direction]
    found = [f"{setting}: {words[0]}" for (number, setting), words in problems.items() if names[number] == name]
    assert not found, "\n".join([json.dumps(CASES[direction, name])[:2000], *found])


def test_a_seed_is_a_case() -> None:
    assert case_of(7, "written") == case_of(7, "written") != case_of(8, "written")


def test_seeds_reach_every_kind_of_state_and_type() -> None:
    cases = [case_of(seed, "written") for seed in range(300)]
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
