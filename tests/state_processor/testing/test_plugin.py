"""The plugin of pytest, in runs of its own."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

import state_processor as sp
from state_processor.applications.testing import write_savepoint
from state_processor.testing import assert_state
from tests.afresh import run_afresh
from tests.state_processor.samples import FIXTURES, ORDERS, ORDERS_PATH, TYPES_PATH, WINDOWS_PATH, expected_values

TOTAL = expected_values(ORDERS, "orders", "total")
_PLUGIN = "state_processor.testing.plugin"


def ran(directory: Path, test: str, *flags: str, imported: bool = True) -> tuple[int, str]:
    """Run a file of tests with the plugin, and return the exit code and the output; by default the process has imported it."""
    (directory / "test_job.py").write_text(
        f"import state_processor as sp\nfrom state_processor.testing import assert_state\n{test}"
    )
    arguments = ["-p", _PLUGIN, "-p", "no:cacheprovider", *flags, "test_job.py"]
    if imported:
        output = directory / "output"
        return run_afresh(_run, directory, output, arguments), output.read_text()
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "pytest", *arguments]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def _run(directory: Path, output: Path, arguments: list[str]) -> None:
    gc.freeze()  # pytest collects garbage at its end, several times, and walks over all modules
    os.chdir(directory)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with output.open("w") as file, redirect_stdout(file), redirect_stderr(file):
        code = pytest.main(arguments)
    sys.exit(code)


def test_the_tests_of_the_guide_run(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "test-a-job.md").read_text("utf-8")
    tests = [block for block in re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if block.startswith("def test_")]
    (tmp_path / "build").mkdir()
    shutil.copytree(ORDERS_PATH, tmp_path / "build" / "savepoint")
    code, output = ran(tmp_path, "\n".join(tests), "--update-state-schema")
    assert code == 0, output
    assert f"{len(tests)} passed" in output
    assert len(tests) == 2


def test_a_savepoint_from_dictionaries(tmp_path: Path) -> None:
    test = """
def test_states(savepoint):
    path = savepoint(
        {"my-op": {"seen": {7: True}}},
        orders={
            "total": {"amelia": 3950, "anders": 10},
            "tags": {"amelia": ["new", "vip"]},
            "items": {"anders": {"pen": 2}},
            "offsets": [3, 1],
        },
        types={"orders": {"total": sp.ReducingState(sp.Types.INT())}},
    )
    assert_state(path, "orders", "total", {"amelia": 3950, "anders": 10})
    assert_state(path, "orders", "tags", {"amelia": ["new", "vip"]})
    assert_state(path, "orders", "items", {"anders": {"pen": 2}})
    assert_state(path, "orders", "offsets", [1, 3])
    assert_state(path, "my-op", "seen", {7: True})
    kinds = {row["state_name"]: (row["state_kind"], row["value_type"]) for row in sp.arrow.states(path).to_pylist()}
    assert kinds["total"] == ("REDUCING", "INT")
"""
    code, output = ran(tmp_path, test, imported=False)
    assert (code, "1 passed" in output) == (0, True), output


def test_contents_of_states_that_flink_wrote() -> None:
    assert_state(ORDERS_PATH, "orders", "total", TOTAL)
    assert_state(ORDERS_PATH, "orders", "history", expected_values(ORDERS, "orders", "history"))
    assert_state(ORDERS_PATH, "orders", "items", {k: dict(v) for k, v in expected_values(ORDERS, "orders", "items").items()})
    assert_state(ORDERS_PATH, "catalog", "discounts", expected_values(ORDERS, "catalog", "discounts"))
    pending = [row["value"] for row in sp.arrow.read_state(ORDERS_PATH, "catalog", "pending").read_all().to_pylist()]
    assert_state(ORDERS_PATH, "catalog", "pending", reversed(pending))


def test_keys_that_are_structs_and_windows_are_tuples() -> None:
    with pytest.raises(AssertionError, match=r"expected no value, found") as tuples:
        assert_state(TYPES_PATH, "kinds", "sum", {})
    assert "  ('" in str(tuples.value)
    with pytest.raises(AssertionError, match=r"\('2024-"):
        assert_state(WINDOWS_PATH, "tumbling-reduce", "window-contents", {})


def test_differences_are_listed() -> None:
    wrong = TOTAL | {"amelia": 1, "nobody": 2}
    del wrong["anders"]
    with pytest.raises(AssertionError) as found:
        assert_state(ORDERS_PATH, "orders", "total", wrong)
    assert str(found.value).splitlines() == [
        "state 'total' of operator 'orders' has 3 keys that differ:",
        "  'amelia': expected 1, found 3950",
        "  'anders': expected no value, found 14430",
        "  'nobody': expected 2, the key is missing",
    ]
    with pytest.raises(AssertionError, match="… 30 more"):
        assert_state(ORDERS_PATH, "orders", "total", {})
    with pytest.raises(AssertionError, match="a dictionary of values by key"):
        assert_state(ORDERS_PATH, "orders", "total", [3950])
    with pytest.raises(AssertionError, match="expected 'none', which is missing"):
        assert_state(ORDERS_PATH, "catalog", "pending", ["none"])


def savepoint(path: Path, types: dict[str, object], **states: object) -> str:
    write_savepoint(str(path), {"orders": states}, {"orders": types}, {}, 128, "1.20")  # type: ignore[dict-item]
    return str(path)


CHECK = "def test_states(state_schema):\n    state_schema({path!r})"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a savepoint: it is missing, it is written, and it fits."""
    folder = tmp_path_factory.mktemp("written")
    path = savepoint(folder / "old", {"total": sp.Types.POJO("a.Total", {"cents": sp.Types.LONG()})}, total={"amelia": (3,)})
    code, output = ran(folder, CHECK.format(path=path))
    assert (code, "--update-state-schema" in output) == (1, True)
    assert ran(folder, CHECK.format(path=path), "--update-state-schema")[0] == 0
    assert ran(folder, CHECK.format(path=path))[0] == 0
    return folder / "state_schema" / "test_states.json"


@pytest.fixture
def golden(written: Path, tmp_path: Path) -> Path:
    (tmp_path / "state_schema").mkdir()
    return Path(shutil.copy(written, tmp_path / "state_schema"))


def test_the_file_has_states_types_and_ttl(golden: Path) -> None:
    (operator,) = json.loads(golden.read_text("utf-8"))["operators"]
    assert operator["uid_hash"] == sp.OperatorIdentifier.for_uid("orders").uid_hash
    (state,) = operator["states"]
    assert sp.signature(golden).operators[0].label == operator["uid_hash"]
    assert (state["kind"], state["key_type"], state["ttl"]) == ("VALUE", "STRING", False)
    assert state["value_type"].startswith("POJO<a.Total")


def test_a_change_that_flink_accepts_is_a_warning(golden: Path, tmp_path: Path) -> None:
    more = sp.Types.POJO("a.Total", {"cents": sp.Types.LONG(), "currency": sp.Types.STRING()})
    path = savepoint(tmp_path / "new", {"total": more}, total={"amelia": (3, "EUR")}, seen={"amelia": True})
    code, output = ran(tmp_path, CHECK.format(path=path))
    assert code == 0, output
    assert "state 'total' of operator" in output
    assert "has changed compatibly" in output
    assert "state 'seen' of operator" in output


@pytest.mark.parametrize(
    ("type_", "values", "reason"),
    [
        (sp.Types.POJO("a.Total", {"cents": sp.Types.STRING()}), {"amelia": ("3",)}, "value POJO<a.Total> has changed"),
        (sp.Types.POJO("a.Total", {"cents": sp.Types.LONG()}), {7: (3,)}, "key was STRING and is LONG"),
        (sp.ListState(sp.Types.LONG()), {"amelia": [3]}, "was VALUE and is LIST"),
    ],
)
def test_a_change_that_flink_refuses_fails(
    golden: Path, tmp_path: Path, type_: object, values: dict[object, object], reason: str
) -> None:
    code, output = ran(tmp_path, CHECK.format(path=savepoint(tmp_path / "new", {"total": type_}, total=values)))
    assert code == 1
    assert "Flink would refuse to restore" in output
    assert reason in output


def test_an_operator_that_is_missing_fails(golden: Path, tmp_path: Path) -> None:
    write_savepoint(str(tmp_path / "new"), {"other": {"total": {"amelia": 3}}}, {}, {}, 128, "1.20")
    code, output = ran(tmp_path, CHECK.format(path=str(tmp_path / "new")))
    assert (code, "--allowNonRestoredState" in output) == (1, True)


def test_operators_are_the_same_by_uid_and_by_hash(tmp_path: Path) -> None:
    """Flink 1.x records hashes of uids only; the job wrote the same states with both backends."""
    path = str(FIXTURES / "1.20.5" / "orders-rocksdb-canonical" / "savepoint")
    assert ran(tmp_path, CHECK.format(path=ORDERS_PATH), "--update-state-schema")[0] == 0
    code, output = ran(tmp_path, CHECK.format(path=path))
    assert code == 0, output


def test_values_whose_types_are_unknown_are_refused(tmp_path: Path) -> None:
    for states, place in (({"total": {"a": (1, 2)}}, "orders.total"), ({"total": {"a": 1, 2: 3}}, "keys of orders")):
        with pytest.raises(sp.OptionError, match=f"{place}: expected values of one of the types"):
            savepoint(tmp_path / "none", {}, **states)
    with pytest.raises(sp.OptionError, match="does not have the state 'totl'"):
        savepoint(tmp_path / "none", {"totl": sp.Types.LONG()}, total={"a": 1})
